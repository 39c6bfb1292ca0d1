"""When extensions act, and what those that come with the package do."""

import pickle
import re
from unittest.mock import Mock

import pytest

from blocks_checkpoint.miniblocks.datasets import IterableDataset
from blocks_checkpoint.miniblocks.extensions import (
    CallbackName,
    CompositeExtension,
    FinishAfter,
    Printing,
    ProgressBar,
    SimpleExtension,
    Timestamp,
    Timing,
    TrainingExtension,
)
from blocks_checkpoint.miniblocks.extensions.predicates import OnLogRecord
from blocks_checkpoint.miniblocks.log import TrainingLog
from blocks_checkpoint.miniblocks.schemes import (
    ConstantScheme,
    SequentialExampleScheme,
    SequentialScheme,
    ShuffledScheme,
)
from blocks_checkpoint.miniblocks.utils.testing import MockMainLoop


class Acts(SimpleExtension):
    """Remembers when it acted, and with what."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.done = []

    def do(self, which_callback, *args):
        status = self.main_loop.status
        self.done.append((str(which_callback), status["iterations_done"]))
        self.last_args = args


def run_with(extension, epochs=4, **kwargs):
    """Four epochs of two batches."""
    loop = MockMainLoop(
        data_stream=IterableDataset([10, 20]).get_example_stream(),
        extensions=[extension, FinishAfter(after_n_epochs=epochs)],
        **kwargs,
    )
    loop.run()
    return loop


@pytest.mark.parametrize(
    ("trigger", "acted"),
    [
        ({"before_training": True}, [("before_training", 0)]),
        ({"before_first_epoch": True}, [("before_epoch", 0)]),
        ({"before_epoch": True}, [("before_epoch", n) for n in (0, 2, 4, 6)]),
        ({"before_batch": True}, [("before_batch", n) for n in range(8)]),
        ({"after_batch": True}, [("after_batch", n) for n in range(1, 9)]),
        ({"after_epoch": True}, [("after_epoch", n) for n in (2, 4, 6, 8)]),
        ({"after_training": True}, [("after_training", 8)]),
        ({"after_n_epochs": 3}, [("after_epoch", 6)]),
        ({"every_n_epochs": 2}, [("after_epoch", 4), ("after_epoch", 8)]),
        ({"after_n_batches": 3}, [("after_batch", 3)]),
        ({"every_n_batches": 3}, [("after_batch", 3), ("after_batch", 6)]),
        ({"after_epoch": False, "after_n_batches": None}, []),
        ({"on_error": True, "on_interrupt": True, "on_resumption": True}, []),
    ],
)
def test_trigger_makes_it_act(trigger, acted):
    extension = Acts(**trigger)
    run_with(extension)
    assert extension.done == acted


def test_triggers_by_count_go_on_counting_after_resumption():
    extension = Acts(every_n_batches=3)
    loop = run_with(extension, epochs=2)
    assert extension.done == [("after_batch", 3)]
    loop.find_extension("FinishAfter").set_conditions(after_n_epochs=4)
    loop.run()
    assert extension.done == [("after_batch", 3), ("after_batch", 6)]


def test_set_conditions_replaces_all():
    extension = Acts(after_batch=True).set_conditions(after_training=True)
    run_with(extension)
    assert extension.done == [("after_training", 8)]


@pytest.mark.parametrize("misspelt", [{"after_epochs": True}, {"every_n_epoch": 1}])
def test_misspelt_trigger_is_refused(misspelt):
    with pytest.raises(TypeError):
        Acts(**misspelt)
    with pytest.raises(KeyError):
        Acts().set_conditions(**misspelt)


def test_misspelt_callback_in_a_condition_is_refused_when_it_is_compared():
    extension = Acts().add_condition(["after_epochs"])
    with pytest.raises(TypeError, match="after_epochs"):
        run_with(extension)
    assert CallbackName("after_epoch") == "after_epoch"
    assert CallbackName("after_epoch") != "after_batch"


def test_condition_has_a_predicate_and_arguments():
    extension = Acts().add_condition(
        ["before_epoch", "after_batch"],
        predicate=lambda log: log.status["iterations_done"] == 2,
        arguments=("path",),
    )
    run_with(extension)
    assert extension.done == [("after_batch", 2), ("before_epoch", 2)]
    assert extension.last_args == ("path",)


def test_conditions_want_a_list_of_callbacks():
    with pytest.raises(ValueError, match="list of names"):
        Acts().add_condition("after_epoch")


@pytest.mark.parametrize(
    ("callback", "args", "expected"),
    [
        ("after_epoch", ("a", "b"), ((), ("a", "b"))),
        ("before_batch", ("a", "b"), (("a",), ("b",))),
        ("after_batch", ("a",), (("a",), ())),
        ("on_error", ("a", "b"), (("a",), ("b",))),
        ("on_error", (), ((), ())),
    ],
)
def test_arguments_of_main_loop_and_user_are_told_apart(callback, args, expected):
    assert SimpleExtension.parse_args(callback, args) == expected


def test_extension_knows_its_main_loop_once_training_begins():
    extension = Acts(name="mine")
    with pytest.raises(ValueError, match="mine"):
        _ = extension.main_loop
    loop = run_with(extension)
    assert extension.main_loop is loop


def test_extension_added_between_runs_gets_the_main_loop_too():
    loop = run_with(Acts())
    late = Acts(on_resumption=True)
    loop.extensions += [late, FinishAfter(after_n_epochs=5)]
    loop.run()
    assert late.done == [("on_resumption", 8)]


@pytest.mark.parametrize("comes_first", [True, False])
def test_composite_passes_events_to_its_parts(comes_first):
    order = []
    parts = [Mock(spec=TrainingExtension), Mock(spec=TrainingExtension)]
    for name, part in zip("ab", parts):
        part.dispatch.side_effect = lambda *args, name=name: order.append(name)
    composite = CompositeExtension(parts, run_before_children=comes_first, after_epoch=True)
    composite.do = lambda *args: order.append("composite")
    composite.main_loop = MockMainLoop()
    composite.dispatch(CallbackName("after_epoch"))
    assert order == (["composite", "a", "b"] if comes_first else ["a", "b", "composite"])
    assert all(part.main_loop is composite.main_loop for part in parts)


def test_on_log_record_holds_while_the_record_is_true():
    log = TrainingLog()
    predicate = OnLogRecord("best")
    assert not predicate(log)
    log.current_row["best"] = True
    assert predicate(log)
    assert predicate == OnLogRecord("best") != OnLogRecord("worst")
    assert hash(predicate) == hash(OnLogRecord("best"))


def test_printing_shows_status_and_records_without_the_hidden_ones(capsys):
    run_with(Printing(), epochs=1)
    printed = capsys.readouterr().out
    titles = re.findall(r"^[A-Z ]{10,}$", printed, re.MULTILINE)
    assert titles == ["BEFORE FIRST EPOCH", "AFTER ANOTHER EPOCH", "TRAINING HAS BEEN FINISHED"]
    assert "iterations_done: 2" in printed
    assert "training_finished: True" in printed
    assert "_epoch_ends" not in printed


def test_timestamp_is_iso_8601():
    loop = run_with(Timestamp(log_record="when", separator="T"), epochs=1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?", loop.log[2]["when"])
    assert "when" in loop.log[0]


@pytest.mark.parametrize(
    ("scheme", "batches"),
    [
        (SequentialScheme(10, 3), 4),
        (ShuffledScheme([1, 2, 3, 4], 2), 2),
        (SequentialExampleScheme(10), 10),
        (ConstantScheme(3, num_examples=10), 4),
        (ConstantScheme(3), None),
        (None, None),
    ],
)
def test_progress_bar_knows_how_many_batches_there_are(scheme, batches):
    bar = ProgressBar()
    bar.main_loop = MockMainLoop()
    bar.main_loop.data_stream.iteration_scheme = scheme
    assert bar.get_iter_per_epoch() == batches


def test_progress_bar_begins_where_the_epoch_is():
    bar = ProgressBar()
    bar.main_loop = MockMainLoop()
    bar.main_loop.status.update(iterations_done=13, epochs_done=1, _epoch_ends=[10])
    made = bar.create_bar()
    assert made.n == 3
    made.close()


def test_progress_bar_is_not_pickled_and_is_closed_at_the_end():
    bar = ProgressBar()
    seen = []

    class Saves(TrainingExtension):
        def after_batch(self, batch):
            seen.append(pickle.loads(pickle.dumps(bar.__getstate__()["bar"])))

    loop = MockMainLoop(extensions=[bar, Saves(), FinishAfter(after_n_batches=3)])
    loop.run()
    assert seen == [None] * 3
    assert bar.bar is None


def test_timing_takes_means_since_it_was_last_triggered():
    loop = run_with(Timing(prefix="my", every_n_epochs=2, after_epoch=False), epochs=4)
    assert "time_initialization" in loop.log[0]
    assert [time for time in loop.log if "my_time_train_total" in loop.log[time]] == [4, 8]
    first, second = loop.log[4], loop.log[8]
    total = 2 * (first["my_time_train_this_epoch"] + second["my_time_train_this_epoch"])
    assert total == pytest.approx(second["my_time_train_total"])
    assert "my_time_read_data_this_epoch" in second


def test_timing_in_a_new_main_loop_leaves_out_the_epochs_of_the_old_one():
    old = run_with(Timing(), epochs=3)
    timing = Timing()
    new = MockMainLoop(log=old.log, extensions=[timing, FinishAfter(after_n_epochs=4)])
    new.run()
    row = new.log.current_row
    assert row["time_train_this_epoch"] == pytest.approx(row["time_train_total"])


def test_timing_wants_batches_or_epochs():
    with pytest.raises(ValueError, match="after_training"):
        run_with(Timing(after_training=True), epochs=1)
