"""What becomes of training, and of the file of before, when the system fails a save.

The failures are real where the system can be made to fail; the others are
raised where the system would.
"""

import contextlib
import errno
import os
import resource
import shutil
import signal
import subprocess
import tempfile

import pytest
from drifting import make_main_loop
from interventions import Do

from blocks_checkpoint import (
    Checkpoint,
    SaveError,
    commit,
    continue_training,
    load_log,
    open_checkpoint,
)
from blocks_checkpoint.commit import STEPS
from blocks_checkpoint.miniblocks.extensions import FinishAfter

BEFORE_REPLACE = STEPS[: STEPS.index("replace") + 1]
NOBODY = 65534
#: When, in batches, the system begins to fail and works again.
BREAKS, MENDED, LAST = 2, 5, 8


class Failure:
    """A way for a system to fail: ``begin`` and ``end`` it.

    Parameters
    ----------
    folder : str
        What is saved in.
    numbers : collection of int
        The error codes that the system then gives.
    begin, end : callable
    """

    def __init__(self, folder, numbers, begin, end):
        self.path = os.path.join(folder, "run.zip")
        self.numbers = numbers
        self.begin, self._end = begin, end
        self._has_ended = False

    def end(self):
        """Let the system work again."""
        if not self._has_ended:
            self._has_ended = True
            self._end()


@contextlib.contextmanager
def mounted(folder, options):
    """Mount a small file system, or skip the test where that is not allowed."""
    os.mkdir(folder)
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a file system can only be mounted by root: {error}")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


@contextlib.contextmanager
def full_disk(folder):
    with mounted(folder, "size=1m"):
        filler = os.path.join(folder, "filler")

        def fill():
            with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
                while file.write(bytes(4096)):
                    pass

        yield Failure(folder, {errno.ENOSPC}, fill, lambda: os.unlink(filler))


@contextlib.contextmanager
def disk_that_becomes_full_in_the_midst_of_writing(folder):
    with full_disk(folder) as failure:
        filler = os.path.join(folder, "filler")

        def fill_but_for_a_page():
            failure_begin()
            os.truncate(filler, os.path.getsize(filler) - 4096)

        failure_begin, failure.begin = failure.begin, fill_but_for_a_page
        # No file system that reserves: writing finds it out.
        reserve = commit.PartialFile.reserve
        commit.PartialFile.reserve = lambda self, size: None
        try:
            yield failure
        finally:
            commit.PartialFile.reserve = reserve


@contextlib.contextmanager
def disk_without_room_for_another_file(folder):
    with mounted(folder, "size=1m,nr_inodes=40"):
        fillers = [os.path.join(folder, f"filler{number}") for number in range(50)]

        def fill():
            with contextlib.suppress(OSError):
                for filler in fillers:
                    with open(filler, "wb"):
                        pass

        def empty():
            for filler in filter(os.path.exists, fillers):
                os.unlink(filler)

        yield Failure(folder, {errno.ENOSPC}, fill, empty)


@contextlib.contextmanager
def read_only_file_system(folder):
    with mounted(folder, "size=1m"):

        def remount(how):
            subprocess.run(["mount", "-o", f"remount,{how}", folder], check=True)

        yield Failure(folder, {errno.EROFS}, lambda: remount("ro"), lambda: remount("rw"))


@contextlib.contextmanager
def read_only_folder(folder):
    # Beside those of other tests, which only their owner can enter.
    folder = tempfile.mkdtemp()
    is_root = os.geteuid() == 0

    def forbid():
        os.chmod(folder, 0o555)
        if is_root:
            os.seteuid(NOBODY)

    def allow():
        if is_root:
            os.seteuid(0)
        os.chmod(folder, 0o755)

    try:
        yield Failure(folder, {errno.EACCES}, forbid, allow)
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def file_in_place_of_the_folder(folder):
    os.mkdir(folder)
    elsewhere = f"{folder}.elsewhere"

    def replace():
        os.rename(folder, elsewhere)
        with open(folder, "wb"):
            pass

    def put_back():
        os.unlink(folder)
        os.rename(elsewhere, folder)

    yield Failure(folder, {errno.EEXIST, errno.ENOTDIR}, replace, put_back)


@contextlib.contextmanager
def limit_of_file_size(folder):
    os.mkdir(folder)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))

    yield Failure(folder, {errno.EFBIG}, lambda: limit(10_000), lambda: limit(before[0]))


@contextlib.contextmanager
def limit_of_open_files(folder):
    os.mkdir(folder)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = []

    def use_up():
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(200, before[0]), before[1]))
        with contextlib.suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))

    def give_back():
        while held:
            os.close(held.pop())
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

    yield Failure(folder, {errno.EMFILE}, use_up, give_back)


def raised(step, number):
    """Return a failure of one step with one error code."""

    @contextlib.contextmanager
    def failing(folder):
        os.mkdir(folder)
        # Whoever imported the function has this default.
        options = commit.replacing.__wrapped__.__kwdefaults__

        def on_step(present):
            if present == step:
                raise OSError(number, os.strerror(number))

        def begin():
            options["on_step"] = on_step

        def end():
            options["on_step"] = None

        yield Failure(folder, {number}, begin, end)

    failing.__name__ = f"{errno.errorcode[number]}-at-{step}"
    return failing


FAILURES = [
    full_disk,
    disk_that_becomes_full_in_the_midst_of_writing,
    disk_without_room_for_another_file,
    read_only_file_system,
    read_only_folder,
    file_in_place_of_the_folder,
    limit_of_file_size,
    limit_of_open_files,
    raised("reserve", errno.EDQUOT),
    raised("create", errno.EACCES),
    raised("write", errno.ENOSPC),
    raised("sync_file", errno.EIO),
    raised("replace", errno.EIO),
]


@pytest.fixture
def failure(request, tmp_path):
    """Make the system fail as the parameter says."""
    with request.param(str(tmp_path / "folder")) as made:
        try:
            yield made
        finally:
            made.end()


every_failure = pytest.mark.parametrize(
    "failure", FAILURES, ids=lambda each: each.__name__.replace("_", "-"), indirect=True
)


def after_save(batches, function):
    """Return an extension that calls a function when so many batches are done, and saved."""

    def call(main_loop):
        if main_loop.status["iterations_done"] == batches:
            function(main_loop)

    return Do(call, before_batch=True)


def first_line_of(error):
    return str(error).splitlines()[0]


def names_reason(text, failure):
    return any(os.strerror(number) in text for number in failure.numbers)


def beside(failure):
    """List what lies in the folder but for the file, and what filled the disk."""
    names = set(os.listdir(os.path.dirname(failure.path)))
    return {name for name in names if name != "run.zip" and not name.startswith("filler")}


def content(path):
    with open(path, "rb") as file:
        return file.read()


@every_failure
def test_failed_save_ends_training_and_leaves_the_file_of_before(failure):
    before = []

    def begin(main_loop):
        before.append(content(failure.path))
        failure.begin()

    saving = Checkpoint(failure.path, every_n_batches=1, after_training=False)
    main_loop = make_main_loop(saving, after_save(BREAKS, begin))
    with pytest.raises(SaveError) as caught:
        main_loop.run()
    failure.end()
    assert main_loop.status["iterations_done"] == BREAKS + 1
    assert names_reason(first_line_of(caught.value), failure)
    assert caught.value.path == failure.path
    assert isinstance(caught.value.__cause__, OSError)
    row = main_loop.log[BREAKS + 1]
    assert row["saved_to"] == (None,)
    assert names_reason(row["save_error"], failure)
    assert content(failure.path) == before[0]
    assert beside(failure) == set()
    continued = continue_training(failure.path, extensions=[FinishAfter(after_n_batches=LAST)])
    assert continued.status["iterations_done"] == LAST


@every_failure
def test_failed_save_lets_training_go_on_if_it_shall(failure, caplog):
    contents = {}

    def note(main_loop):
        contents[main_loop.status["iterations_done"]] = content(failure.path)

    def end(main_loop):
        failure.end()
        assert content(failure.path) == contents[BREAKS]
        assert beside(failure) == set()

    main_loop = make_main_loop(
        Checkpoint(failure.path, every_n_batches=1, after_training=False, on_failure="warn"),
        after_save(BREAKS, note),
        after_save(BREAKS, lambda main_loop: failure.begin()),
        after_save(MENDED, end),
        FinishAfter(after_n_batches=LAST),
        epochs=100,
    )
    main_loop.run()
    saved = {time: row["saved_to"] for time, row in main_loop.log.items() if "saved_to" in row}
    assert saved == {
        time: (None,) if BREAKS < time <= MENDED else (failure.path,) for time in range(1, LAST + 1)
    }
    reports = [each for each in caplog.records if each.levelname == "ERROR"]
    assert len(reports) == MENDED - BREAKS
    for report in reports:
        assert failure.path in report.getMessage().splitlines()[0]
        assert names_reason(report.getMessage().splitlines()[0], failure)
    errors = [time for time, row in main_loop.log.items() if "save_error" in row]
    assert errors == list(range(BREAKS + 1, MENDED + 1))
    assert all(names_reason(main_loop.log[time]["save_error"], failure) for time in errors)
    with open_checkpoint(failure.path) as checkpoint:
        assert checkpoint.verify() == []
        assert checkpoint.status["iterations_done"] == LAST
    assert load_log(failure.path)[MENDED]["saved_to"] == (None,)
    assert beside(failure) == set()


@pytest.mark.parametrize("number", [errno.EIO, errno.EDQUOT], ids=errno.errorcode.get)
@pytest.mark.parametrize("step", BEFORE_REPLACE)
def test_file_of_before_outlasts_a_failure_at_any_step(tmp_path, step, number):
    with raised(step, number)(str(tmp_path / "folder")) as failure:
        before = []

        def begin(main_loop):
            before.append(content(failure.path))
            failure.begin()

        saving = Checkpoint(failure.path, every_n_batches=1, on_failure="warn")
        make_main_loop(saving, after_save(BREAKS, begin)).run()
        failure.end()
        assert content(failure.path) == before[0]
        assert beside(failure) == set()


def test_failure_after_the_rename_says_so_and_the_new_file_is_whole(tmp_path):
    with raised("sync_folder", errno.EIO)(str(tmp_path / "folder")) as failure:
        saving = Checkpoint(failure.path, every_n_batches=1, after_training=False)
        main_loop = make_main_loop(saving, after_save(BREAKS, lambda main_loop: failure.begin()))
        with pytest.raises(SaveError, match="is in place, but is not sure to outlast"):
            main_loop.run()
        failure.end()
        with open_checkpoint(failure.path) as checkpoint:
            assert checkpoint.verify() == []
            assert checkpoint.status["iterations_done"] == BREAKS + 1


def test_folder_that_is_removed_while_training_is_made_anew(tmp_path):
    path = tmp_path / "folder" / "run.zip"
    remove = after_save(BREAKS, lambda main_loop: shutil.rmtree(path.parent))
    make_main_loop(Checkpoint(path, every_n_batches=1), remove).run()
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.verify() == []


def test_folder_that_is_removed_during_a_save_is_an_error_that_says_so(tmp_path):
    path = tmp_path / "folder" / "run.zip"
    options = commit.replacing.__wrapped__.__kwdefaults__

    def on_step(step):
        if step == "replace":
            shutil.rmtree(path.parent)

    options["on_step"] = on_step
    try:
        with pytest.raises(SaveError, match="No such file or directory.*the folder is missing"):
            make_main_loop(Checkpoint(path, every_n_batches=1)).run()
    finally:
        options["on_step"] = None
    assert os.listdir(tmp_path) == []


def test_tiny_temporary_folder_is_of_no_matter_and_stays_empty(tmp_path, monkeypatch):
    tiny = str(tmp_path / "tiny")
    with mounted(tiny, "size=4k"):
        monkeypatch.setenv("TMPDIR", tiny)
        monkeypatch.setattr(tempfile, "tempdir", None)
        assert tempfile.gettempdir() == tiny
        path = tmp_path / "run.zip"
        make_main_loop(Checkpoint(path, every_n_batches=1, verify=True)).run()
        assert os.listdir(tiny) == []
        assert path.stat().st_size > 4096
        continue_training(path)
        assert os.listdir(tiny) == []


def test_signals_that_interrupt_every_system_call_lose_nothing(tmp_path):
    received = []
    path = tmp_path / "run.zip"
    before = signal.signal(signal.SIGALRM, lambda *_: received.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
    try:
        make_main_loop(Checkpoint(path, every_n_batches=1)).run()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert received
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.verify() == []
        assert checkpoint.status["iterations_done"] == 12
    assert os.listdir(tmp_path) == ["run.zip"]
