"""Going on from a checkpoint alone, in this process and in others, however the last one ended."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from drifting import At, assert_same_values, interrupt, make_main_loop, seen_by

from blocks_checkpoint import (
    Checkpoint,
    CheckpointNotFound,
    LoadError,
    continue_training,
    load_log,
    open_checkpoint,
)
from blocks_checkpoint.miniblocks.extensions import CompositeExtension, FinishAfter


@pytest.fixture(scope="module")
def straight():
    """The run that is never interrupted."""
    main_loop = make_main_loop(epochs=3)
    main_loop.run()
    return main_loop


def assert_same_run(one, other):
    """Compare everything that training produced."""
    assert_same_values(one, other)
    assert seen_by(one.log) == seen_by(other.log)
    for key in ("iterations_done", "epochs_done", "_epoch_ends", "epoch_started"):
        assert one.status[key] == other.status[key]


def interrupt_epoch(main_loop):
    main_loop.status["epoch_interrupt_received"] = True


@pytest.mark.parametrize("batches", range(1, 12))
def test_continued_run_is_the_run_that_was_never_interrupted(path, straight, batches):
    make_main_loop(Checkpoint(path), At(interrupt, after_n_batches=batches)).run()
    assert load_log(path).status["iterations_done"] == batches
    assert_same_run(continue_training(path), straight)


@pytest.mark.parametrize(
    "triggers",
    [
        {"before_training": True},
        {"before_epoch": True},
        {"before_batch": True},
        {"after_batch": True},
        {"after_epoch": True},
        {"every_n_batches": 5},
    ],
    ids=lambda triggers: next(iter(triggers)),
)
def test_every_kind_of_moment_can_be_continued_from(tmp_path, straight, triggers):
    """Each save of the run goes to a file of its own, and from each it ends alike."""
    make_main_loop(KeepAll(tmp_path / "run.zip", **triggers), epochs=2).run()
    (tmp_path / "kept").mkdir()
    kept = [path.rename(tmp_path / "kept" / path.name) for path in tmp_path.glob("*.zip")]
    assert kept
    for path in kept:
        continued = continue_training(path, extensions=[FinishAfter(after_n_epochs=3)])
        assert_same_run(continued, straight)


class KeepAll(Checkpoint):
    """Saves each time to another file."""

    def __init__(self, path, **triggers):
        super().__init__(path, after_training=False, on_interrupt=False, **triggers)

    def do(self, which_callback, *args):
        done = self.main_loop.status["iterations_done"]
        self.path = str(Path(self.path).with_name(f"{which_callback}-{done}.zip"))
        super().do(which_callback, *args)


# The end of a run


def test_finished_run_trains_nothing_and_its_file_stays(path, caplog):
    make_main_loop(Checkpoint(path), epochs=2).run()
    before = Path(path).read_bytes(), os.stat(path).st_mtime_ns, os.stat(path).st_ino
    again = continue_training(path)
    assert again.status["iterations_done"] == 8
    assert "finished already" in caplog.text
    assert (Path(path).read_bytes(), os.stat(path).st_mtime_ns, os.stat(path).st_ino) == before


@pytest.mark.parametrize(
    "limit", [{"after_n_epochs": 3}, {"after_n_batches": 12}], ids=["epochs", "batches"]
)
def test_limit_can_be_raised(path, straight, limit):
    make_main_loop(Checkpoint(path), epochs=1).run()
    continued = continue_training(path, extensions=[FinishAfter(**limit)])
    assert_same_values(continued, straight)
    # What was saved has the new limit, and not the old one.
    finished = continue_training(path)
    assert finished.status["iterations_done"] == 12
    assert [type(e).__name__ for e in finished.extensions] == [
        "NoteSeen",
        "FinishAfter",
        "Checkpoint",
    ]


def test_limit_that_is_lowered_ends_the_run_at_once(path):
    make_main_loop(Checkpoint(path), At(interrupt, after_n_epochs=2), epochs=9).run()
    continued = continue_training(path, extensions=[FinishAfter(after_n_epochs=1)])
    assert continued.status["epochs_done"] == 2


def test_limit_inside_a_composite_is_replaced_too(path, straight):
    composite = CompositeExtension([FinishAfter(after_n_epochs=2), Checkpoint(path)])
    main_loop = make_main_loop(composite, epochs=2)
    main_loop.run()
    continued = continue_training(path, extensions=[FinishAfter(after_n_epochs=3)])
    assert_same_run(continued, straight)


def test_added_extensions_come_before_the_one_that_saves(path):
    make_main_loop(Checkpoint(path), At(interrupt, after_n_batches=1), epochs=1).run()
    added = At(interrupt_epoch, after_epoch=True, name="added")
    continued = continue_training(path, extensions=[added])
    assert [e.name for e in continued.extensions] == [
        "FinishAfter",
        "NoteSeen",
        "added",
        "Checkpoint",
        "At",
    ]
    assert added.main_loop is continued
    with open_checkpoint(path) as saved:
        assert saved.main_loop().find_extension("added")


def test_before_training_is_not_called_a_second_time(path):
    make_main_loop(
        At(count_start, before_training=True), Checkpoint(path), At(interrupt, after_n_batches=1)
    ).run()
    assert continue_training(path).starts == 1


def count_start(main_loop):
    main_loop.starts = getattr(main_loop, "starts", 0) + 1


def test_main_loop_that_is_absent_is_said_to_be_and_why(path):
    make_main_loop(Checkpoint(path, save_main_loop=False), epochs=1).run()
    with pytest.raises(LoadError, match=r"main loop is not in this checkpoint.*Resume\(path"):
        continue_training(path)
    main_loop = make_main_loop(Checkpoint(path, on_failure="warn"), epochs=1)
    main_loop.thing = lambda: None
    main_loop.run()
    with pytest.raises(LoadError, match=r"(?s)because .*main_loop\.thing is a function"):
        continue_training(path)


def test_missing_file_is_an_error(path):
    with pytest.raises(CheckpointNotFound):
        continue_training(path)


# In real processes

TRAIN = """
    import os, signal, sys, time
    from drifting import At, make_main_loop, tell
    from blocks_checkpoint import Checkpoint, continue_training

    def handlers():
        return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    if __name__ == "__main__":
        {setup}
        before = handlers()
        if os.path.exists("run.zip"):
            main_loop = continue_training("run.zip")
        else:
            checkpoint = Checkpoint("run.zip", {triggers})
            main_loop = make_main_loop(At(tell, after_batch=True), checkpoint)
            main_loop.run()
        assert handlers() == before
        print("ended", main_loop.status["iterations_done"], flush=True)
"""


def start(folder, triggers="", setup="pass", options=()):
    (folder / "train.py").write_text(textwrap.dedent(TRAIN).format(triggers=triggers, setup=setup))
    return subprocess.Popen(
        [sys.executable, "-u", *options, "train.py"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def read_to(process, line):
    """Read what the process prints up to a line."""
    for printed in process.stdout:
        if printed.strip() == line:
            return
    raise AssertionError(f"{line!r} was never printed:\n{process.stderr.read()}")


def end(process):
    output, errors = process.communicate(timeout=60)
    return process.returncode, output.splitlines(), errors


@pytest.mark.parametrize(
    ("signals", "triggers", "iterations"),
    [
        pytest.param([signal.SIGINT], "", 8, id="ctrl-c-ends-the-epoch"),
        pytest.param([signal.SIGINT, signal.SIGINT], "", 6, id="twice-the-batch"),
        pytest.param([signal.SIGTERM], "every_n_epochs=100", 6, id="sigterm-the-batch"),
        pytest.param([signal.SIGTERM], "after_epoch=False, on_interrupt=False", 6, id="at-the-end"),
    ],
)
def test_signalled_run_is_saved_and_goes_on(tmp_path, straight, signals, triggers, iterations):
    process = start(tmp_path, triggers)
    read_to(process, "batch 6")
    for number in signals:
        process.send_signal(number)
        # Two of one kind that come together are one to the system.
        time.sleep(0.03)
    code, output, errors = end(process)
    assert (code, output[-1]) == (0, f"ended {iterations}"), errors
    assert load_log(tmp_path / "run.zip").status["iterations_done"] == iterations
    assert os.listdir(tmp_path).count("run.zip") == 1
    code, output, errors = end(start(tmp_path))
    assert (code, output[-1]) == (0, "ended 12"), errors
    with open_checkpoint(tmp_path / "run.zip") as saved:
        main_loop = saved.main_loop()
    assert_same_values(main_loop, straight)
    assert seen_by(main_loop.log) == seen_by(straight.log)
    for flag in ("epoch_interrupt_received", "batch_interrupt_received"):
        assert not main_loop.status[flag]
        assert not any(flag in row for row in main_loop.log.values())


def test_killed_run_goes_on_from_its_last_checkpoint(tmp_path, straight):
    for moment in ("batch 3", "batch 6", "batch 10"):
        process = start(tmp_path, "every_n_batches=2")
        read_to(process, moment)
        process.kill()
        end(process)
        assert [name for name in os.listdir(tmp_path) if name.endswith(".partial")] == []
    code, output, errors = end(start(tmp_path))
    assert (code, output[-1]) == (0, "ended 12"), errors
    with open_checkpoint(tmp_path / "run.zip") as saved:
        assert_same_values(saved.main_loop(), straight)


def test_run_interrupted_before_its_first_batch_is_saved_and_goes_on(path, straight):
    """The signal comes while the main loop gets ready."""
    make_main_loop(Checkpoint(path), At(terminate, before_training=True)).run()
    assert load_log(path).status["iterations_done"] <= 1
    assert_same_run(continue_training(path), straight)


def terminate(main_loop):
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(
    ("setup", "options"),
    [
        pytest.param(
            "word = 'closure'; signal.signal(signal.SIGTERM, lambda *args: print(word))",
            (),
            id="closure",
        ),
        pytest.param(
            "Log = type('Log', (), {'note': lambda self, *args: None}); "
            "signal.signal(signal.SIGINT, Log().note)",
            (),
            id="bound-method",
        ),
        pytest.param("signal.signal(signal.SIGTERM, signal.SIG_IGN)", (), id="ignored"),
        pytest.param("pass", ("-m", "pdb", "-c", "continue", "-c", "quit"), id="pdb"),
    ],
)
def test_signal_handlers_of_the_process_stay_out_of_the_file(tmp_path, setup, options):
    code, output, errors = end(start(tmp_path, setup=setup, options=options))
    assert "ended 12" in output, errors
    with open_checkpoint(tmp_path / "run.zip") as saved:
        assert saved.manifest["main_loop"] == "present"
    assert code == 0


def test_command_continues_the_newest_run_of_a_folder(tmp_path, straight):
    make_main_loop(Checkpoint(tmp_path / "b.zip"), At(interrupt, after_n_batches=6)).run()
    make_main_loop(Checkpoint(tmp_path / "a.zip"), At(interrupt, after_n_batches=7)).run()
    code = "from blocks_checkpoint.cli.continuing import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [
        f"continuing {tmp_path / 'a.zip'} at epoch 1, iteration 7",
        "ended at epoch 3, iteration 12",
    ]
    with open_checkpoint(tmp_path / "a.zip") as saved:
        assert_same_values(saved.main_loop(), straight)
