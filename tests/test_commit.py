import errno
import os
import re
import resource
import signal
import stat
import subprocess
import sys
import textwrap
import time

import pytest

from blocks_checkpoint import partial_file
from blocks_checkpoint.archive import ArchiveReader, ArchiveWriter
from blocks_checkpoint.commit import STEPS, replacing
from blocks_checkpoint.errors import DamagedCheckpoint, SaveError

OLD = b"the old file"
NEW = b"the new file, longer than the old one"
BEFORE_REPLACE = STEPS[: STEPS.index("replace") + 1]
PARTIAL = re.compile(r"\.run\.zip\.[0-9]+-[0-9a-f]{16}\.partial")


@pytest.fixture
def target(tmp_path):
    path = tmp_path / "run.zip"
    path.write_bytes(OLD)
    return path


def listing(folder):
    return sorted(os.listdir(folder))


def save(path, content=NEW, **options):
    with replacing(path, **options) as file:
        file.write(content)


def raising(wanted, error):
    def on_step(step):
        if step == wanted:
            raise error

    return on_step


# What a successful commit does


@pytest.mark.parametrize("is_there", [True, False], ids=["over-an-old-file", "anew"])
def test_file_appears_whole_under_its_name_and_nothing_else_is_left(tmp_path, is_there):
    path = tmp_path / "run.zip"
    if is_there:
        path.write_bytes(OLD)
    with replacing(path) as file:
        file.write(NEW[:5])
        assert (path.read_bytes() if is_there else not path.exists()) == (OLD if is_there else True)
        file.write(NEW[5:])
    assert path.read_bytes() == NEW
    assert listing(tmp_path) == ["run.zip"]


def test_steps_are_announced_in_their_order(target):
    steps = []
    save(target, on_step=steps.append)
    assert tuple(steps) == STEPS


def test_partial_file_is_beside_the_target_and_recognisable(target):
    with replacing(target):
        (name,) = set(listing(target.parent)) - {"run.zip"}
        assert PARTIAL.fullmatch(name)
        assert f".{os.getpid()}-" in name


def test_file_is_synced_before_it_is_renamed_and_the_folder_after(target):
    if not sys.platform.startswith("linux"):
        pytest.skip("strace is of Linux")
    program = f"""
from blocks_checkpoint.commit import replacing
with replacing({str(target)!r}) as file:
    file.write(b"new")
"""
    trace = target.parent / "trace"
    options = ["strace", "-f", "-y", "-e", "trace=fsync,rename,renameat,renameat2"]
    try:
        subprocess.run(
            [*options, "-o", str(trace), sys.executable, "-c", program],
            check=True,
            capture_output=True,
        )
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        pytest.skip(f"strace does not run here: {error}")
    calls = re.findall(r"(fsync|rename)\w*\((.*)", trace.read_text())
    names = [name for name, _ in calls]
    assert names == ["fsync", "rename", "fsync"]
    assert ".partial" in calls[0][1]
    assert f"<{target.parent}>" in calls[2][1]


def test_new_file_has_the_permissions_that_the_umask_gives(tmp_path):
    for umask, mode in ((0o022, 0o644), (0o077, 0o600), (0o002, 0o664)):
        path = tmp_path / f"{umask}.zip"
        before = os.umask(umask)
        try:
            save(path)
        finally:
            os.umask(before)
        assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o664, 0o444])
def test_permissions_of_the_old_file_are_kept(target, mode):
    target.chmod(mode)
    with replacing(target) as file:
        (name,) = set(listing(target.parent)) - {"run.zip"}
        assert stat.S_IMODE((target.parent / name).stat().st_mode) == mode
        file.write(NEW)
    assert stat.S_IMODE(target.stat().st_mode) == mode


@pytest.mark.parametrize("kind", ["absolute", "relative", "twice", "dangling"])
def test_symbolic_link_is_written_through(tmp_path, kind):
    folder = tmp_path / "disk"
    folder.mkdir()
    real = folder / "real.zip"
    if kind != "dangling":
        real.write_bytes(OLD)
    link = tmp_path / "run.zip"
    link.symlink_to("disk/real.zip" if kind == "relative" else real)
    if kind == "twice":
        (tmp_path / "other.zip").symlink_to(link)
        link = tmp_path / "other.zip"
    save(link)
    assert link.is_symlink()
    assert real.read_bytes() == NEW
    assert listing(folder) == ["real.zip"]


def test_folder_of_symbolic_links_is_followed(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "runs").symlink_to("disk")
    save(tmp_path / "runs" / "run.zip")
    assert listing(tmp_path / "disk") == ["run.zip"]


def test_relative_path_is_one_of_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save("run.zip")
    assert listing(tmp_path) == ["run.zip"]


def test_reader_of_the_old_file_keeps_it(target):
    with open(target, "rb") as file:
        save(target)
        assert file.read() == OLD


@pytest.mark.parametrize("name", ["x" * 255, "é" * 127, "a b\n.zip", "-rf", ".hidden", "x.partial"])
def test_any_name_that_the_file_system_takes_is_saved_under(tmp_path, name):
    path = tmp_path / name
    for _ in range(2):
        save(path)
        assert listing(tmp_path) == [name]


def test_space_is_reserved_and_what_is_not_used_given_back(target):
    sizes = []

    def on_step(step):
        if step == "write":
            (name,) = set(listing(target.parent)) - {"run.zip"}
            status = (target.parent / name).stat()
            assert status.st_size == 0
            sizes.append(status.st_blocks * 512)

    save(target, expected_bytes=1 << 20, on_step=on_step)
    assert sizes[0] >= 1 << 20
    assert target.read_bytes() == NEW
    assert target.stat().st_blocks * 512 < 1 << 20


def test_more_may_be_written_than_was_reserved(target):
    save(target, expected_bytes=3)
    assert target.read_bytes() == NEW


def test_writing_out_of_order_and_cutting_are_possible(target):
    with replacing(target, expected_bytes=1000) as file:
        file.write(b"0123456789")
        file.seek(2)
        file.write(b"ab")
        assert file.tell() == 4
        file.seek(0)
        assert file.read(4) == b"01ab"
    assert target.read_bytes() == b"01ab456789"
    with replacing(target) as file:
        file.write(b"0123456789")
        file.truncate(4)
    assert target.read_bytes() == b"0123"


def test_check_sees_the_finished_file_and_may_refuse_it(target):
    def check(path):
        with open(path, "rb") as file:
            assert file.read() == NEW
        assert target.read_bytes() == OLD
        raise DamagedCheckpoint("its bytes are wrong", member="W.npy")

    with pytest.raises(SaveError, match="reads back wrong") as caught:
        save(target, check=check)
    assert (caught.value.path, caught.value.member) == (str(target), "W.npy")
    assert isinstance(caught.value.__cause__, DamagedCheckpoint)
    assert target.read_bytes() == OLD
    assert listing(target.parent) == ["run.zip"]
    seen = []
    save(target, check=seen.append)
    assert PARTIAL.fullmatch(os.path.basename(seen[0]))
    assert target.read_bytes() == NEW


def test_archive_is_verified_before_it_replaces_the_old_one(tmp_path):
    path = tmp_path / "run.zip"

    def verify(partial):
        with ArchiveReader(partial) as reader:
            assert reader.verify() == []

    with replacing(path, check=verify) as file, ArchiveWriter(file) as writer:
        writer.add_bytes("log", b"log")
    with ArchiveReader(path) as reader:
        assert reader.read("log") == b"log"


# What a failure leaves


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EDQUOT])
@pytest.mark.parametrize("step", BEFORE_REPLACE)
def test_failure_at_any_step_leaves_the_old_file_and_nothing_else(target, step, number):
    error = OSError(number, os.strerror(number))
    with pytest.raises(SaveError) as caught:
        save(target, on_step=raising(step, error))
    assert caught.value.__cause__ is error
    assert caught.value.path == str(target)
    assert errno.errorcode[number] in str(caught.value)
    assert target.read_bytes() == OLD
    assert listing(target.parent) == ["run.zip"]


def test_failure_after_the_rename_says_that_the_file_is_in_place(target):
    with pytest.raises(SaveError, match="is in place"):
        save(target, on_step=raising("sync_folder", OSError(errno.EIO, "I/O error")))
    assert target.read_bytes() == NEW
    assert listing(target.parent) == ["run.zip"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), MemoryError(), ValueError()])
@pytest.mark.parametrize("step", BEFORE_REPLACE)
def test_interrupt_passes_through_after_clean_up(target, step, error):
    with pytest.raises(type(error)) as caught:
        save(target, on_step=raising(step, error))
    assert caught.value is error
    assert target.read_bytes() == OLD
    assert listing(target.parent) == ["run.zip"]


def test_error_of_the_body_passes_through_after_clean_up(target):
    def fail(file):
        file.write(NEW)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), replacing(target) as file:
        fail(file)
    assert target.read_bytes() == OLD
    assert listing(target.parent) == ["run.zip"]


@pytest.mark.parametrize(
    ("module", "call"), [(os, "fsync"), (os, "replace"), (partial_file, "_allocate")]
)
def test_system_call_that_fails_is_a_failure(target, monkeypatch, module, call):
    def fail(*arguments, **options):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(module, call, fail)
    with pytest.raises(SaveError, match="EIO"):
        save(target, expected_bytes=100)
    assert target.read_bytes() == OLD
    assert listing(target.parent) == ["run.zip"]


@pytest.fixture
def limited_size():
    """Let no file become longer than a limit, as the system does for users."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))

    yield limit
    limit(before[0])


def test_write_that_fails_at_any_byte_leaves_the_old_file(tmp_path, limited_size):
    def write_archive(path):
        with replacing(path) as file, ArchiveWriter(file) as writer:
            writer.add_bytes("checkpoint.json", b"{}")
            writer.add_bytes("log", b"a log")

    path = tmp_path / "run.zip"
    write_archive(path)
    whole = path.read_bytes()
    path.write_bytes(OLD)
    for room in range(len(whole)):
        limited_size(room)
        with pytest.raises(SaveError, match="EFBIG"):
            write_archive(path)
        limited_size(resource.RLIM_INFINITY)
        assert path.read_bytes() == OLD
        assert listing(tmp_path) == ["run.zip"]
    limited_size(len(whole))
    write_archive(path)
    # Before pytest reports: what it prints to may be a file as well.
    limited_size(resource.RLIM_INFINITY)
    assert path.read_bytes() == whole


@pytest.fixture
def small_disk(tmp_path):
    """Mount a real file system of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a file system can only be mounted by root: {error}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("expected_bytes", [0, 2 << 20], ids=["while-writing", "beforehand"])
def test_full_disk_is_reported_and_the_old_file_stays(small_disk, expected_bytes):
    path = small_disk / "run.zip"
    path.write_bytes(OLD)
    reached = []
    with pytest.raises(SaveError, match="free some space") as caught:
        save(path, bytes(2 << 20), expected_bytes=expected_bytes, on_step=reached.append)
    assert caught.value.__cause__.errno == errno.ENOSPC
    assert ("write" in reached) == (not expected_bytes)
    assert path.read_bytes() == OLD
    assert listing(small_disk) == ["run.zip"]
    save(path, bytes(1000))
    assert len(path.read_bytes()) == 1000


def test_temporary_folder_is_not_used(tmp_path, small_disk, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(small_disk))
    save(tmp_path / "run.zip", bytes(3 << 20))
    assert listing(small_disk) == []
    assert (tmp_path / "run.zip").stat().st_size == 3 << 20


@pytest.fixture
def passable(tmp_path):
    """Let other users pass through the folders that lead to `tmp_path`."""
    closed = [p for p in (tmp_path, *tmp_path.parents) if not p.stat().st_mode & stat.S_IXOTH]
    modes = [folder.stat().st_mode for folder in closed]
    for folder, mode in zip(closed, modes):
        folder.chmod(stat.S_IMODE(mode) | 0o011)
    yield tmp_path
    for folder, mode in zip(closed, modes):
        folder.chmod(stat.S_IMODE(mode))


def test_read_only_folder_is_reported(passable):
    folder = passable / "folder"
    folder.mkdir()
    (folder / "run.zip").write_bytes(OLD)
    folder.chmod(0o555)
    process = start(
        """
        if os.geteuid() == 0:
            os.setuid(65534)
        try:
            with replacing(path) as file:
                file.write(b"new")
        except Exception as error:
            print(type(error).__name__, error)
        """,
        folder / "run.zip",
    )
    message, _ = process.communicate()
    folder.chmod(0o755)
    assert message.startswith("SaveError")
    assert "EACCES" in message
    assert "save elsewhere" in message
    assert (folder / "run.zip").read_bytes() == OLD
    assert listing(folder) == ["run.zip"]


def test_folder_that_cannot_be_listed_is_saved_into(passable):
    folder = passable / "folder"
    folder.mkdir()
    folder.chmod(0o333)
    process = start(
        """
        if os.geteuid() == 0:
            os.setuid(65534)
        with replacing(path) as file:
            file.write(b"new")
        """,
        folder / "run.zip",
    )
    process.communicate()
    folder.chmod(0o755)
    assert process.returncode == 0
    assert (folder / "run.zip").read_bytes() == b"new"
    assert listing(folder) == ["run.zip"]


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP])
def test_folder_that_cannot_be_synced_alone_is_synced_with_all(target, monkeypatch, number):
    synced = []
    fsync = os.fsync

    def sync_files_only(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", sync_files_only)
    monkeypatch.setattr(os, "sync", lambda: synced.append(True))
    save(target)
    assert synced == [True]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("none/run.zip", "folder is missing"),
        ("file/run.zip", "is a file"),
        ("folder", "this is a folder"),
        ("pipe", "not a regular file"),
        ("loop", "circle"),
        ("x" * 300, "shorter name"),
    ],
)
def test_path_that_no_file_can_have_is_explained(tmp_path, path, words):
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    before = listing(tmp_path)
    with pytest.raises(SaveError, match=words) as caught:
        save(tmp_path / path)
    assert caught.value.path == str(tmp_path / path)
    assert listing(tmp_path) == before


def test_folder_removed_during_the_save_is_explained(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()

    def on_step(step):
        if step == "replace":
            for name in os.listdir(folder):
                os.unlink(folder / name)
            folder.rmdir()

    with pytest.raises(SaveError, match="the folder is missing"):
        save(folder / "run.zip", on_step=on_step)
    assert listing(tmp_path) == []


def test_partial_file_removed_by_somebody_else_is_no_new_file(target):
    def on_step(step):
        if step == "replace":
            for name in set(listing(target.parent)) - {"run.zip"}:
                os.unlink(target.parent / name)

    with pytest.raises(SaveError, match="ENOENT"):
        save(target, on_step=on_step)
    assert target.read_bytes() == OLD


def test_no_descriptor_is_left_open(target):
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("the system does not list open files")
    before = set(os.listdir("/proc/self/fd"))
    for step in STEPS:
        with pytest.raises(SaveError):
            save(target, on_step=raising(step, OSError(errno.EIO, "I/O error")))
    save(target)
    assert set(os.listdir("/proc/self/fd")) == before


# Other processes

PRELUDE = """
import os, signal, sys
from blocks_checkpoint.archive import ArchiveReader, ArchiveWriter
from blocks_checkpoint.commit import replacing
path = sys.argv[1]
"""


def start(program, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(program), *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("step", STEPS)
def test_process_killed_at_any_step_leaves_a_whole_file_and_one_partial_at_most(target, step):
    killed = start(
        """
        def on_step(step):
            if step == sys.argv[2]:
                os.kill(os.getpid(), signal.SIGKILL)
        with replacing(path, expected_bytes=1000, on_step=on_step) as file:
            file.write(b"new")
        """,
        target,
        step,
    )
    assert killed.wait() == -signal.SIGKILL
    killed.stdout.close()
    after_rename = STEPS.index(step) > STEPS.index("replace")
    assert target.read_bytes() == (b"new" if after_rename else OLD)
    left = set(listing(target.parent)) - {"run.zip"}
    assert len(left) <= 1
    assert all(PARTIAL.fullmatch(name) for name in left)
    save(target)
    assert target.read_bytes() == NEW
    assert listing(target.parent) == ["run.zip"]


def test_partial_file_of_a_living_process_is_left_alone(target):
    living = start(
        """
        with replacing(path) as file:
            file.write(b"living")
            print("writing", flush=True)
            signal.pause()
        """,
        target,
    )
    try:
        assert living.stdout.readline() == "writing\n"
        save(target)
        (name,) = set(listing(target.parent)) - {"run.zip"}
        assert (target.parent / name).read_bytes() == b"living"
    finally:
        living.kill()
        living.wait()
        living.stdout.close()
    save(target)
    assert listing(target.parent) == ["run.zip"]


def test_two_processes_save_to_one_path_and_every_read_is_of_one_of_them(tmp_path):
    path = tmp_path / "run.zip"
    writer = """
    mark = sys.argv[2].encode()
    for turn in range(100):
        with replacing(path, expected_bytes=4000) as file, ArchiveWriter(file) as writer:
            for member in range(20):
                writer.add_bytes(f"member_{member}", mark + b"%d" % turn)
    """
    with replacing(path) as file, ArchiveWriter(file) as archive:
        archive.add_bytes("member_0", b"first")
    writers = [start(writer, path, mark) for mark in ("one", "two")]
    reads = 0
    while any(process.poll() is None for process in writers):
        with ArchiveReader(path) as reader:
            assert reader.verify() == []
            contents = {reader.read(name) for name in reader.members}
        assert len(contents) == 1, "a mixture of two saves"
        reads += 1
    for process in writers:
        assert process.wait() == 0
        process.stdout.close()
    assert reads > 10
    assert listing(tmp_path) == ["run.zip"]


def test_signals_that_interrupt_system_calls_lose_nothing(target):
    received = []
    before = signal.signal(signal.SIGALRM, lambda *_: received.append(time.monotonic()))
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        content = os.urandom(32 << 20)
        save(target, content, expected_bytes=len(content))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert received
    assert target.read_bytes() == content
