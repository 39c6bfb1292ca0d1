"""One save in flight: what becomes of jobs, errors, and processes."""

import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import weakref

import pytest

from blocks_checkpoint.background import BackgroundSaver

TIMEOUT = 30


class Gate:
    """A job that ends when it is let go."""

    def __init__(self, name="", done=None):
        self.name = name
        self.done = [] if done is None else done
        self.begun = threading.Event()
        self.may_end = threading.Event()

    def __call__(self):
        self.begun.set()
        assert self.may_end.wait(TIMEOUT)
        self.done.append(self.name)


@pytest.fixture
def gate():
    gate = Gate("first")
    yield gate
    gate.may_end.set()


def fail(error):
    def job():
        raise error

    return job


def test_job_is_done_while_the_caller_goes_on(gate):
    saver = BackgroundSaver()
    assert saver.submit(gate)
    assert gate.begun.wait(TIMEOUT)
    assert saver.is_busy
    gate.may_end.set()
    saver.wait()
    assert gate.done == ["first"]
    assert not saver.is_busy


def test_no_thread_is_left_when_nothing_is_to_do():
    before = threading.active_count()
    saver = BackgroundSaver()
    for _ in range(3):
        saver.submit(lambda: None)
    saver.wait()
    for thread in threading.enumerate():
        if thread.name == "blocks_checkpoint-save":
            thread.join(TIMEOUT)
    assert threading.active_count() == before


@pytest.mark.parametrize("call", ["is_ready", "submit"])
def test_wait_waits_for_the_job_before(gate, call):
    saver = BackgroundSaver("wait")
    saver.submit(gate)
    order = gate.done
    helper = threading.Timer(0.05, gate.may_end.set)
    helper.start()
    if call == "submit":
        assert saver.submit(lambda: order.append("second"))
    else:
        assert saver.is_ready()
        order.append("second")
    saver.wait()
    helper.join()
    assert order == ["first", "second"]


def test_skip_drops_what_comes_meanwhile(gate):
    saver = BackgroundSaver("skip")
    assert saver.is_ready()
    saver.submit(gate)
    assert not saver.is_ready()
    assert not saver.submit(pytest.fail)
    gate.may_end.set()
    saver.wait()
    assert saver.is_ready()
    assert saver.submit(lambda: gate.done.append("third"))
    saver.wait()
    saver.raise_errors()
    assert gate.done == ["first", "third"]


def test_replace_keeps_the_newest_of_those_that_wait(gate):
    saver = BackgroundSaver("replace")
    saver.submit(gate)
    for name in ("second", "third", "fourth"):
        assert saver.is_ready()
        assert saver.submit(lambda name=name: gate.done.append(name))
    gate.may_end.set()
    saver.wait()
    assert gate.done == ["first", "fourth"]


def test_job_that_is_withdrawn_is_not_done_and_lets_go_of_its_memory(gate):
    saver = BackgroundSaver("replace")
    saver.withdraw()
    saver.submit(gate)
    second = Gate("second")
    reference = weakref.ref(second)
    saver.submit(second, lambda: gate.done.append("withdrawn"))
    del second
    saver.withdraw()
    saver.withdraw()
    gc.collect()
    assert reference() is None
    gate.may_end.set()
    saver.wait()
    assert gate.done == ["withdrawn", "first"]


def test_job_that_was_replaced_lets_go_of_its_memory(gate):
    saver = BackgroundSaver("replace")
    saver.submit(gate)
    second = Gate("second")
    reference = weakref.ref(second)
    saver.submit(second)
    del second
    saver.submit(lambda: None)
    gc.collect()
    assert reference() is None


def test_finished_job_lets_go_of_its_memory_while_the_next_is_done(gate):
    saver = BackgroundSaver("replace")
    first = Gate()
    reference = weakref.ref(first)
    saver.submit(first)
    saver.submit(gate)
    first.may_end.set()
    del first
    assert gate.begun.wait(TIMEOUT)
    gc.collect()
    assert reference() is None


def test_error_is_kept_until_it_is_asked_for_and_raised_once(caplog):
    saver = BackgroundSaver()
    error = OSError("disk full")
    saver.submit(fail(error))
    saver.wait()
    with pytest.raises(OSError, match="disk full") as caught:
        saver.raise_errors()
    assert caught.value is error
    saver.raise_errors()
    assert "disk full" in caplog.text


def test_error_does_not_keep_later_jobs_from_being_done():
    saver = BackgroundSaver()
    done = []
    saver.submit(fail(ValueError("first")))
    saver.submit(fail(ValueError("second")))
    saver.submit(lambda: done.append(True))
    saver.wait()
    assert done
    with pytest.raises(ValueError, match="first"):
        saver.raise_errors()


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_error_that_ends_threads_surfaces_too(error):
    saver = BackgroundSaver()
    saver.submit(fail(error))
    saver.wait()
    with pytest.raises(type(error)):
        saver.raise_errors()


@pytest.mark.parametrize(
    "travel", [copy.deepcopy, copy.copy, lambda thing: pickle.loads(pickle.dumps(thing))]
)
def test_saver_travels_without_its_jobs(gate, travel):
    saver = BackgroundSaver("replace")
    saver.submit(gate)
    there = travel(saver)
    assert there.when_busy == "replace"
    assert not there.is_busy
    there.wait()


def test_unknown_ways_are_refused():
    with pytest.raises(ValueError, match="'queue'; use one of wait, skip, replace"):
        BackgroundSaver("queue")


def test_job_is_done_at_once_where_no_thread_can_be_started(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    saver = BackgroundSaver()
    done = []
    assert saver.submit(lambda: done.append(True))
    assert done
    assert not saver.is_busy


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("when_busy", ["wait", "replace"])
def test_forked_process_has_none_of_the_jobs(gate, when_busy):
    saver = BackgroundSaver(when_busy)
    saver.submit(gate)
    assert gate.begun.wait(TIMEOUT)
    child = os.fork()
    if not child:
        # Whatever happens, no test of this file may go on in the child.
        try:
            done = []
            saver.wait()
            saver.submit(lambda: done.append(True))
            saver.wait()
            saver.raise_errors()
            os._exit(0 if done and not gate.done else 1)
        finally:
            os._exit(2)
    gate.may_end.set()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    saver.wait()
    assert gate.done == ["first"]


SCRIPT = """
import sys, time
from blocks_checkpoint.background import BackgroundSaver

def job():
    print("begun", flush=True)
    {wait}
    with open(sys.argv[1], "w") as file:
        file.write("durable")

saver = BackgroundSaver("replace")
saver.submit(job)
saver.submit(job)
{end}
"""


def start(tmp_path, *, wait, end=""):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(wait=wait, end=end))
    return subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "result")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


@pytest.mark.parametrize(
    ("end", "code"),
    [
        pytest.param("", 0, id="end"),
        pytest.param("sys.exit(3)", 3, id="exit"),
        pytest.param("raise ValueError", 1, id="error"),
    ],
)
def test_interpreter_waits_at_its_end(tmp_path, end, code):
    with start(tmp_path, wait="time.sleep(0.2)", end=end) as process:
        out, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == code, err
    assert out.split() == ["begun", "begun"]
    assert (tmp_path / "result").read_text() == "durable"


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_process_that_is_terminated_does_not_wait(tmp_path):
    with start(tmp_path, wait="time.sleep(60)") as process:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT) == -signal.SIGTERM
    assert not (tmp_path / "result").exists()
