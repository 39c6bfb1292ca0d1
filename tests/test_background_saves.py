"""Saves in the background in real processes and loops: what is written, and when it is there."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading

import numpy
import pytest
from drifting import BATCHES_PER_EPOCH, At, interrupt, make_main_loop, values_of
from interventions import Do

from blocks_checkpoint import Checkpoint, SaveError, load_log, load_main_loop, open_checkpoint
from blocks_checkpoint.arena import Arena
from blocks_checkpoint.background import BackgroundSaver
from blocks_checkpoint.contents import Contents
from blocks_checkpoint.partial_file import PartialFile
from blocks_checkpoint.snapshot import take_snapshot
from blocks_checkpoint.writing import write_snapshot

TIMEOUT = 60


class SlowDisk:
    """A disk that does not take the n-th file before it is told to."""

    def __init__(self, monkeypatch, blocked=1):
        self.is_waiting = threading.Event()
        self.may_go_on = threading.Event()
        self._left = blocked
        sync = PartialFile.sync

        def wait_and_sync(file):
            self._left -= 1
            if not self._left:
                self.is_waiting.set()
                assert self.may_go_on.wait(TIMEOUT)
            sync(file)

        monkeypatch.setattr(PartialFile, "sync", wait_and_sync)


@pytest.fixture
def disk(monkeypatch):
    disk = SlowDisk(monkeypatch)
    yield disk
    disk.may_go_on.set()


def iterations_in(path):
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.verify() == []
        return checkpoint.status["iterations_done"]


#: By iteration; filled by ``note_state``.
STATES = {}
DISKS = []


def note_state(main_loop):
    STATES[main_loop.status["iterations_done"]] = values_of(main_loop)


def let_the_disk_go_on(main_loop):
    # Long after the first save began, and before it is written to its end.
    if main_loop.status["iterations_done"] == BATCHES_PER_EPOCH + 3:
        assert DISKS[-1].is_waiting.wait(TIMEOUT)
        DISKS[-1].may_go_on.set()


@pytest.mark.parametrize("when_busy", ["skip", "replace"])
def test_whole_state_is_that_of_the_call_whatever_training_has_done_since(
    tmp_path, disk, when_busy
):
    saving = Checkpoint(
        tmp_path / "run-{iterations_done}.zip",
        background=True,
        when_busy=when_busy,
        every_n_batches=1,
        after_training=False,
    )
    DISKS.append(disk)
    note, let_go = (At(each, after_batch=True) for each in (note_state, let_the_disk_go_on))
    make_main_loop(note, saving, let_go, epochs=2).run()
    saved = {iterations_in(file): file for file in tmp_path.iterdir()}
    assert 1 in saved
    # The one that waited may be begun before the next takes its place.
    assert not saved.keys() & {2, 3, 4, 5}
    for iterations_done, file in saved.items():
        loaded = load_main_loop(file)
        assert max(loaded.log) == iterations_done
        for name, value in values_of(loaded).items():
            assert numpy.array_equal(value, STATES[iterations_done][name])


@pytest.mark.parametrize("when_busy", ["wait", "skip", "replace"])
@pytest.mark.parametrize("way", ["end", "interrupt", "error"])
def test_last_state_is_saved_though_another_is_being_written(tmp_path, when_busy, way):
    saving = Checkpoint(
        tmp_path / "run.zip", background=True, when_busy=when_busy, every_n_batches=2, on_error=True
    )
    is_written = threading.Event()

    def end(main_loop):
        saving._background.submit(lambda: is_written.wait(TIMEOUT))
        threading.Timer(0.2, is_written.set).start()
        if way == "interrupt":
            interrupt(main_loop)
        if way == "error":
            raise ValueError(way)

    last = Do(end, after_n_batches=BATCHES_PER_EPOCH - 1)
    with pytest.raises(ValueError, match=way) if way == "error" else contextlib.nullcontext():
        make_main_loop(last, saving, epochs=1).run()
    assert iterations_in(tmp_path / "run.zip") == BATCHES_PER_EPOCH - (way != "end")


def test_log_in_a_file_says_nothing_of_a_save_that_it_replaced(tmp_path, disk):
    saving = Checkpoint(
        tmp_path / "run-{iterations_done}.zip",
        background=True,
        when_busy="replace",
        every_n_batches=1,
        after_training=False,
    )
    DISKS.append(disk)
    let_go = At(let_the_disk_go_on, after_batch=True)
    make_main_loop(saving, let_go, epochs=2).run()
    files = {str(file) for file in tmp_path.iterdir()}
    assert len(files) < 2 * BATCHES_PER_EPOCH
    for file in files:
        log = load_log(file)
        assert {path for row in log.values() for path in row.get("saved_to", ())} <= files


class FailingDisk:
    """A disk that refuses the first file, as soon as it may."""

    def __init__(self, monkeypatch):
        self.may_refuse = threading.Event()
        self._has_refused = False
        sync = PartialFile.sync

        def refuse_or_sync(file):
            if not self._has_refused:
                assert self.may_refuse.wait(TIMEOUT)
                self._has_refused = True
                raise OSError("refused")
            sync(file)

        monkeypatch.setattr(PartialFile, "sync", refuse_or_sync)


def test_log_in_a_file_says_that_the_save_waited_for_has_failed(tmp_path, monkeypatch):
    disk = FailingDisk(monkeypatch)
    is_ready = BackgroundSaver.is_ready

    def refuse_while_waited_for(saver):
        if saver.is_busy:
            disk.may_refuse.set()
        return is_ready(saver)

    monkeypatch.setattr(BackgroundSaver, "is_ready", refuse_while_waited_for)
    path = tmp_path / "run-{iterations_done}.zip"
    saving = Checkpoint(path, background=True, every_n_batches=1, on_failure="warn")
    make_main_loop(saving, epochs=1).run()
    log = load_log(tmp_path / "run-2.zip")
    assert log[1]["saved_to"] == (None,)
    assert "refused" in log[1]["save_error"]


def test_last_state_is_saved_though_the_save_before_has_failed(tmp_path, monkeypatch):
    disk = FailingDisk(monkeypatch)
    saving = Checkpoint(tmp_path / "run.zip", background=True)

    def let_it_fail(main_loop):
        disk.may_refuse.set()
        saving._background.wait()

    with pytest.raises(SaveError, match="refused"):
        make_main_loop(Do(let_it_fail, after_training=True), saving, epochs=1).run()
    assert iterations_in(tmp_path / "run.zip") == BATCHES_PER_EPOCH


def test_manifest_is_that_of_the_call_where_a_loop_notes_its_epochs_in_place(tmp_path):
    # So does that of Blocks.
    main_loop = make_main_loop()
    ends = main_loop.log.status["_epoch_ends"]
    ends.append(4)
    snapshot = take_snapshot(Contents.of_main_loop(main_loop), arena=Arena())
    ends.append(8)
    write_snapshot(snapshot, tmp_path / "run.zip")
    with open_checkpoint(tmp_path / "run.zip") as checkpoint:
        assert checkpoint.status["_epoch_ends"] == [4]


def test_waiting_for_the_save_before_counts_as_a_stall(tmp_path, disk, monkeypatch):
    clock = [0.0]
    saving = Checkpoint(
        tmp_path / "run.zip", save_main_loop=False, background=True, max_overhead=0.1
    )
    monkeypatch.setattr("blocks_checkpoint.extensions.checkpoint.time.monotonic", lambda: clock[0])
    wait = saving._background.wait

    def wait_long():
        if saving._background.is_busy:
            clock[0] += 60
            disk.may_go_on.set()
        wait()

    monkeypatch.setattr(saving._background, "wait", wait_long)
    # The first save is written all the while; the second is due by the clock.
    pass_time = At(lambda main_loop: clock.__setitem__(0, clock[0] + 1), after_batch=True)
    main_loop = make_main_loop(pass_time, saving, epochs=1)
    main_loop.run()
    first, second = [time for time in main_loop.log if "saved_to" in main_loop.log[time]][:2]
    assert (first, second) == (1, 2)
    assert saving._schedule._stalls[:2] == [0, 60]
    assert saving._schedule.credit_seconds < -50


@pytest.mark.parametrize("background", [False, True], ids=["waiting", "background"])
def test_each_save_that_fails_is_reported_once(tmp_path, monkeypatch, caplog, background):
    def fail(file):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(PartialFile, "sync", fail)
    path = tmp_path / "run-{epochs_done}.zip"
    make_main_loop(Checkpoint(path, background=background, on_failure="warn"), epochs=2).run()
    reports = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    # After each of two epochs, and after training.
    assert len(reports) == 3
    for number, report in zip((1, 2, 2), reports):
        assert report.startswith(f"{tmp_path}/run-{number}.zip is not saved, and training goes on")


def test_save_that_fails_in_the_background_is_logged_before_it_ends_training(
    tmp_path, monkeypatch, caplog
):
    reports = []

    def fail(file):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def note(main_loop):
        saving._background.wait()
        reports.extend(each.getMessage() for each in caplog.records if each.levelname == "ERROR")

    monkeypatch.setattr(PartialFile, "sync", fail)
    saving = Checkpoint(tmp_path / "run.zip", background=True, every_n_batches=1)
    with pytest.raises(SaveError, match="No space left"):
        make_main_loop(Do(note, before_batch=True), saving).run()
    assert len(reports) == 1
    assert reports[0].startswith(f"{tmp_path}/run.zip is not saved: ")


PROGRAM = """
import os, signal, sys, time
from drifting import At, make_main_loop
from blocks_checkpoint import Checkpoint
from blocks_checkpoint.partial_file import PartialFile

sync = PartialFile.sync

def slow_sync(file):
    print("writing", flush=True)
    time.sleep(0.5)
    sync(file)

PartialFile.sync = slow_sync

def end(main_loop):
    if main_loop.status["iterations_done"] == 3:
        {end}

saving = Checkpoint(
    sys.argv[1], background=True, every_n_batches=2, when_busy="replace",
    on_interrupt={on_interrupt}, after_training=False,
)
main_loop = make_main_loop(saving, At(end, after_batch=True), epochs=2)
main_loop.run()
{after}
"""


def start(tmp_path, *, end="pass", after="", on_interrupt=False):
    script = tmp_path / "script.py"
    script.write_text(PROGRAM.format(end=end, after=after, on_interrupt=on_interrupt))
    return subprocess.Popen(
        [sys.executable, str(script), str(tmp_path / "run.zip")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("ending", "code", "iterations_done"),
    [
        pytest.param({}, 0, 2 * BATCHES_PER_EPOCH, id="end-of-training"),
        pytest.param({"end": "sys.exit(3)"}, 3, 2, id="exit-in-an-extension"),
        pytest.param({"end": "raise ValueError"}, 1, 2, id="error-in-an-extension"),
        pytest.param({"end": "raise KeyboardInterrupt"}, -signal.SIGINT, 2, id="keyboard"),
        pytest.param(
            {"end": "os.kill(os.getpid(), 15)", "on_interrupt": True}, 0, 3, id="terminated"
        ),
        pytest.param(
            {"end": "[signal.raise_signal(number) for number in (2, 15, 2)]"},
            -signal.SIGINT,
            2,
            id="interrupted-until-it-ends-at-once",
        ),
        pytest.param({"after": "raise ValueError"}, 1, 2 * BATCHES_PER_EPOCH, id="error-after"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_file_is_durable_however_the_process_ends(tmp_path, ending, code, iterations_done):
    with start(tmp_path, **ending) as process:
        out, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == code, err
    assert "writing" in out
    assert iterations_in(tmp_path / "run.zip") == iterations_done
    assert sorted(os.listdir(tmp_path)) == ["run.zip", "script.py"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("end", ["os._exit(0)", "sys.exit(0)"])
def test_child_that_is_forked_while_a_save_is_written_leaves_it_alone(tmp_path, end):
    fork = (
        "child = os.fork()\n"
        f"        if not child: del main_loop; __import__('gc').collect(); {end}\n"
        "        assert os.waitpid(child, 0)[1] == 0"
    )
    with start(tmp_path, end=fork) as process:
        out, err = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, err
    # The child has not written, too, what the parent was writing.
    assert iterations_in(tmp_path / "run.zip") == 2 * BATCHES_PER_EPOCH
    assert sorted(os.listdir(tmp_path)) == ["run.zip", "script.py"]
    assert "writing" in out
