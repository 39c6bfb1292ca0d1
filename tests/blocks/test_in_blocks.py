"""The extensions in Blocks' own main loop, with its bricks, algorithms, monitoring and logs."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import needs_blocks
import numpy
import pytest
from blocks import config
from blocks.extensions import FinishAfter, SimpleExtension
from blocks.log.sqlite import SQLiteLog
from blocks_loop import assert_same_run, fail, make_main_loop, rows_of
from drifting import At, interrupt
from event_counting import NoteEvents
from interventions import Do

from blocks_checkpoint import (
    Checkpoint,
    LoadError,
    LoadParameters,
    ParameterMismatch,
    Resume,
    SaveError,
    UnpicklableError,
    continue_training,
    load_log,
    load_parameters,
    open_checkpoint,
)
from blocks_checkpoint.replay import replay

pytestmark = needs_blocks.MARKS


@pytest.fixture(scope="module")
def straight():
    """The run that is never interrupted."""
    main_loop = make_main_loop(epochs=3)
    main_loop.run()
    return main_loop


def terminate(main_loop):
    os.kill(os.getpid(), signal.SIGTERM)


def ctrl_c(main_loop):
    os.kill(os.getpid(), signal.SIGINT)


def test_extensions_are_extensions_of_blocks():
    for cls in (Checkpoint, Resume, LoadParameters):
        assert issubclass(cls, SimpleExtension)


def test_names_are_those_of_the_model_and_every_array_is_there_once(path):
    main_loop = make_main_loop(Checkpoint(path), epochs=1)
    main_loop.run()
    assert set(load_parameters(path)) == set(main_loop.model.get_parameter_dict())
    with numpy.load(path) as arrays, open_checkpoint(path) as saved:
        assert saved.verify() == []
        assert arrays["mlp/linear_0/W.mean"].shape == (4, 6)
        for name in saved.arrays:
            assert isinstance(arrays[name], numpy.ndarray)
        pickles = b"".join(saved.archive.read(name) for name in saved.manifest["pickles"])
        for name in ("mlp/linear_0/W", "mlp/linear_0/W.mean", "learning_rate"):
            assert saved.arrays[name].tobytes() not in pickles


@pytest.mark.parametrize(
    ("how", "batches"),
    [*((interrupt, batches) for batches in (1, 3, 4, 8, 11)), (terminate, 5), (ctrl_c, 6)],
)
def test_interrupted_run_is_saved_and_continues_exactly(path, straight, batches, how):
    """Blocks has a name for the event of an interruption, and never fires it."""
    main_loop = make_main_loop(
        Checkpoint(path, every_n_epochs=100), At(how, after_n_batches=batches)
    )
    main_loop.run()
    assert main_loop.log.current_row["saved_to"] == (path,)
    # Ctrl-C ends the epoch.
    assert load_log(path).status["iterations_done"] == (8 if how is ctrl_c else batches)
    continued = continue_training(path)
    assert_same_run(continued, straight)
    assert not continued.status["batch_interrupt_received"]


def test_resumed_in_a_newly_built_loop_it_is_the_same_run(path, straight):
    make_main_loop(Checkpoint(path), At(interrupt, after_n_batches=6)).run()
    resumed = make_main_loop(first=[Resume(path, load_log=True, load_iteration_state=True)])
    resumed.run()
    assert_same_run(resumed, straight)
    assert resumed.log[6]["loaded_from"] == path


@pytest.mark.parametrize("triggers", [{"after_training": False}, {"on_interrupt": False}])
def test_one_of_two_triggers_is_enough_for_an_interrupted_run(path, triggers):
    main_loop = make_main_loop(
        Checkpoint(path, every_n_epochs=100, **triggers), At(interrupt, after_n_batches=2)
    )
    main_loop.run()
    assert main_loop.log[2]["saved_to"] == (path,)


def test_finished_run_trains_nothing_and_its_file_stays(path):
    make_main_loop(Checkpoint(path), epochs=2).run()
    content = Path(path).read_bytes()
    assert continue_training(path).status["iterations_done"] == 8
    again = make_main_loop(Checkpoint(path), epochs=2, first=[Resume(path, load_log=True)])
    again.run()
    assert again.status["iterations_done"] == 8
    assert Path(path).read_bytes() == content


def test_limit_can_be_raised_both_ways(path, tmp_path, straight):
    for how in ("continue", "resume"):
        make_main_loop(Checkpoint(path), epochs=1).run()
        if how == "continue":
            main_loop = continue_training(path, extensions=[FinishAfter(after_n_epochs=3)])
        else:
            main_loop = make_main_loop(
                Checkpoint(path),
                first=[Resume(path, load_log=True, load_iteration_state=True)],
                epochs=3,
            )
            main_loop.run()
        assert_same_run(main_loop, straight)
    assert continue_training(path).status["epochs_done"] == 3


def test_error_of_training_is_not_hidden_and_can_be_saved_at(path, tmp_path):
    """Blocks leaves the error among the arguments of an event's user."""
    (tmp_path / "file").write_text("no folder")
    broken = Checkpoint(str(tmp_path / "file" / "x.zip"), after_epoch=False, on_error=True)
    main_loop = make_main_loop(At(fail, after_n_batches=2), Checkpoint(path, on_error=True), broken)
    with pytest.raises(ZeroDivisionError, match="the training's own error"):
        main_loop.run()
    assert main_loop.log[2]["saved_to"] == (path, None)
    assert load_log(path).status["iterations_done"] == 2


def test_failed_save_ends_training_or_does_not(path, tmp_path):
    (tmp_path / "file").write_text("no folder")
    target = str(tmp_path / "file" / "x.zip")
    with pytest.raises(SaveError):
        make_main_loop(Checkpoint(target), epochs=1).run()
    main_loop = make_main_loop(Checkpoint(target, on_failure="warn"), Checkpoint(path), epochs=1)
    main_loop.run()
    assert main_loop.log[4]["saved_to"][:2] == (None, path)


def test_unpicklable_loop_leaves_everything_else(path):
    main_loop = make_main_loop(
        At(lambda main_loop: None, after_epoch=True), Checkpoint(path), epochs=1
    )
    with pytest.raises(UnpicklableError, match=r"main_loop\.extensions\[4\]\.function"):
        main_loop.run()
    with open_checkpoint(path) as saved:
        assert saved.manifest["main_loop"] == "absent"
        assert "mlp/linear_0/W.mean" in saved.arrays
    resumed = make_main_loop(
        epochs=2, first=[Resume(path, load_log=True, load_iteration_state=True)]
    )
    resumed.run()
    whole = make_main_loop(epochs=2)
    whole.run()
    assert_same_run(resumed, whole)


def test_log_is_read_without_blocks_or_theano(path):
    make_main_loop(Checkpoint(path), epochs=1).run()
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment["PYTHONPATH"] = str(Path(sys.modules["blocks_checkpoint"].__file__).parents[1])
    code = (
        "import sys; from blocks_checkpoint import load_log\n"
        "log = load_log(sys.argv[1]); print(log.status['epochs_done'], 'valid_cost' in log[4])\n"
        "assert not {'blocks', 'theano', 'fuel'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, path], env=environment, capture_output=True, text=True
    )
    assert done.stdout == "1 True\n", done.stderr


def test_handlers_of_the_process_stay_out_of_the_file(path):
    """Blocks remembers them in its main loop, where a closure stands in the way of pickling."""
    said = []
    before = [signal.signal(n, lambda *args: said.append(args)) for n in (2, 15)]
    try:
        make_main_loop(Checkpoint(path), At(interrupt, after_n_batches=2)).run()
        with open_checkpoint(path) as saved:
            assert saved.manifest["main_loop"] == "present"
        assert continue_training(path).status["epochs_done"] == 3
    finally:
        for number, handler in zip((2, 15), before):
            signal.signal(number, handler)


# The log in a database


@pytest.fixture
def database(tmp_path, monkeypatch):
    place = str(tmp_path / "log.sqlite")
    monkeypatch.setattr(config, "sqlite_database", place, raising=False)
    return place


@pytest.mark.parametrize("how", ["continue", "resume"])
def test_run_with_its_log_in_a_database_goes_on(path, straight, database, how):
    def log():
        return SQLiteLog(database)

    make_main_loop(Checkpoint(path), At(interrupt, after_n_batches=6), log=log()).run()
    if how == "continue":
        main_loop = continue_training(path)
    else:
        main_loop = make_main_loop(
            first=[Resume(path, load_log=True, load_iteration_state=True)], log=log()
        )
        main_loop.run()
    assert isinstance(main_loop.log, SQLiteLog)
    assert_same_run(main_loop, straight)
    assert main_loop.log[6]["saved_to"][0] == path


def test_records_of_a_database_are_not_in_the_file_and_that_is_said(path, database):
    make_main_loop(Checkpoint(path), epochs=1, log=SQLiteLog(database)).run()
    with pytest.raises(LoadError, match="SQLite log are in its database"):
        load_log(path)
    assert len(load_parameters(path)) == 4
    os.rename(database, database + ".moved")
    with pytest.raises(LoadError, match="database"):
        make_main_loop(first=[Resume(path, load_log=True)], log=SQLiteLog(database + ".new")).run()


# Models


def make_normalised():
    import theano
    from blocks.bricks import BatchNormalization, Linear, Sequence, Tanh
    from blocks.initialization import Constant, IsotropicGaussian
    from blocks.model import Model

    linear = Linear(4, 6, weights_init=IsotropicGaussian(1), biases_init=Constant(0))
    normalisation = BatchNormalization(6)
    top = Sequence([linear.apply, normalisation.apply, Tanh().apply], name="top")
    top.initialize()
    cost = top.apply(theano.tensor.matrix("features")).sum()
    cost.name = "cost"
    return Model(cost), normalisation


def test_population_statistics_come_with_the_parameters(path):
    from blocks_checkpoint import dump

    model, normalisation = make_normalised()
    normalisation.population_mean.set_value(
        numpy.arange(6).astype(normalisation.population_mean.dtype)
    )
    main_loop = make_main_loop(epochs=1)
    main_loop._model = model
    dump(main_loop, path)
    fresh, normalisation = make_normalised()
    target = make_main_loop(epochs=1)
    target._model = fresh
    loading = LoadParameters(path)
    loading.main_loop = target
    loading.do()
    assert normalisation.population_mean.get_value().tolist() == [0, 1, 2, 3, 4, 5]


def test_two_bricks_of_one_name_both_survive(path):
    """What Blocks' report 480 began with."""
    import theano
    from blocks.bricks import Linear
    from blocks.initialization import Constant

    from blocks_checkpoint import dump, load

    first, second = (
        Linear(2, 2, name="same", weights_init=Constant(value), use_bias=False) for value in (1, 2)
    )
    for brick in (first, second):
        brick.initialize()
    plain = [theano.shared(numpy.float64(value), name="plain") for value in (3, 4)]
    dump([first, second, plain], path, parameters=[first.W, second.W, *plain])
    assert {k: v.ravel()[0] for k, v in load_parameters(path).items()} == {
        "/same.W_0": 1,
        "/same.W_1": 2,
        "plain_0": 3,
        "plain_1": 4,
    }
    loaded = load(path)
    assert [brick.W.get_value()[0, 0] for brick in loaded[:2]] == [1, 2]


def test_parameters_of_another_model_are_refused_in_one_error(path):
    make_main_loop(Checkpoint(path), epochs=1).run()
    model, _ = make_normalised()
    target = make_main_loop(first=[LoadParameters(path)])
    target._model = model
    target.extensions[0].main_loop = target
    with pytest.raises(ParameterMismatch) as caught:
        target.extensions[0].do()
    assert len(caught.value.unexpected) == 4
    assert len(caught.value.missing) == 6


# Real processes


@pytest.mark.parametrize("ending", ["interrupt", "end"])
def test_run_is_replayed_up_to_the_file_of_its_end(tmp_path, ending):
    early, late = str(tmp_path / "early.zip"), str(tmp_path / "late.zip")
    noting = NoteEvents(after_batch=True, after_training=True)
    ends = [Do(interrupt, after_n_batches=6)] if ending == "interrupt" else []
    first = Checkpoint(early, after_n_batches=4, after_training=False, on_interrupt=False)
    make_main_loop(*ends, noting, first, Checkpoint(late)).run()
    assert load_log(late).current_row["events"][-1] == "after_training"
    batches = 2 if ending == "interrupt" else 8
    assert str(replay(early, late)) == f"identical after {batches} batches"


TRAIN = """
    import os, sys, warnings
    warnings.simplefilter("ignore")
    from blocks_loop import make_main_loop, tell
    from drifting import At
    from blocks_checkpoint import Checkpoint, continue_training

    if __name__ == "__main__":
        if os.path.exists("run.zip"):
            main_loop = continue_training("run.zip")
        else:
            checkpoint = Checkpoint("run.zip", {triggers})
            main_loop = make_main_loop(At(tell, after_batch=True), checkpoint)
            main_loop.run()
        print("ended", main_loop.status["iterations_done"], flush=True)
"""


def start(folder, triggers=""):
    (folder / "train.py").write_text(textwrap.dedent(TRAIN).format(triggers=triggers))
    return subprocess.Popen(
        [sys.executable, "-u", "train.py"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("signals", "triggers", "iterations"),
    [
        pytest.param([signal.SIGINT], "every_n_epochs=100", 8, id="ctrl-c-ends-the-epoch"),
        pytest.param([signal.SIGINT, signal.SIGINT], "", 6, id="twice-the-batch"),
        pytest.param([signal.SIGTERM], "after_training=False", 6, id="sigterm-the-batch"),
        pytest.param([signal.SIGKILL], "every_n_batches=2", None, id="sigkill"),
    ],
)
def test_signalled_run_goes_on(tmp_path, straight, signals, triggers, iterations):
    process = start(tmp_path, triggers)
    for line in process.stdout:
        if line.strip() == "batch 6":
            break
    for number in signals:
        process.send_signal(number)
        time.sleep(0.05)
    output, errors = process.communicate(timeout=120)
    if iterations is not None:
        assert output.splitlines()[-1] == f"ended {iterations}", errors
        assert load_log(tmp_path / "run.zip").status["iterations_done"] == iterations
    output, errors = start(tmp_path, triggers).communicate(timeout=120)
    assert output.splitlines()[-1] == "ended 12", errors
    with open_checkpoint(tmp_path / "run.zip") as saved:
        main_loop = saved.main_loop()
    assert rows_of(main_loop.log) == rows_of(straight.log)
    assert_same_run(main_loop, straight)
