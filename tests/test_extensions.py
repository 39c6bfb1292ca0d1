"""Checkpoint, Resume and LoadParameters, in the main loop of miniblocks."""

import os
import pickle
import random
import stat
from pathlib import Path

import numpy
import pytest
from drifting import (
    BATCHES_PER_EPOCH,
    At,
    assert_same_values,
    interrupt,
    make_main_loop,
    make_model,
    seen_by,
    values_of,
)

from blocks_checkpoint import (
    Checkpoint,
    CheckpointNotFound,
    LoadParameters,
    ParameterMismatch,
    ParameterWarning,
    Resume,
    SaveError,
    UnpicklableError,
    continue_training,
    load_log,
    load_parameters,
    open_checkpoint,
)
from blocks_checkpoint.extensions import Load
from blocks_checkpoint.miniblocks.extensions import CompositeExtension, FinishAfter
from blocks_checkpoint.miniblocks.extensions.predicates import OnLogRecord
from blocks_checkpoint.miniblocks.extensions.training import TrackTheBest
from blocks_checkpoint.miniblocks.main_loop import MainLoop


def saves_of(log):
    """Return the iterations at which something was saved, with the paths."""
    return {time: log[time]["saved_to"] for time in sorted(log) if "saved_to" in log[time]}


# When it saves


@pytest.mark.parametrize(
    ("triggers", "times"),
    [
        ({}, {4: 1, 8: 2}),
        ({"every_n_epochs": 2}, {8: 2}),
        ({"every_n_batches": 3}, {3: 1, 6: 1, 8: 1}),
        ({"after_n_batches": 5}, {5: 1, 8: 1}),
        ({"after_n_epochs": 1}, {4: 1, 8: 1}),
        ({"after_batch": True, "after_training": False}, dict.fromkeys(range(1, 9), 1)),
        ({"before_epoch": True}, {0: 1, 4: 1, 8: 1}),
        ({"before_training": True}, {0: 1, 4: 1, 8: 2}),
        ({"after_epoch": False}, {8: 1}),
        ({"after_training": False}, {4: 1, 8: 1}),
    ],
    ids=lambda value: "-".join(map(str, value)) or "default",
)
def test_checkpoint_saves_when_its_triggers_say(path, triggers, times):
    main_loop = make_main_loop(Checkpoint(path, **triggers), epochs=2)
    main_loop.run()
    assert saves_of(main_loop.log) == {time: (path,) * count for time, count in times.items()}


def test_checkpoint_of_a_batch_that_is_interrupted_is_saved_once(path):
    main_loop = make_main_loop(
        Checkpoint(path, every_n_epochs=100), At(interrupt, after_batch=True)
    )
    main_loop.run()
    assert saves_of(main_loop.log) == {1: (path,)}


@pytest.mark.parametrize("triggers", [{"on_interrupt": False}, {"after_training": False}])
def test_checkpoint_of_an_interrupted_run_needs_one_of_two_triggers(path, triggers):
    main_loop = make_main_loop(
        Checkpoint(path, every_n_epochs=100, **triggers), At(interrupt, after_batch=True)
    )
    main_loop.run()
    assert saves_of(main_loop.log) == {1: (path,)}


def fail(main_loop):
    raise ZeroDivisionError("the training's own error")


def test_path_of_a_condition_is_used_instead(path, tmp_path):
    best = tmp_path / "best.zip"
    checkpoint = Checkpoint(path, after_epoch=False)
    checkpoint.add_condition(["after_epoch"], is_second_epoch, (str(best),))
    main_loop = make_main_loop(checkpoint, epochs=3)
    main_loop.run()
    assert saves_of(main_loop.log) == {8: (str(best),), 12: (path,)}
    assert saves_of(load_log(best)) == {8: (str(best),)}


def test_path_of_a_condition_may_be_a_pathlike(path, tmp_path):
    checkpoint = Checkpoint(path, after_epoch=False)
    checkpoint.add_condition(["after_epoch"], None, (tmp_path / "each.zip",))
    main_loop = make_main_loop(checkpoint, epochs=1)
    main_loop.run()
    assert main_loop.log[4]["saved_to"] == (str(tmp_path / "each.zip"), path)


def test_two_paths_at_the_end_of_an_interrupted_run_are_both_saved_to(path, tmp_path):
    final = str(tmp_path / "final.zip")
    checkpoint = Checkpoint(path, every_n_epochs=100)
    checkpoint.add_condition(["after_training"], None, (final,))
    main_loop = make_main_loop(checkpoint, At(interrupt, after_batch=True))
    main_loop.run()
    assert saves_of(main_loop.log) == {1: (path, final)}


def is_second_epoch(log):
    return log.status["epochs_done"] == 2


def test_best_file_is_not_written_again_by_a_worse_epoch_after_resuming(path, tmp_path):
    """The best value travels in the log, hence patience and the best file are kept."""
    best = str(tmp_path / "best.zip")

    def extensions():
        keep_best = Checkpoint(path)
        keep_best.add_condition(["after_epoch"], OnLogRecord("score_best_so_far"), (best,))
        return [Score(after_epoch=True), TrackTheBest("score"), keep_best]

    make_main_loop(*extensions(), epochs=3).run()
    saved_at = os.stat(best).st_mtime_ns, os.stat(best).st_ino
    assert load_log(best).status["epochs_done"] == 2
    make_main_loop(*extensions(), epochs=5, first=[Resume(path, load_log=True)]).run()
    assert (os.stat(best).st_mtime_ns, os.stat(best).st_ino) == saved_at
    continue_training(path, extensions=[FinishAfter(after_n_epochs=7)])
    assert (os.stat(best).st_mtime_ns, os.stat(best).st_ino) == saved_at


class Score(At):
    """A score that is best in the second epoch."""

    def __init__(self, **triggers):
        super().__init__(None, **triggers)

    def do(self, which_callback, *args):
        log = self.main_loop.log
        log.current_row["score"] = abs(log.status["epochs_done"] - 2)


def test_triggers_count_on_from_where_the_run_was_left(path):
    """Saved at 5 with every_n_batches=3, the next is at 6."""
    checkpoint = Checkpoint(path, every_n_batches=3)
    main_loop = make_main_loop(checkpoint, At(interrupt, after_n_batches=5))
    main_loop.run()
    main_loop = continue_training(path)
    assert sorted(saves_of(main_loop.log)) == [3, 5, 6, 9, 12]


# What it is called and given


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"on_failure": "ignore"}, "'raise' or 'warn'"),
        ({"save_separately": "log"}, r"\['log'\]"),
    ],
)
def test_checkpoint_refuses_arguments_when_it_is_made(path, arguments, message):
    with pytest.raises(ValueError, match=message):
        Checkpoint(path, **arguments)


def test_checkpoint_refuses_a_trigger_it_does_not_know(path):
    with pytest.raises(TypeError):
        Checkpoint(path, every_epoch=1)


def test_arguments_of_blocks_are_accepted_in_the_order_of_blocks(path):
    model = make_model()
    checkpoint = Checkpoint(path, model.parameters, ["log"], True, True, after_epoch=True)
    make_main_loop(checkpoint, model=model, epochs=1).run()
    assert set(load_parameters(path)) == set(model.get_parameter_dict())


def test_checkpoint_without_a_path_saves_nothing_by_itself(tmp_path):
    checkpoint = Checkpoint(None)
    checkpoint.add_condition(["after_epoch"], is_second_epoch, (str(tmp_path / "second.zip"),))
    main_loop = make_main_loop(checkpoint, At(interrupt, after_n_epochs=3), epochs=5)
    main_loop.run()
    assert saves_of(main_loop.log) == {8: (str(tmp_path / "second.zip"),)}


def test_condition_without_a_path_where_there_is_none_is_a_failed_save():
    checkpoint = Checkpoint(None, after_epoch=True)
    main_loop = make_main_loop(checkpoint)
    with pytest.raises(SaveError, match="no path"):
        main_loop.run()
    assert main_loop.log[4]["saved_to"] == (None,)


def test_unknown_attribute_of_the_main_loop_is_an_error_even_where_failures_are_not(path):
    for on_failure in ("raise", "warn"):
        checkpoint = Checkpoint(path, save_separately=["foo"], on_failure=on_failure)
        main_loop = make_main_loop(checkpoint)
        with pytest.raises(AttributeError, match="foo"):
            main_loop.run()
        assert main_loop.log[4]["saved_to"] == (None,)
    assert not os.path.exists(path)


def test_further_attributes_get_members_of_their_own(path):
    checkpoint = Checkpoint(path, save_separately=["log", "model"])
    main_loop = make_main_loop(checkpoint, epochs=1)
    main_loop.run()
    with open_checkpoint(path) as saved:
        assert set(saved.manifest["pickles"]) == {"pkl", "log", "iteration_state", "model"}
        model = saved.load("model")
        loaded = saved.main_loop()
    for name, values in main_loop.model.get_parameter_values().items():
        assert numpy.array_equal(model.get_parameter_values()[name], values)
    # The member is a copy; the main loop has its own.
    assert_same_values(loaded, main_loop)


def test_without_main_loop_parameters_and_the_named_parts_are_saved(path):
    main_loop = make_main_loop(
        Checkpoint(path, save_main_loop=False, save_separately=["log"]), epochs=1
    )
    main_loop.run()
    with open_checkpoint(path) as saved:
        assert saved.manifest["main_loop"] == "absent"
        assert "main_loop_error" not in saved.manifest
        assert set(saved.manifest["pickles"]) == {"log"}
        assert set(saved.arrays) == {
            "mlp/linear_0/W",
            "mlp/linear_0/b",
            "mlp/linear_1/W",
            "mlp/linear_1/b",
        }
    resumed = make_main_loop(epochs=2, first=[Resume(path, load_log=True)])
    resumed.run()
    assert resumed.status["epochs_done"] == 2


def test_parameters_that_the_loop_does_not_reach_are_saved(path):
    from blocks_checkpoint.engines import current

    beside = current().shared(numpy.arange(3.0), name="beside")
    main_loop = make_main_loop(epochs=1)
    checkpoint = Checkpoint(path, parameters=[*main_loop.model.parameters, beside])
    main_loop.extensions.append(checkpoint)
    main_loop.run()
    assert load_parameters(path)["beside"].tolist() == [0, 1, 2]


def test_main_loop_without_a_model_is_saved_with_what_its_algorithm_trains(path):
    with_model = make_main_loop(epochs=1)
    main_loop = MainLoop(
        with_model.algorithm,
        with_model.data_stream,
        extensions=[*with_model.extensions, Checkpoint(path)],
    )
    main_loop.run()
    assert set(load_parameters(path)) == set(with_model.model.get_parameter_dict())
    fresh = make_main_loop(epochs=1)
    target = MainLoop(fresh.algorithm, fresh.data_stream, extensions=[LoadParameters(path)])
    target.extensions[0].main_loop = target
    target.extensions[0].do()
    for name, values in load_parameters(path).items():
        assert numpy.array_equal(fresh.model.get_parameter_values()[name], values)


def test_checkpoint_itself_can_be_pickled():
    checkpoint = pickle.loads(pickle.dumps(Checkpoint("run.zip", every_n_epochs=3, verify=True)))
    assert (checkpoint.path, checkpoint.verify) == ("run.zip", True)
    assert [event for event, _, _ in checkpoint._conditions] == [
        "after_epoch",
        "on_interrupt",
        "after_training",
    ]


def test_missing_folders_are_made(tmp_path):
    path = tmp_path / "runs" / "first" / "run.zip"
    make_main_loop(Checkpoint(path), epochs=1).run()
    assert load_log(path).status["epochs_done"] == 1


def test_file_has_the_mode_that_the_umask_gives(path):
    before = os.umask(0o022)
    try:
        make_main_loop(Checkpoint(path), epochs=1).run()
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o644


def test_checkpoint_that_is_read_back_is_an_ordinary_one(path):
    make_main_loop(Checkpoint(path, verify=True), epochs=1).run()
    with open_checkpoint(path) as saved:
        assert saved.verify() == []


def test_checkpoint_inside_a_composite_extension_saves(path):
    make_main_loop(CompositeExtension([Checkpoint(path)]), epochs=1).run()
    assert continue_training(path).status["epochs_done"] == 1


def test_two_checkpoints_know_of_each_other_in_their_order(tmp_path):
    first, second = str(tmp_path / "first.zip"), str(tmp_path / "second.zip")
    main_loop = make_main_loop(Checkpoint(first), Checkpoint(second), epochs=1)
    main_loop.run()
    assert main_loop.log[4]["saved_to"] == (first, second, first, second)
    assert load_log(first)[4]["saved_to"] == (first, second, first)
    assert load_log(second)[4]["saved_to"] == (first, second, first, second)


def test_log_in_the_file_says_where_it_was_saved(path):
    main_loop = make_main_loop(Checkpoint(path), epochs=2)
    main_loop.run()
    assert saves_of(load_log(path)) == saves_of(main_loop.log) == {4: (path,), 8: (path, path)}


# What it leaves alone


def test_saving_changes_nothing_in_the_running_loop(path):
    """A run that is saved after each batch is the run that is never saved."""
    never = make_main_loop(epochs=2)
    never.run()
    saved = make_main_loop(Checkpoint(path, every_n_batches=1), epochs=2)
    saved.run()
    assert_same_values(never, saved)
    assert seen_by(never.log) == seen_by(saved.log)
    assert vars(never).keys() == vars(saved).keys()


def test_global_generators_are_as_they_were(path):
    note = NoteGenerators(after_batch=True)
    make_main_loop(note, Checkpoint(path, every_n_batches=1), note).run()
    assert note.states[::2] == note.states[1::2]


class NoteGenerators(At):
    def __init__(self, **triggers):
        super().__init__(None, **triggers)
        self.states = []

    def do(self, which_callback, *args):
        self.states.append((random.getstate(), str(numpy.random.get_state())))


def test_loading_parameters_leaves_the_global_generators_alone(path):
    make_main_loop(Checkpoint(path), epochs=1).run()
    one = make_main_loop(epochs=1)
    one.run()
    other = make_main_loop(epochs=1, first=[LoadParameters(path)])
    other.run()
    assert seen_by(one.log) == seen_by(other.log)
    numpy.random.seed(1)
    expected = numpy.random.RandomState(1).uniform()
    LoadParameters(path)
    assert numpy.random.uniform() == expected


# When it fails


def test_failed_save_ends_training_with_its_reason_and_leaves_the_file(path, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    checkpoint = Checkpoint(path, after_training=False)
    checkpoint.add_condition(["after_epoch"], is_second_epoch, (str(tmp_path / "file" / "x.zip"),))
    main_loop = make_main_loop(checkpoint)
    with pytest.raises(SaveError, match=r"file.x\.zip.*(folder|Not a directory)"):
        main_loop.run()
    assert main_loop.log[8]["saved_to"] == (path, None)
    assert "SaveError" in main_loop.log[8]["save_error"]
    assert load_log(path).status["epochs_done"] == 2
    assert sorted(os.listdir(tmp_path)) == ["file", "run.zip"]


def test_failed_save_that_only_warns_lets_training_go_on(path, tmp_path, caplog):
    (tmp_path / "file").write_text("not a folder")
    main_loop = make_main_loop(
        Checkpoint(str(tmp_path / "file" / "x.zip"), on_failure="warn"), Checkpoint(path), epochs=2
    )
    main_loop.run()
    assert main_loop.log[8]["saved_to"] == (None, path, None, path)
    assert "training goes on" in caplog.text
    assert "x.zip" in main_loop.log[4]["save_error"]
    assert load_log(path)[4]["saved_to"] == (None, path)


def test_failing_save_does_not_hide_the_error_of_training(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    checkpoint = Checkpoint(str(tmp_path / "file" / "x.zip"), after_epoch=False, on_error=True)
    main_loop = make_main_loop(At(fail, after_n_batches=2), checkpoint)
    with pytest.raises(ZeroDivisionError, match="the training's own error"):
        main_loop.run()
    assert "ZeroDivisionError" in main_loop.log[2]["got_exception"]
    assert main_loop.log[2]["saved_to"] == (None,)


def test_run_that_an_error_ended_goes_on_where_it_was(path):
    main_loop = make_main_loop(At(fail, after_n_batches=2), Checkpoint(path, on_error=True))
    with pytest.raises(ZeroDivisionError):
        main_loop.run()
    resumed = make_main_loop(
        epochs=3, first=[Resume(path, load_log=True, load_iteration_state=True)]
    )
    resumed.run()
    straight = make_main_loop(epochs=3)
    straight.run()
    assert_same_values(resumed, straight)
    assert seen_by(resumed.log) == seen_by(straight.log)


class Unpicklable:
    def __reduce__(self):
        raise ZeroDivisionError("not for pickling")


def test_unpicklable_loop_is_saved_without_itself_and_says_so(path):
    main_loop = make_main_loop(Checkpoint(path), epochs=1)
    main_loop.thing = Unpicklable()
    with pytest.raises(UnpicklableError, match=r"main_loop\.thing is a .*Unpicklable") as caught:
        main_loop.run()
    assert caught.value.path == path
    with open_checkpoint(path) as saved:
        assert saved.manifest["main_loop"] == "absent"
        assert "main_loop.thing" in saved.manifest["main_loop_error"]
        assert saved.log()[4]["saved_to"] == (path,)
        assert saved.verify() == []
    assert main_loop.log[4]["saved_to"] == (None,)
    fresh = make_main_loop(epochs=1, first=[Resume(path, load_log=True, load_iteration_state=True)])
    fresh.extensions[0].main_loop = fresh
    fresh.extensions[0].do()
    assert_same_values(fresh, main_loop)


def test_unpicklable_loop_that_only_warns_trains_on(path, caplog):
    main_loop = make_main_loop(Checkpoint(path, on_failure="warn"), epochs=2)
    main_loop.thing = Unpicklable()
    main_loop.run()
    assert saves_of(main_loop.log) == {4: (None,), 8: (None, None)}
    assert "main_loop.thing" in caplog.text
    assert load_log(path).status["epochs_done"] == 2


def test_file_that_training_can_go_on_from_is_not_replaced_by_one_it_cannot(path, tmp_path):
    main_loop = make_main_loop(
        Checkpoint(path, on_failure="warn"), At(spoil, after_n_batches=6), epochs=3
    )
    main_loop.run()
    beside = str(tmp_path / "run.without_main_loop.zip")
    assert sorted(os.listdir(tmp_path)) == ["run.without_main_loop.zip", "run.zip"]
    with open_checkpoint(path) as complete, open_checkpoint(beside) as rest:
        assert complete.status["epochs_done"] == 1
        assert rest.status["epochs_done"] == 3
        assert rest.log()[12]["saved_to"] == (None, beside)
    assert continue_training(path).status["epochs_done"] == 3


def spoil(main_loop):
    main_loop.thing = lambda: None


def test_part_that_was_asked_for_and_cannot_be_pickled_is_named(path):
    main_loop = make_main_loop(
        Checkpoint(path, save_main_loop=False, save_separately=["thing"]), epochs=1
    )
    main_loop.thing = Unpicklable()
    with pytest.raises(UnpicklableError, match=r"main_loop\.thing"):
        main_loop.run()
    assert not os.path.exists(path)


# Resume


def test_resume_sets_parameters_and_buffers_and_starts_counting_anew(path):
    saved = make_main_loop(Checkpoint(path), epochs=2)
    saved.run()
    resumed = make_main_loop(first=[Resume(path)])
    resumed.extensions[0].main_loop = resumed
    resumed.extensions[0].do()
    assert_same_values(saved, resumed)
    assert resumed.status["iterations_done"] == 0
    assert resumed.log.current_row["loaded_from"] == path


@pytest.mark.parametrize("batches", [1, 2, 3, 4, 5, 7, 8, 11])
def test_resumed_run_is_the_run_that_was_never_interrupted(path, batches):
    """From any batch on: parameters, buffers, order of the data, noise, counts."""
    make_main_loop(Checkpoint(path), At(interrupt, after_n_batches=batches), epochs=3).run()
    resumed = make_main_loop(first=[Resume(path, load_log=True, load_iteration_state=True)])
    resumed.run()
    straight = make_main_loop(epochs=3)
    straight.run()
    assert_same_values(resumed, straight)
    assert seen_by(resumed.log) == seen_by(straight.log)
    assert resumed.status["_epoch_ends"] == straight.status["_epoch_ends"] == [4, 8, 12]


def test_log_without_iteration_state_begins_the_epoch_anew(path):
    make_main_loop(Checkpoint(path), At(interrupt, after_n_batches=6)).run()
    resumed = make_main_loop(epochs=3, first=[Resume(path, load_log=True)])
    resumed.run()
    assert resumed.status["iterations_done"] == 6 + 2 * BATCHES_PER_EPOCH
    assert resumed.status["_epoch_ends"] == [4, 10, 14]


def test_iteration_state_without_log_goes_on_in_the_epoch_and_counts_anew(path):
    straight = make_main_loop()
    straight.run()
    make_main_loop(Checkpoint(path), At(interrupt, after_n_batches=6)).run()
    resumed = make_main_loop(epochs=2, first=[Resume(path, load_iteration_state=True)])
    resumed.run()
    assert seen_by(resumed.log) == seen_by(straight.log)[6:]
    assert resumed.status["_epoch_ends"] == [2, 6]
    assert_same_values(resumed, straight)


def test_resume_goes_on_after_a_larger_limit_and_not_after_the_old_one(path):
    make_main_loop(Checkpoint(path), epochs=2).run()
    content = Path(path).read_bytes()
    again = make_main_loop(Checkpoint(path), epochs=2, first=[Resume(path, load_log=True)])
    again.run()
    assert again.status["iterations_done"] == 8
    assert Path(path).read_bytes() == content
    further = make_main_loop(Checkpoint(path), epochs=3, first=[Resume(path, load_log=True)])
    further.run()
    assert further.status["iterations_done"] == 12


def test_interrupt_flags_of_the_run_that_was_saved_do_not_stop_the_next(path):
    make_main_loop(Checkpoint(path), At(interrupt, after_n_batches=2)).run()
    assert load_log(path).status["batch_interrupt_received"]
    resumed = make_main_loop(first=[Resume(path, load_log=True, load_iteration_state=True)])
    resumed.run()
    assert resumed.status["epochs_done"] == 3
    assert not resumed.status["batch_interrupt_received"]


def test_resume_records_where_from_and_log_says_what_it_resumes(path):
    saved = make_main_loop(Checkpoint(path), epochs=1)
    saved.run()
    resumed = make_main_loop(epochs=2, first=[Resume(path, load_log=True)])
    resumed.run()
    assert resumed.log[4]["loaded_from"] == path
    assert resumed.status["resumed_from"] == saved.log.uuid.hex


def test_all_of_what_does_not_fit_is_one_error_that_changes_nothing(path):
    make_main_loop(Checkpoint(path), epochs=1).run()
    before = (model := make_model(dims=(3, 5, 2, 1))).get_parameter_values()
    for extension in (Resume(path), LoadParameters(path)):
        main_loop = make_main_loop(first=[extension], model=model)
        with pytest.raises(ParameterMismatch) as caught:
            main_loop.run()
        error = caught.value
        assert sorted(error.missing) == ["/mlp/linear_2.W", "/mlp/linear_2.b"]
        assert error.unexpected == []
        assert sorted(error.wrong_shape) == [
            ("/mlp/linear_0.W", (3, 4), (3, 5)),
            ("/mlp/linear_0.b", (4,), (5,)),
            ("/mlp/linear_1.W", (4, 2), (5, 2)),
        ]
        for name in [*error.missing, "(3, 4)", "(3, 5)", path]:
            assert name in str(error)
    for name, values in model.get_parameter_values().items():
        assert numpy.array_equal(values, before[name])


def test_resume_into_another_kind_of_stream_refuses_and_changes_nothing(path):
    from drifting import make_stream

    from blocks_checkpoint.miniblocks.streams import DataStream

    class OtherStream(DataStream):
        pass

    make_main_loop(Checkpoint(path), epochs=1).run()
    main_loop = make_main_loop(
        first=[Resume(path, load_log=True, load_iteration_state=True)],
        stream=make_stream(stream_class=OtherStream),
    )
    before = values_of(main_loop)
    from blocks_checkpoint import LoadError

    with pytest.raises(LoadError, match="OtherStream.*load_iteration_state") as caught:
        main_loop.run()
    assert caught.value.member == "iteration_state"
    assert all(numpy.array_equal(v, before[k]) for k, v in values_of(main_loop).items())
    main_loop = make_main_loop(
        epochs=2,
        first=[Resume(path, load_log=True)],
        stream=make_stream(stream_class=OtherStream),
    )
    main_loop.run()
    assert main_loop.status["epochs_done"] == 2


def test_missing_file_is_an_error_unless_it_is_said_to_be_none(path, caplog):
    for extension in (Resume(path), LoadParameters(path)):
        with pytest.raises(CheckpointNotFound, match=r"run\.zip") as caught:
            make_main_loop(first=[extension]).run()
        assert isinstance(caught.value, FileNotFoundError)
    for extension in (Resume(path, missing_ok=True), LoadParameters(path, missing_ok=True)):
        caplog.clear()
        main_loop = make_main_loop(first=[extension], epochs=1)
        main_loop.run()
        assert "starts afresh" in caplog.text
        assert "loaded_from" not in main_loop.log[0]


def test_dangling_link_is_not_a_fresh_start(path, tmp_path):
    os.symlink(tmp_path / "gone.zip", path)
    with pytest.raises(CheckpointNotFound):
        make_main_loop(first=[Resume(path, missing_ok=True)]).run()


def test_load_takes_the_arguments_of_blocks_and_forgives_a_missing_file(path):
    make_main_loop(first=[Load(path)], epochs=1).run()
    make_main_loop(Checkpoint(path), At(interrupt, after_n_batches=2)).run()
    loaded = make_main_loop(first=[Load(path, True, True)])
    loaded.run()
    assert loaded.status["_epoch_ends"] == [4, 8, 12]


@pytest.mark.parametrize("is_first", [True, False])
def test_extension_that_stands_behind_has_seen_the_event_that_is_saved(path, is_first):
    checkpoint = Checkpoint(path, after_training=False)
    counter = Counter(after_epoch=True)
    extensions = [checkpoint, counter] if is_first else [counter, checkpoint]
    make_main_loop(*extensions, epochs=3).run()
    with open_checkpoint(path) as saved:
        assert saved.main_loop().find_extension("Counter").calls == 3


class Counter(At):
    def __init__(self, **triggers):
        super().__init__(None, **triggers)
        self.calls = 0

    def do(self, which_callback, *args):
        self.calls += 1


# LoadParameters


def test_parameters_go_into_another_loop_and_nothing_else_does(path):
    saved = make_main_loop(Checkpoint(path), epochs=2)
    saved.run()
    fresh = make_main_loop(first=[LoadParameters(path)])
    fresh.extensions[0].main_loop = fresh
    fresh.extensions[0].do()
    for name, values in saved.model.get_parameter_values().items():
        assert numpy.array_equal(fresh.model.get_parameter_values()[name], values)
    assert all(not v.get_value().any() for v in fresh.algorithm.velocities)
    assert fresh.log[0]["loaded_from"] == path


def test_parameters_load_with_every_pickle_overwritten(path):
    main_loop = make_main_loop(Checkpoint(path), epochs=1)
    main_loop.run()
    with open_checkpoint(path) as saved:
        places = [
            (member.data_offset, member.size)
            for name, member in saved.archive.members.items()
            if not name.endswith((".npy", ".json"))
        ]
    with open(path, "r+b") as file:
        for offset, size in places:
            file.seek(offset)
            file.write(b"\xde" * size)
    target = make_main_loop(first=[LoadParameters(path)], epochs=1)
    target.extensions[0].main_loop = target
    target.extensions[0].do()
    for name, values in main_loop.model.get_parameter_values().items():
        assert numpy.array_equal(target.model.get_parameter_values()[name], values)


def test_parameters_that_fit_are_taken_with_a_warning_that_names_the_others(path):
    saved = make_main_loop(Checkpoint(path), epochs=1)
    saved.run()
    model = make_model(dims=(3, 4, 5))
    with pytest.warns(ParameterWarning, match=r"/mlp/linear_1\.W has shape \(4, 2\)"):
        make_main_loop(first=[LoadParameters(path, strict=False)], model=model, epochs=1).run()


def test_nothing_that_fits_is_an_error_even_if_not_strict(path):
    make_main_loop(Checkpoint(path), epochs=1).run()
    with pytest.raises(ParameterMismatch, match="Nothing in the file fits"):
        make_main_loop(
            first=[LoadParameters(path, strict=False)], model=make_model(name="other")
        ).run()


def test_extensions_are_those_of_blocks_where_blocks_works():
    try:
        from blocks.extensions import SimpleExtension
    except Exception:
        from blocks_checkpoint.miniblocks.extensions import SimpleExtension
    assert all(issubclass(cls, SimpleExtension) for cls in (Checkpoint, Resume, LoadParameters))
