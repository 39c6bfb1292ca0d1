"""What signals do to a run that saves: one save, at a batch boundary, and no trace in the file."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading

import pytest
from drifting import BATCHES_PER_EPOCH, assert_same_values, make_main_loop, make_model, seen_by
from interventions import Do, SignalledDrift
from straight import StraightRun, state_of

from blocks_checkpoint import (
    Checkpoint,
    Resume,
    SaveError,
    commit,
    continue_training,
    load_log,
    load_main_loop,
    open_checkpoint,
)
from blocks_checkpoint.commit import STEPS
from blocks_checkpoint.errors import CheckpointWarning
from blocks_checkpoint.miniblocks.extensions import CompositeExtension, FinishAfter

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "SIGUSR1"), reason="the system knows no signals of the user's own"
)
if hasattr(signal, "SIGUSR1"):
    USR1, INT, TERM = signal.SIGUSR1, signal.SIGINT, signal.SIGTERM

EPOCHS = 3
LAST = EPOCHS * BATCHES_PER_EPOCH
SECONDS = "signal_to_saved_seconds"
BEFORE_REPLACE = STEPS[: STEPS.index("replace") + 1]


@pytest.fixture(autouse=True)
def handlers():
    """Check that every run gives back the handlers that it found."""
    numbers = (USR1, INT, TERM)
    found = [signal.getsignal(number) for number in numbers]
    yield
    assert [signal.getsignal(number) for number in numbers] == found


@pytest.fixture
def at_step():
    """Return a function that has another one called at a step of each save."""
    # Whoever imported the function to be called has this default.
    options = commit.replacing.__wrapped__.__kwdefaults__

    def call(step, function):
        options["on_step"] = lambda present: function() if present == step else None

    yield call
    options["on_step"] = None


def send(number):
    os.kill(os.getpid(), number)


def signalled_loop(signals, *extensions, epochs=EPOCHS):
    """Return a main loop that gets signals in the midst of some batches."""
    model = make_model()
    main_loop = make_main_loop(*extensions, epochs=epochs, model=model)
    main_loop.algorithm = SignalledDrift(model.parameters, signals)
    return main_loop


def on_signal(path, **options):
    """Return a Checkpoint that saves when it is asked to, and at nothing else."""
    nothing_else = {"after_epoch": False, "after_training": False, "on_interrupt": False}
    return Checkpoint(path, on_signal=USR1, **{**nothing_else, **options})


def saves_of(log):
    """Return after which batches something was saved, and how often."""
    return {time: len(log[time]["saved_to"]) for time in sorted(log) if "saved_to" in log[time]}


# A signal that asks for a save


def test_signal_in_a_batch_saves_after_it_and_training_goes_on(path):
    main_loop = signalled_loop({6: [USR1]}, on_signal(path))
    main_loop.run()
    assert saves_of(main_loop.log) == {6: 1}
    assert main_loop.status["iterations_done"] == LAST
    straight_run = StraightRun()
    assert state_of(load_main_loop(path)) == straight_run.after(6)
    assert state_of(main_loop) == straight_run.after(LAST)


@pytest.mark.parametrize("background", [False, True])
def test_time_from_the_signal_to_the_durable_file_is_in_the_log(path, background):
    main_loop = signalled_loop({2: [USR1], 6: [USR1]}, on_signal(path, background=background))
    main_loop.run()
    seconds = {time: row[SECONDS] for time, row in main_loop.log.items() if SECONDS in row}
    assert set(seconds) == {2, 6}
    assert all(0 < each < 60 for each in seconds.values())
    # In a file it can only be of the saves before.
    assert SECONDS not in load_log(path)[6]


@pytest.mark.parametrize(
    ("trigger", "saved"),
    [
        ({"before_training": True}, 1),
        ({"before_epoch": True}, 1),
        ({"before_batch": True}, 1),
        ({"after_n_batches": 3}, 3),
        ({"after_n_epochs": 1}, BATCHES_PER_EPOCH + 1),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else f"saved-after-{value}",
)
def test_signal_at_any_event_saves_at_the_next_batch_boundary(path, trigger, saved):
    sent = []

    def send_once(main_loop):
        if not sent:
            sent.append(main_loop.status["iterations_done"])
            send(USR1)

    # Before the Checkpoint, and what is sent first is not yet handled.
    main_loop = make_main_loop(on_signal(path), Do(send_once, **trigger), epochs=EPOCHS)
    main_loop.run()
    assert sent
    assert saves_of(main_loop.log) == {saved: 1}
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.verify() == []
        assert checkpoint.status["iterations_done"] == saved


def test_several_signals_before_the_boundary_are_one_save(path):
    main_loop = signalled_loop({3: [USR1, USR1, USR1]}, on_signal(path))
    main_loop.run()
    assert saves_of(main_loop.log) == {3: 1}


def test_batch_that_is_saved_after_anyway_is_saved_once(path):
    main_loop = signalled_loop({3: [USR1]}, on_signal(path, every_n_batches=3))
    main_loop.run()
    assert saves_of(main_loop.log) == {3: 1, 6: 1, 9: 1, 12: 1}
    assert main_loop.log[3][SECONDS] > 0
    assert SECONDS not in main_loop.log[6]


@pytest.mark.parametrize("step", STEPS)
def test_signal_during_a_save_lets_it_end_and_saves_after_the_next_batch(path, at_step, step):
    sent = []

    def send_once():
        if not sent:
            sent.append(step)
            send(USR1)

    at_step(step, send_once)
    main_loop = signalled_loop({3: [USR1]}, on_signal(path))
    main_loop.run()
    assert saves_of(main_loop.log) == {3: 1, 4: 1}
    assert load_main_loop(path).status["iterations_done"] == 4


def test_two_checkpoints_that_are_asked_both_save(path):
    other = f"{path}.other"
    main_loop = signalled_loop({3: [USR1]}, on_signal(path), on_signal(other))
    main_loop.run()
    assert main_loop.log[3]["saved_to"] == (path, other)


def test_checkpoint_inside_of_another_extension_is_asked_too(path):
    main_loop = signalled_loop({3: [USR1]}, CompositeExtension([on_signal(path)]))
    main_loop.run()
    assert saves_of(main_loop.log) == {3: 1}


def test_save_that_was_asked_for_and_fails_is_not_tried_at_every_batch(path, at_step, caplog):
    def fail():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    at_step("write", fail)
    main_loop = signalled_loop({3: [USR1]}, on_signal(path, on_failure="warn"))
    main_loop.run()
    assert {time: row["saved_to"] for time, row in main_loop.log.items() if "saved_to" in row} == {
        3: (None,)
    }
    assert SECONDS not in main_loop.log[3]
    assert main_loop.status["iterations_done"] == LAST


def test_run_that_was_saved_so_reacts_again_after_going_on_and_only_to_new_signals(path):
    signalled_loop({3: [USR1], 10: [USR1]}, on_signal(path)).run()
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.status["iterations_done"] == 10
    main_loop = load_main_loop(path)
    main_loop.algorithm.signals = {14: [USR1]}
    main_loop.extensions[0] = FinishAfter(after_n_epochs=4)
    main_loop.run()
    assert {time for time in saves_of(main_loop.log) if time > 10} == {14}


def test_handlers_of_the_users_own_are_called_and_given_back(path):
    received = []

    def handler(number, frame):
        received.append(number)

    before = signal.signal(USR1, handler)
    try:
        main_loop = signalled_loop({3: [USR1], 5: [USR1, USR1]}, on_signal(path))
        main_loop.run()
        assert received == [USR1] * 3
        assert signal.getsignal(USR1) is handler
    finally:
        signal.signal(USR1, before)


class TestError(Exception):
    __test__ = False


@pytest.mark.parametrize("error", [TestError, KeyboardInterrupt, SystemExit])
def test_handlers_are_given_back_by_a_run_that_an_error_ends(path, error):
    received = []

    def handler(number, frame):
        received.append(number)

    def fail(main_loop):
        raise error

    before = signal.signal(USR1, handler)
    try:
        main_loop = signalled_loop({1: [USR1]}, on_signal(path), Do(fail, after_n_batches=2))
        with pytest.raises(error):
            main_loop.run()
        send(USR1)
        assert received == [USR1, USR1]
        assert signal.getsignal(USR1) is handler
    finally:
        signal.signal(USR1, before)


def test_run_in_another_thread_warns_and_trains(path):
    outcome = []

    def train():
        main_loop = make_main_loop(on_signal(path, after_training=True))
        with pytest.warns(CheckpointWarning, match="main thread"):
            main_loop.run()
        outcome.append(saves_of(main_loop.log))

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert outcome == [{LAST: 1}]


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_signal_that_cannot_ask_is_refused_when_the_checkpoint_is_made(path, name):
    with pytest.raises(ValueError, match=name):
        Checkpoint(path, on_signal=getattr(signal, name))


# Signals that end the run

ENDINGS = {
    "interrupt": (lambda: [INT], 2 * BATCHES_PER_EPOCH),
    "interrupt-twice": (lambda: [INT, INT], 6),
    "termination": (lambda: [TERM], 6),
}


@pytest.mark.parametrize(("signals", "end"), ENDINGS.values(), ids=ENDINGS)
@pytest.mark.parametrize("way", ["continue", "resume"])
def test_signal_ends_the_run_with_one_save_and_the_run_that_goes_on_knows_nothing(
    path, signals, end, way
):
    saving = Checkpoint(path, every_n_epochs=100)
    main_loop = signalled_loop({6: signals()}, saving)
    main_loop.run()
    assert saves_of(main_loop.log) == {end: 1}
    assert 0 < main_loop.log[end][SECONDS] < 60
    if way == "continue":
        further = load_main_loop(path)
        further.algorithm.signals = {}
        further.run()
    else:
        resume = Resume(path, load_log=True, load_iteration_state=True)
        further = signalled_loop({}, resume, Checkpoint(path, every_n_epochs=100))
        further.run()
    assert further.status["iterations_done"] == LAST
    straight = make_main_loop()
    straight.run()
    assert_same_values(further, straight)
    assert seen_by(further.log) == seen_by(straight.log)


@pytest.mark.parametrize("step", STEPS)
def test_termination_during_a_save_leaves_a_whole_file_of_the_last_batch(path, at_step, step):
    sent = []

    def send_once():
        if not sent:
            sent.append(step)
            send(TERM)

    main_loop = signalled_loop({}, Checkpoint(path, every_n_batches=3))
    at_step(step, send_once)
    main_loop.run()
    assert saves_of(main_loop.log) == {3: 2}
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.verify() == []
        assert checkpoint.status["iterations_done"] == 3
    assert os.listdir(os.path.dirname(path)) == ["run.zip"]
    assert continue_training(path).status["iterations_done"] == LAST


@pytest.mark.parametrize("step", BEFORE_REPLACE)
def test_interrupt_during_the_last_save_leaves_the_file_of_before(path, at_step, step):
    """The third Ctrl-C ends a run at once, and here it comes while the second one's save is on."""
    before = []

    def interrupt():
        with open(path, "rb") as file:
            before.append(file.read())
        send(INT)

    main_loop = signalled_loop(
        {3: [INT, INT]},
        Checkpoint(path, every_n_batches=2, after_training=False),
        Do(lambda main_loop: at_step(step, interrupt), after_n_batches=3),
    )
    with pytest.raises(KeyboardInterrupt):
        main_loop.run()
    with open(path, "rb") as file:
        assert [file.read()] == before
    assert os.listdir(os.path.dirname(path)) == ["run.zip"]
    assert load_main_loop(path).status["iterations_done"] == 2


@pytest.mark.parametrize("step", ["create", "write", "sync_file", "replace", "sync_folder"])
def test_second_termination_during_the_last_save_ends_the_process_and_leaves_a_whole_file(
    tmp_path, step
):
    path = str(tmp_path / "run.zip")
    program = f"""
import os, signal
from drifting import make_main_loop
from interventions import Do
from blocks_checkpoint import Checkpoint, commit

def on_step(step):
    if step == {step!r} and main_loop.status["batch_interrupt_received"]:
        os.kill(os.getpid(), signal.SIGTERM)

commit.replacing.__wrapped__.__kwdefaults__["on_step"] = on_step
terminate = Do(lambda main_loop: os.kill(os.getpid(), signal.SIGTERM), after_n_batches=3)
main_loop = make_main_loop(Checkpoint({path!r}, every_n_batches=2), terminate)
main_loop.run()
print("never printed")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (-TERM, ""), done.stderr
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.verify() == []
        assert checkpoint.status["iterations_done"] == (3 if step == "sync_folder" else 2)
    left = set(os.listdir(tmp_path)) - {"run.zip"}
    assert len(left) <= 1
    continue_training(path)
    assert os.listdir(tmp_path) == ["run.zip"]


def test_error_of_a_save_at_the_end_does_not_keep_handlers(path, at_step):
    def fail():
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    at_step("write", fail)
    main_loop = signalled_loop({3: [TERM]}, Checkpoint(path, on_signal=USR1))
    with contextlib.suppress(SaveError):
        main_loop.run()
    assert main_loop.status["iterations_done"] == 3
