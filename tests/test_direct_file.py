"""Files written past the system's cache, by the bytes that are in them."""

import errno
import mmap
import os
import sys
import tempfile
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from blocks_checkpoint import direct_file, load_parameters, open_checkpoint
from blocks_checkpoint.arena import Arena
from blocks_checkpoint.direct_file import WORTH_IT, DirectFile, past_the_cache
from blocks_checkpoint.snapshot import Snapshot
from blocks_checkpoint.writing import write_snapshot

if sys.platform != "linux":
    pytest.skip("other systems have no O_DIRECT", allow_module_level=True)
import fcntl

MIB = 1 << 20
BYTES = np.random.RandomState(1).bytes(11 * MIB + 12345)


class Refusing:
    """`os.writev` of a system that refuses, from the n-th call on, after a part of it."""

    def __init__(self, refuse_from=0, takes=0, number=errno.EINVAL):
        self.refuse_from, self.takes, self.number = refuse_from, takes, number
        self.writev = os.writev
        self.calls = 0

    def __call__(self, descriptor, pieces):
        self.calls += 1
        if self.calls <= self.refuse_from:
            return self.writev(descriptor, pieces)
        if self.takes:
            taken, self.takes = self.takes, 0
            return self.writev(descriptor, [pieces[0][:taken]])
        raise OSError(self.number, os.strerror(self.number))


class Watching:
    """`os.writev` that notes where the pieces lie in memory, and how long they are."""

    def __init__(self):
        self.writev = os.writev
        self.pieces = []

    def __call__(self, descriptor, pieces):
        self.pieces += [(piece.ctypes.data, len(piece)) for piece in pieces]
        return self.writev(descriptor, pieces)


def at_a_page(nbytes, beyond=0):
    """Return random bytes that begin so many bytes beyond a page."""
    memory = np.frombuffer(mmap.mmap(-1, nbytes + beyond + 1), np.uint8)[beyond:][:nbytes]
    memory[:] = np.random.RandomState(nbytes % 1000).randint(0, 256, nbytes, dtype=np.uint8)
    return memory


def is_direct(file):
    return bool(fcntl.fcntl(file.fileno(), fcntl.F_GETFL) & os.O_DIRECT)


def pieces(*sizes):
    start = 0
    while start < len(BYTES):
        for size in sizes:
            yield BYTES[start : start + size]
            start += size


def write_all(direct, sizes):
    write_all_of(direct, pieces(*sizes))


def write_all_of(direct, pieces):
    for piece in pieces:
        assert direct.write(piece) == len(piece)
    direct.flush()


def content_of(file):
    file.seek(0)
    return file.read()


@pytest.fixture
def file(tmp_path):
    with open(tmp_path / "file", "w+b", buffering=0) as file:
        if past_the_cache(file, WORTH_IT) is file:
            pytest.skip("the file system does not write past the cache")
        yield file


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param([len(BYTES)], id="at-once"),
        pytest.param([4 * MIB], id="whole-buffers"),
        pytest.param([1, 4 * MIB - 1, 4096, 5 * MIB + 3], id="across-buffers"),
        pytest.param([100_003], id="small"),
    ],
)
def test_file_has_the_bytes_written_to_it(file, sizes):
    write_all(DirectFile(file), sizes)
    assert content_of(file) == BYTES


@pytest.mark.parametrize("size", [0, 1, 4096, 4 * MIB, 4 * MIB + 1])
def test_file_is_as_long_as_what_was_written(file, size):
    direct = DirectFile(file)
    direct.write(BYTES[:size])
    direct.flush()
    assert os.fstat(file.fileno()).st_size == size
    assert not is_direct(file)


def test_what_is_written_after_a_flush_follows(file):
    direct = DirectFile(file)
    for piece in (BYTES[:5000], BYTES[5000:5010], BYTES[5010:]):
        direct.write(piece)
        direct.flush()
    assert content_of(file) == BYTES


def test_pages_are_written_from_where_they_lie(file, monkeypatch):
    monkeypatch.setattr(os, "writev", watching := Watching())
    direct = DirectFile(file)
    whole, ragged = at_a_page(3 * MIB), at_a_page(MIB + 5)
    write_all_of(direct, [bytes(4096), whole, ragged, b"end"])
    assert [(piece.ctypes.data, len(piece)) for piece in (whole, ragged[:MIB])] == [
        watching.pieces[1],
        watching.pieces[2],
    ]
    assert content_of(file) == bytes(4096) + whole.tobytes() + ragged.tobytes() + b"end"


@pytest.mark.parametrize(
    ("before", "beyond", "nbytes"),
    [
        pytest.param(5, 0, MIB, id="their-place-in-the-file-is-none"),
        pytest.param(0, 16, MIB, id="their-memory-is-none"),
        pytest.param(0, 0, 64 << 10, id="they-are-few"),
    ],
)
def test_pages_are_copied_if(file, monkeypatch, before, beyond, nbytes):
    monkeypatch.setattr(os, "writev", watching := Watching())
    octets = at_a_page(nbytes, beyond)
    write_all_of(DirectFile(file), [bytes(before), octets, bytes(4 * MIB)])
    assert watching.pieces
    assert octets.ctypes.data not in [place for place, _ in watching.pieces]
    assert content_of(file)[before : before + nbytes] == octets.tobytes()


# Some are written from where they lie, some after others, some copied.
PIECES = st.tuples(
    st.sampled_from([0, 1, 100, 4096, 8192, 300_000, MIB, 5 * MIB, 33 * MIB]),
    st.sampled_from([0, 0, 1, 16, 512]),
    st.sampled_from([0, 0, 1, 4095]),
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(kinds=st.lists(PIECES, max_size=8), refusing=st.none() | st.integers(0, 2))
def test_file_has_the_bytes_whatever_they_lie_in(file, kinds, refusing):
    file.seek(0)
    file.truncate()
    direct = past_the_cache(file, WORTH_IT)
    sources = [at_a_page(nbytes + more, beyond) for nbytes, beyond, more in kinds]
    with pytest.MonkeyPatch.context() as patch:
        if refusing is not None:
            patch.setattr(os, "writev", Refusing(refusing, takes=4096))
        write_all_of(direct, sources)
    assert content_of(file) == b"".join(sources)
    assert not is_direct(file)


@pytest.mark.parametrize("refuse_from", [0, 1])
@pytest.mark.parametrize("takes", [0, 4096], ids=["none", "a-part"])
def test_file_system_that_refuses_direct_writes_gets_others(file, monkeypatch, refuse_from, takes):
    monkeypatch.setattr(os, "writev", refusing := Refusing(refuse_from, takes))
    write_all(DirectFile(file), [1 * MIB])
    assert refusing.calls == refuse_from + 1 + bool(takes)
    assert content_of(file) == BYTES


def test_other_errors_are_not_taken_for_a_refusal(file, monkeypatch):
    monkeypatch.setattr(os, "writev", Refusing(number=errno.ENOSPC))
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        DirectFile(file).write(BYTES)


def test_small_file_is_written_through_the_cache(file):
    fcntl.fcntl(file.fileno(), fcntl.F_SETFL, 0)
    assert past_the_cache(file, WORTH_IT - 1) is file
    assert not is_direct(file)


@pytest.mark.skipif(not os.path.isdir("/dev/shm"), reason="there is no file system in memory")
def test_file_that_is_in_memory_is_written_in_the_plain_way():
    with tempfile.TemporaryFile(dir="/dev/shm", buffering=0) as file:
        assert past_the_cache(file, WORTH_IT) is file
        assert not is_direct(file)


def test_file_system_without_the_mode_is_written_to_through_the_cache(file, monkeypatch):
    def refuse(*arguments):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    assert past_the_cache(file, WORTH_IT) is file


RECORD = np.dtype([("a", "u1"), ("b", "<f8")])


def array_of(count, dtype="<f8"):
    octets = np.random.RandomState(count % 1000).bytes(count * np.dtype(dtype).itemsize)
    return np.frombuffer(octets, dtype)


# Around the sizes from which arrays are put at pages, summed and copied by parts.
KINDS = {
    "small": lambda: np.arange(10),
    "nothing": lambda: np.zeros((0, 3)),
    "not-at-a-page": lambda: array_of((1 << 15) - 17),
    "at-a-page": lambda: array_of((1 << 15) + 1),
    "of-parts": lambda: array_of(3 * MIB + 5),
    "fortran": lambda: np.asfortranarray(array_of(2_001_000).reshape(1000, 2001)),
    "every-other": lambda: array_of(600_000).reshape(1000, 600)[:, ::2],
    "records": lambda: array_of(100_000, RECORD),
    "one-number-often": lambda: np.broadcast_to(np.float32(1.5), (700, 500)),
}


def up_to_the_manifest(path):
    # It says when it was made; so does the directory behind it, by its sum.
    with zipfile.ZipFile(path) as archive:
        end = archive.getinfo("checkpoint.json").header_offset
    with open(path, "rb") as file:
        return file.read(end)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(kinds=st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=6))
@example(kinds=sorted(KINDS) * 2)
@pytest.mark.parametrize("is_copied", [False, True], ids=["waiting", "background"])
def test_checkpoint_is_that_of_the_cache_byte_for_byte(tmp_path, is_copied, kinds):
    named = [(f"{kind}-{number}", KINDS[kind]()) for number, kind in enumerate(kinds)]
    path, plain = tmp_path / "direct.zip", tmp_path / "plain.zip"
    with open(plain, "wb") as file:
        write_snapshot(Snapshot.of_arrays(named), file)
    snapshot = Snapshot.of_arrays(named)
    if is_copied:
        snapshot.copy_into(Arena())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(direct_file, "WORTH_IT", 0)
        write_snapshot(snapshot, path)
    assert up_to_the_manifest(path) == up_to_the_manifest(plain)
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.verify() == []
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
    loaded = load_parameters(path)
    with np.load(path) as of_numpy:
        for name, array in named:
            assert loaded[name].tobytes() == of_numpy[name].tobytes() == array.tobytes()


def test_pages_of_copies_are_written_from_where_they_lie(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "writev", watching := Watching())
    snapshot = Snapshot.of_arrays([(name, array_of(5 * MIB + 3)) for name in "ab"])
    snapshot.copy_into(Arena())
    write_snapshot(snapshot, tmp_path / "saved.zip")
    places = [place for place, _ in watching.pieces]
    if not places:
        pytest.skip("the file system does not write past the cache")
    assert {array.ctypes.data for _, array in snapshot.arrays} <= set(places)
