"""Files written past the system's cache, by the bytes that are in them."""

import errno
import io
import os
import sys
import tempfile

import numpy as np
import pytest

from blocks_checkpoint import load_parameters, open_checkpoint, save_parameters
from blocks_checkpoint.direct_file import WORTH_IT, DirectFile, past_the_cache

if sys.platform != "linux":
    pytest.skip("other systems have no O_DIRECT", allow_module_level=True)
import fcntl

MIB = 1 << 20
BYTES = np.random.RandomState(1).bytes(11 * MIB + 12345)


class Refusing(io.FileIO):
    """A file of which direct writes are refused, from the n-th on, or taken in part."""

    refuse_from = 0
    takes = None

    def __init__(self, path):
        super().__init__(path, "w+")
        self.direct_writes = 0

    def write(self, data):
        view = memoryview(data).cast("B")
        if is_direct(self):
            self.direct_writes += 1
            if self.direct_writes > self.refuse_from:
                if self.takes:
                    super().write(view[: self.takes])
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        taken = 0
        while taken < len(view):
            taken += super().write(view[taken:])
        return taken


def is_direct(file):
    return bool(fcntl.fcntl(file.fileno(), fcntl.F_GETFL) & os.O_DIRECT)


def pieces(*sizes):
    start = 0
    while start < len(BYTES):
        for size in sizes:
            yield BYTES[start : start + size]
            start += size


def write_all(direct, sizes):
    for piece in pieces(*sizes):
        assert direct.write(piece) == len(piece)
    direct.flush()


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
    file.seek(0)
    assert file.read() == BYTES


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
    file.seek(0)
    assert file.read() == BYTES


@pytest.mark.parametrize("refuse_from", [0, 1])
@pytest.mark.parametrize("takes", [None, 4096], ids=["none", "a-part"])
def test_file_system_that_refuses_direct_writes_gets_others(tmp_path, refuse_from, takes):
    with Refusing(tmp_path / "file") as file:
        file.refuse_from, file.takes = refuse_from, takes
        direct = past_the_cache(file, WORTH_IT)
        if direct is file:
            pytest.skip("the file system does not write past the cache")
        write_all(direct, [1 * MIB])
        assert file.direct_writes == refuse_from + 1
    assert (tmp_path / "file").read_bytes() == BYTES


def test_other_errors_are_not_taken_for_a_refusal(tmp_path):
    class Full(Refusing):
        def write(self, data):
            raise OSError(errno.ENOSPC, "full")

    with Full(tmp_path / "file") as file, pytest.raises(OSError, match="full"):
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


def test_large_checkpoint_is_that_of_the_cache_byte_for_byte(tmp_path):
    arrays = {
        "large": np.random.RandomState(2).rand(3 * MIB),
        "fortran": np.asfortranarray(np.random.RandomState(3).rand(1000, 2001)),
        "small": np.arange(10),
    }
    path, plain = tmp_path / "direct.zip", tmp_path / "plain.zip"
    save_parameters(arrays, path)
    with open(plain, "wb") as file:
        save_parameters(arrays, file)
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.verify() == []
    for name, array in load_parameters(path).items():
        assert array.tobytes() == arrays[name].tobytes()
    # The manifests differ in when they were made, and lie at the end.
    arrays_end = sum(array.nbytes for array in arrays.values())
    with open(path, "rb") as one, open(plain, "rb") as other:
        assert one.read(arrays_end) == other.read(arrays_end)
