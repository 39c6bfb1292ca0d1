"""What happens in a run, in which order, and how a run ends and goes on."""

import os
import pickle
import signal
import threading

import pytest

from blocks_checkpoint.miniblocks.config import config
from blocks_checkpoint.miniblocks.datasets import IterableDataset
from blocks_checkpoint.miniblocks.extensions import FinishAfter, TrainingExtension
from blocks_checkpoint.miniblocks.log import TrainingLog
from blocks_checkpoint.miniblocks.main_loop import MainLoop
from blocks_checkpoint.miniblocks.utils.testing import MockAlgorithm, MockMainLoop

EVENTS = (
    "before_training",
    "on_resumption",
    "before_epoch",
    "before_batch",
    "after_batch",
    "after_epoch",
    "on_interrupt",
    "after_training",
    "on_error",
)


class Recorder(TrainingExtension):
    """Remembers the events, and does something at one of them."""

    def __init__(self, event=None, iteration=None, action=None):
        super().__init__()
        self.events = []
        self.trigger = (event, iteration)
        self.action = action

    def __getstate__(self):
        return {**self.__dict__, "action": None}

    def dispatch(self, callback_name, *args):
        self.events.append(str(callback_name))
        if self.trigger == (str(callback_name), self.main_loop.status["iterations_done"]):
            # Once: the iteration may come by again in the next run.
            self.trigger = (None, None)
            self.action()


class Snapshots(TrainingExtension):
    """Pickles the main loop after every batch and at the end, as a checkpoint would."""

    def __init__(self):
        super().__init__()
        self.taken = []

    def __getstate__(self):
        return {**self.__dict__, "taken": []}

    def take(self, *args):
        self.taken.append(pickle.dumps(self.main_loop))

    after_batch = after_epoch = after_training = on_interrupt = on_error = take


class BatchLog(TrainingExtension):
    """Writes the batch into the log."""

    def after_batch(self, batch):
        self.main_loop.log.current_row["batch"] = batch["data"]


def three_numbers():
    return IterableDataset([0, 1, 2]).get_example_stream()


def small_loop(*extensions):
    return MockMainLoop(data_stream=three_numbers(), extensions=[BatchLog(), *extensions])


def send(number):
    return lambda: os.kill(os.getpid(), number)


def batches(loop):
    return [loop.log[i]["batch"] for i in range(1, loop.status["iterations_done"] + 1)]


def comparable(loop):
    """The log, without what differs from run to run."""
    status = {name: value for name, value in loop.status.items() if name != "resumed_from"}
    return dict(loop.log), status


def test_events_come_in_this_order():
    recorder = Recorder()
    loop = small_loop(recorder, FinishAfter(after_n_epochs=2))
    loop.run()
    epoch = ["before_epoch", *["before_batch", "after_batch"] * 3, "after_epoch"]
    assert recorder.events == ["before_training", *epoch, *epoch, "after_training"]


def test_status_counts_batches_and_epochs():
    loop = small_loop(FinishAfter(after_n_epochs=2))
    loop.run()
    expected = {
        "iterations_done": 6,
        "epochs_done": 2,
        "_epoch_ends": [3, 6],
        "training_started": True,
        "epoch_started": False,
        "received_first_batch": True,
        "epoch_interrupt_received": False,
        "batch_interrupt_received": False,
        "resumed_from": None,
    }
    assert {name: loop.status[name] for name in expected} == expected
    assert loop.log.current_row["training_finished"]
    assert sorted(loop.log) == [1, 2, 3, 4, 5, 6]


def test_iteration_state_is_data_stream_and_epoch_iterator():
    loop = small_loop(FinishAfter(after_n_batches=2))
    assert loop.iteration_state == (loop.data_stream, None)
    loop.run()
    stream, iterator = loop.iteration_state
    assert next(iterator) == {"data": 2}
    other = small_loop()
    other.iteration_state = (stream, iterator)
    assert other.data_stream is stream
    assert other.epoch_iterator is iterator


def test_model_is_an_attribute_only_where_there_is_one():
    assert not hasattr(small_loop(), "model")
    model = object()
    assert MainLoop(MockAlgorithm(), three_numbers(), model=model).model is model


def test_find_extension_wants_exactly_one():
    recorder = Recorder()
    loop = small_loop(recorder, FinishAfter(), FinishAfter())
    assert loop.find_extension("Recorder") is recorder
    for name in ("FinishAfter", "Checkpoint"):
        with pytest.raises(ValueError, match="expected one"):
            loop.find_extension(name)


def test_empty_epoch_is_an_error():
    loop = MockMainLoop(data_stream=IterableDataset([]).get_example_stream())
    with pytest.raises(ValueError, match="no batch"):
        loop.run()


def test_profile_has_the_sections_that_timing_reads(capsys, monkeypatch):
    monkeypatch.setattr(config, "profile", True)
    loop = small_loop(FinishAfter(after_n_epochs=1))
    loop.run()
    assert loop.profile.total["training", "epoch", "train"] > 0
    assert loop.profile.total["training", "epoch", "read_data"] > 0
    assert "read data" in capsys.readouterr().err


# How a run is interrupted.


@pytest.mark.parametrize(
    ("signals", "iterations_done"),
    [
        pytest.param([signal.SIGINT], 3, id="once-ends-the-epoch"),
        pytest.param([signal.SIGINT, signal.SIGINT], 1, id="twice-ends-the-batch"),
        pytest.param([signal.SIGTERM], 1, id="sigterm-ends-the-batch"),
        pytest.param([signal.SIGINT, signal.SIGTERM], 1, id="both-end-the-batch"),
    ],
)
@pytest.mark.parametrize("event", ["before_batch", "before_training"])
def test_signal_ends_the_run_at_a_boundary(signals, iterations_done, event):
    recorder = Recorder(event, 0, lambda: [send(number)() for number in signals])
    loop = small_loop(recorder)
    loop.run()
    assert loop.status["iterations_done"] == iterations_done
    assert recorder.events[-2:] == ["on_interrupt", "after_training"]


def test_third_ctrl_c_ends_it_at_once():
    recorder = Recorder("before_batch", 1, lambda: [send(signal.SIGINT)() for _ in range(3)])
    loop = small_loop(recorder)
    with pytest.raises(KeyboardInterrupt):
        loop.run()
    assert recorder.events[-1] == "before_batch"
    assert loop.status["iterations_done"] == 1


def test_finished_run_is_not_interrupted():
    recorder = Recorder("before_batch", 2, send(signal.SIGINT))
    loop = small_loop(recorder, FinishAfter(after_n_epochs=1))
    loop.run()
    assert "on_interrupt" not in recorder.events


def test_handlers_of_before_are_restored_and_called_after_the_run():
    received = []
    recorder = Recorder("before_batch", 0, send(signal.SIGTERM))

    def handler(number, frame):
        received.append((number, list(recorder.events)))

    before = signal.signal(signal.SIGTERM, handler)
    try:
        small_loop(recorder).run()
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        signal.signal(signal.SIGTERM, before)
    ((number, events),) = received
    assert number == signal.SIGTERM
    assert events[-1] == "after_training"


def test_handlers_are_restored_after_an_error():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    loop = small_loop(Recorder("after_batch", 1, lambda: 1 / 0))
    with pytest.raises(ZeroDivisionError):
        loop.run()
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_run_outside_the_main_thread_leaves_handlers_alone():
    loop = small_loop(FinishAfter(after_n_epochs=1))
    thread = threading.Thread(target=loop.run)
    thread.start()
    thread.join()
    assert loop.log.current_row["training_finished"]


def test_handlers_do_not_travel():
    """Neither with a loop that runs nor with one that has run."""
    snapshots = Snapshots()
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        small_loop(snapshots, FinishAfter(after_n_batches=1)).run()
    finally:
        signal.signal(signal.SIGINT, before)
    loaded = pickle.loads(snapshots.taken[0])
    assert loaded.original_sigint_handler is None
    assert loaded.original_sigterm_handler is None


# What happens on errors.


def test_error_is_recorded_and_raised_again():
    recorder = Recorder("after_batch", 2, lambda: 1 / 0)
    loop = small_loop(recorder)
    with pytest.raises(ZeroDivisionError):
        loop.run()
    assert recorder.events[-1] == "on_error"
    assert "after_training" not in recorder.events
    assert "ZeroDivisionError" in loop.log.current_row["got_exception"]


def test_original_error_is_raised_when_on_error_fails_too(caplog):
    failing = Recorder("on_error", 1, lambda: {}["not there"])
    loop = small_loop(Recorder("after_batch", 1, lambda: 1 / 0), failing)
    with pytest.raises(ZeroDivisionError):
        loop.run()
    assert "KeyError" in caplog.text


def test_batch_that_failed_is_the_next_one():
    """Whoever goes on from the error trains on the batch that was not trained on."""
    snapshots = Snapshots()
    failing = Recorder("before_batch", 1, lambda: 1 / 0)
    loop = small_loop(failing, snapshots, FinishAfter(after_n_epochs=2))
    with pytest.raises(ZeroDivisionError):
        loop.run()
    resumed = pickle.loads(snapshots.taken[-1])
    resumed.run()
    assert batches(resumed) == [0, 1, 2, 0, 1, 2]
    assert not any("got_exception" in row for row in resumed.log.values())


# How a run goes on.


def test_resumed_from_any_batch_it_ends_like_the_run_that_went_through():
    snapshots = Snapshots()
    straight = small_loop(snapshots, FinishAfter(after_n_epochs=2))
    straight.run()
    assert len(snapshots.taken) == 6 + 2 + 1
    for taken in snapshots.taken:
        resumed = pickle.loads(taken)
        resumed.run()
        assert comparable(resumed) == comparable(straight)


@pytest.mark.parametrize("signals", [[signal.SIGINT], [signal.SIGTERM], [signal.SIGINT] * 2])
@pytest.mark.parametrize("iteration", [0, 1, 2])
def test_interrupt_leaves_no_trace_in_the_resumed_run(signals, iteration):
    straight = small_loop(FinishAfter(after_n_epochs=2))
    straight.run()
    action = Recorder("before_batch", iteration, lambda: [send(number)() for number in signals])
    loop = small_loop(action, FinishAfter(after_n_epochs=2))
    loop.run()
    assert loop.status["epochs_done"] < 2
    loop.run()
    assert comparable(loop) == comparable(straight)


def test_resumption_is_an_event_of_its_own():
    recorder = Recorder("before_batch", 1, send(signal.SIGTERM))
    loop = small_loop(recorder, FinishAfter(after_n_epochs=1))
    loop.run()
    first_uuid = loop.log.h_uuid
    recorder.events.clear()
    loop.run()
    assert recorder.events[:2] == ["on_resumption", "before_batch"]
    assert loop.status["resumed_from"] == first_uuid


def test_loop_pickled_before_it_ran_runs():
    loop = pickle.loads(pickle.dumps(small_loop(FinishAfter(after_n_epochs=1))))
    loop.run()
    assert batches(loop) == [0, 1, 2]


def test_interrupt_flags_of_a_loaded_log_do_not_count():
    log = TrainingLog()
    loop = MockMainLoop(data_stream=three_numbers(), log=log)
    loop.extensions.append(FinishAfter(after_n_epochs=2))
    log.status.update(epoch_interrupt_received=True, batch_interrupt_received=True)
    loop.run()
    assert loop.status["epochs_done"] == 2


def test_epoch_begins_anew_where_only_the_log_was_loaded():
    old = small_loop(FinishAfter(after_n_batches=2))
    old.run()
    new = small_loop(FinishAfter(after_n_epochs=1))
    new.log = old.log
    new.run()
    assert batches(new) == [0, 1, 0, 1, 2]


@pytest.mark.parametrize("is_pickled", [False, True])
def test_finished_run_trains_nothing_and_changes_nothing(is_pickled, caplog):
    recorder = Recorder()
    loop = small_loop(recorder, FinishAfter(after_n_epochs=1))
    loop.run()
    if is_pickled:
        loop = pickle.loads(pickle.dumps(loop))
        recorder = loop.find_extension("Recorder")
    recorder.events.clear()
    before = pickle.dumps((loop.log, loop.iteration_state))
    loop.run()
    assert recorder.events == []
    assert pickle.dumps((loop.log, loop.iteration_state)) == before
    assert "finished already" in caplog.text


def raise_in_place(loop):
    loop.find_extension("FinishAfter").set_conditions(after_n_epochs=3)


def raise_by_another_extension(loop):
    loop.extensions.append(FinishAfter(name="more", after_n_epochs=3))


def raise_by_predicate(loop):
    loop.find_extension("FinishAfter").add_condition(
        ["after_batch"], predicate=lambda log: log.status["iterations_done"] == 9
    )


@pytest.mark.parametrize("change", [raise_in_place, raise_by_another_extension, raise_by_predicate])
def test_finished_run_goes_on_when_its_limit_is_raised(change):
    loop = small_loop(FinishAfter(after_n_epochs=2))
    loop.run()
    change(loop)
    loop.run()
    assert batches(loop) == [0, 1, 2] * 3
    loop.run()
    assert loop.status["iterations_done"] == 9


def test_end_that_was_cut_off_is_made_up_for():
    """Saved at the last batch, then killed: the extensions still hear of the end."""
    snapshots, recorder = Snapshots(), Recorder()
    loop = small_loop(recorder, FinishAfter(after_n_batches=2), snapshots)
    loop.run()
    resumed = pickle.loads(snapshots.taken[1])
    recorder = resumed.find_extension("Recorder")
    recorder.events.clear()
    resumed.run()
    assert recorder.events == ["on_resumption", "after_training"]
    assert comparable(resumed) == comparable(loop)
