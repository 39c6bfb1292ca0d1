"""Signals are noted, passed on, and given back."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest
from drifting import At, make_main_loop

from blocks_checkpoint.errors import CheckpointWarning
from blocks_checkpoint.signals import SignalWatch, seconds_since

pytestmark = pytest.mark.skipif(
    not hasattr(signal, "SIGUSR1"), reason="the system knows no signals of the user's own"
)
if hasattr(signal, "SIGUSR1"):
    USR1, USR2, INT, TERM = signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGTERM


@pytest.fixture(autouse=True)
def handlers():
    """Check that every test gives back the handlers that it found."""
    found = {number: signal.getsignal(number) for number in (USR1, USR2, INT, TERM)}
    yield found
    assert {number: signal.getsignal(number) for number in found} == found


@pytest.fixture
def users_handler():
    """Install a handler of the user's own, and return the list of what it got."""
    received = []

    def handler(number, frame):
        received.append((number, frame is not None))

    before = signal.signal(USR1, handler)
    yield received
    assert signal.getsignal(USR1) is handler
    signal.signal(USR1, before)


def send(number):
    os.kill(os.getpid(), number)


@pytest.fixture
def watch():
    made = SignalWatch(USR1)
    yield made
    made.end()


# What may be asked for


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        pytest.param(None, (), id="nothing"),
        pytest.param((), (), id="none"),
        pytest.param(lambda: USR1, ("SIGUSR1",), id="one"),
        pytest.param(lambda: int(USR1), ("SIGUSR1",), id="a-number"),
        pytest.param(lambda: [USR1, signal.SIGUSR2], ("SIGUSR1", "SIGUSR2"), id="two"),
        pytest.param(lambda: [USR1, USR1], ("SIGUSR1",), id="one-twice"),
    ],
)
def test_one_signal_or_several_may_ask(asked, names):
    assert SignalWatch(asked() if callable(asked) else asked).asked == names


@pytest.mark.parametrize(
    ("number", "words"),
    [
        pytest.param(lambda: INT, "ends training", id="interrupt"),
        pytest.param(lambda: TERM, "ends training", id="termination"),
        pytest.param(lambda: signal.SIGKILL, "no program can handle", id="kill"),
        pytest.param(lambda: signal.SIGSTOP, "no program can handle", id="stop"),
        pytest.param(lambda: 4000, "no program can handle", id="unheard-of"),
        pytest.param(lambda: 0, "no program can handle", id="zero"),
    ],
)
def test_signal_that_cannot_ask_is_refused_at_once(number, words):
    with pytest.raises(ValueError, match=words):
        SignalWatch(number())


# Noting


def test_signal_is_due_until_a_save_begins(watch):
    watch.begin(None)
    assert not watch.is_due()
    send(USR1)
    assert watch.is_due()
    assert watch.take() is not None
    assert not watch.is_due()
    assert watch.take() is None


def test_first_of_several_signals_counts(watch):
    watch.begin(None)
    start = time.monotonic()
    send(USR1)
    noted = time.monotonic()
    time.sleep(0.01)
    send(USR1)
    moment = watch.take()
    assert start <= moment <= noted
    assert seconds_since(moment) >= 0.01


def test_signal_that_comes_after_a_save_began_is_for_the_next_one(watch):
    watch.begin(None)
    send(USR1)
    first = watch.take()
    send(USR1)
    assert watch.is_due()
    assert watch.take() >= first


def test_signal_that_was_not_asked_for_is_left_alone():
    received = []
    before = signal.signal(USR2, lambda number, frame: received.append(number))
    watch = SignalWatch(USR1)
    try:
        watch.begin(None)
        send(USR2)
        assert not watch.is_due()
        assert watch.take() is None
        assert received == [USR2]
    finally:
        watch.end()
        signal.signal(USR2, before)


class SignalledLoop:
    """Handles a signal as main loops do."""

    def __init__(self):
        self.received = []

    def handle(self, number, frame):
        self.received.append(number)


@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM"])
def test_time_of_what_ends_training_is_noted_and_the_loops_handler_called(watch, number):
    number = getattr(signal, number)
    loop = SignalledLoop()
    before = signal.signal(number, loop.handle)
    try:
        watch.begin(loop)
        send(number)
        assert loop.received == [number]
        assert not watch.is_due()
        assert watch.take() is not None
        watch.end()
        assert signal.getsignal(number) == loop.handle
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize(
    "action", [signal.SIG_DFL, signal.SIG_IGN, signal.default_int_handler, SignalledLoop().handle]
)
def test_what_ends_training_is_left_alone_where_the_loop_does_not_handle_it(watch, action):
    before = signal.signal(TERM, action)
    try:
        watch.begin(SignalledLoop())
        assert signal.getsignal(TERM) == action
    finally:
        signal.signal(TERM, before)


# Handlers of the user's own


def test_users_handler_is_called_each_time_and_given_back(users_handler, watch):
    watch.begin(None)
    for _ in range(3):
        send(USR1)
    assert users_handler == [(USR1, True)] * 3
    watch.end()
    send(USR1)
    assert users_handler == [(USR1, True)] * 4
    assert not watch.is_due()


def test_error_of_the_users_handler_is_theirs_and_the_signal_is_noted(watch):
    def failing(number, frame):
        raise ZeroDivisionError

    before = signal.signal(USR1, failing)
    try:
        watch.begin(None)
        with pytest.raises(ZeroDivisionError):
            send(USR1)
        assert watch.is_due()
        watch.end()
    finally:
        signal.signal(USR1, before)


def test_ignored_signal_is_ignored_again(watch):
    before = signal.signal(USR1, signal.SIG_IGN)
    try:
        watch.begin(None)
        send(USR1)
        assert watch.is_due()
        watch.end()
        assert signal.getsignal(USR1) == signal.SIG_IGN
    finally:
        signal.signal(USR1, before)


@pytest.mark.parametrize("order", [[0, 1], [1, 0]], ids=["as-begun", "the-other-way-round"])
def test_two_watches_get_every_signal_and_may_end_in_any_order(users_handler, order):
    watches = [SignalWatch(USR1), SignalWatch([USR1, USR2])]
    for watch in watches:
        watch.begin(None)
    send(USR1)
    assert [watch.is_due() for watch in watches] == [True, True]
    assert users_handler == [(USR1, True)]
    watches[order[0]].take()
    watches[order[0]].end()
    watches[order[1]].take()
    send(USR1)
    assert watches[order[1]].is_due()
    watches[order[1]].end()


def test_handler_that_was_put_in_its_place_meanwhile_is_left_there(watch):
    received = []

    def of_somebody(number, frame):
        received.append(number)

    before = signal.getsignal(USR1)
    watch.begin(None)
    ours = signal.signal(USR1, of_somebody)
    assert callable(ours)
    try:
        watch.end()
        assert signal.getsignal(USR1) is of_somebody
    finally:
        signal.signal(USR1, before)


def test_beginning_twice_is_beginning_once(users_handler, watch):
    watch.begin(None)
    send(USR1)
    watch.begin(None)
    assert watch.is_due()
    send(USR1)
    assert len(users_handler) == 2


def test_watch_begins_again_where_it_lost_its_handler(watch):
    before = signal.getsignal(USR1)
    watch.begin(None)
    signal.signal(USR1, before)
    watch.begin(None)
    send(USR1)
    assert watch.is_due()


# When the run is over


class Loop:
    """Runs a function; does not tell anybody when it is over."""

    def __init__(self, function):
        self.function = function

    def run(self):
        self.function(self)


def test_run_that_nobody_heard_the_end_of_leaves_signals_to_the_user(users_handler, watch):
    Loop(watch.begin).run()
    send(USR1)
    assert users_handler == [(USR1, True)]
    assert not watch.is_due()


def test_run_that_ended_so_gets_no_signal_into_the_next(users_handler, watch):
    def first(loop):
        watch.begin(loop)
        send(USR1)

    due = []

    def second(loop):
        watch.begin(loop)
        due.append(watch.is_due())
        send(USR1)
        due.append(watch.is_due())

    Loop(first).run()
    assert watch.is_due()
    Loop(second).run()
    assert due == [False, True]
    watch.end()
    assert len(users_handler) == 2


def test_signal_with_no_handler_ends_the_process_again_once_the_run_is_over():
    program = """
import os, signal
from blocks_checkpoint.signals import SignalWatch
class Loop:
    def run(self):
        watch.begin(self)
        os.kill(os.getpid(), signal.SIGUSR1)
        print("training", flush=True)
watch = SignalWatch(signal.SIGUSR1)
Loop().run()
os.kill(os.getpid(), signal.SIGUSR1)
print("still there", flush=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("training\n", -USR1)


def test_nested_run_of_another_main_loop_takes_nothing_away(watch):
    inner = SignalWatch(USR1)
    due = []

    def nested(loop):
        inner.begin(loop)
        send(USR1)
        due.append((watch.is_due(), inner.is_due()))
        inner.end()

    def outer(loop):
        watch.begin(loop)
        Loop(nested).run()
        watch.take()
        send(USR1)
        due.append((watch.is_due(), inner.is_due()))

    Loop(outer).run()
    assert due == [(True, True), (True, False)]


# Threads, pickles


def test_other_thread_is_told_that_it_gets_no_signals(watch):
    caught = []

    def train():
        with pytest.warns(CheckpointWarning, match="main thread.*SIGUSR1 has no effect") as found:
            watch.begin(None)
        caught.extend(found)
        # Once is enough; a second warning would be an error here.
        watch.begin(None)
        watch.end()

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert len(caught) == 1


def test_other_thread_is_told_nothing_where_nothing_was_asked_for():
    watch = SignalWatch()
    thread = threading.Thread(target=watch.begin, args=(None,))
    thread.start()
    thread.join()
    assert watch.take() is None


def test_pickle_has_the_names_of_signals_and_nothing_of_the_process(watch):
    idle = pickle.dumps(watch)
    watch.begin(None)
    send(USR1)
    assert pickle.dumps(watch) == idle
    other = pickle.loads(idle)
    assert other.asked == ("SIGUSR1",)
    assert not other.is_due()
    # Handlers, clocks and frames cannot be looked up by name either.
    assert set(watch.__getstate__()) == {"asked"}


def test_in_a_real_main_loop_the_loops_own_handling_goes_on():
    watch = SignalWatch(USR1)
    seen = []

    def begin(main_loop):
        watch.begin(main_loop)

    def ask(main_loop):
        if main_loop.status["iterations_done"] == 2:
            send(USR1)
            send(TERM)

    def note(main_loop):
        seen.append((main_loop.status["iterations_done"], watch.is_due(), watch.take()))

    main_loop = make_main_loop(
        At(begin, before_training=True), At(ask, after_batch=True), At(note, after_batch=True)
    )
    main_loop.run()
    watch.end()
    assert [(time, due, moment is not None) for time, due, moment in seen] == [
        (1, False, False),
        (2, True, True),
    ]
    assert main_loop.log[2]["batch_interrupt_received"]
