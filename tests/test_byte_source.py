import errno
import gzip
import io
import os
import stat
import threading

import pytest

from blocks_checkpoint.archive.byte_source import ByteSource
from blocks_checkpoint.errors import (
    CheckpointNotFound,
    DamagedCheckpoint,
    LoadError,
    NotACheckpoint,
)

CONTENT = bytes(range(256)) * 8


class Unplain(io.RawIOBase):
    """A file that has a position only, as one over a network might."""

    def __init__(self, content):
        self.inner = io.BytesIO(content)

    def seekable(self):
        return True

    def seek(self, *where):
        return self.inner.seek(*where)

    def readinto(self, view):
        # Less than was asked for, as raw files may give.
        return self.inner.readinto(view[:7])


@pytest.fixture(params=["path", "raw", "buffered", "memory", "unplain", "gzip"])
def source(request, tmp_path):
    path = tmp_path / "content"
    path.write_bytes(CONTENT)
    kind = request.param
    if kind == "path":
        with ByteSource(path) as opened:
            yield opened
        return
    if kind == "gzip":
        path.write_bytes(gzip.compress(CONTENT))
    makers = {
        "raw": lambda: open(path, "rb", buffering=0),
        "buffered": lambda: open(path, "rb"),
        "memory": lambda: io.BytesIO(CONTENT),
        "unplain": lambda: Unplain(CONTENT),
        "gzip": lambda: gzip.open(path),
    }
    with makers[kind]() as file, ByteSource(file) as opened:
        yield opened


def test_spans_are_those_of_the_file(source):
    assert source.size == len(CONTENT)
    for offset, length in ((0, 0), (0, 10), (5, 2000), (len(CONTENT), 0), (2040, 8)):
        assert source.read_at(offset, length) == CONTENT[offset : offset + length]
        buffer = bytearray(length)
        source.read_into(offset, memoryview(buffer))
        assert buffer == CONTENT[offset : offset + length]


@pytest.mark.parametrize(("offset", "length"), [(-1, 1), (0, 2049), (2048, 1), (1 << 70, 1)])
def test_span_beyond_the_file_is_refused_and_names_the_member(source, offset, length):
    with pytest.raises(DamagedCheckpoint) as caught:
        source.read_at(offset, length, "W.npy")
    assert caught.value.member == "W.npy"


def test_threads_read_their_own_spans(source):
    wrong = []

    def read(begin):
        for offset in range(begin, 2000, 13):
            if source.read_at(offset, 40) != CONTENT[offset : offset + 40]:
                wrong.append(offset)

    threads = [threading.Thread(target=read, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_file_that_shrinks_while_it_is_open_is_damaged(tmp_path):
    path = tmp_path / "content"
    path.write_bytes(CONTENT)
    with ByteSource(path) as source:
        os.truncate(path, 100)
        with pytest.raises(DamagedCheckpoint, match="cut off"):
            source.read_at(50, 100)


def test_disk_that_fails_is_damage_with_the_cause_kept():
    class Failing(Unplain):
        def readinto(self, view):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    source = ByteSource(Failing(CONTENT))
    with pytest.raises(DamagedCheckpoint, match="cannot be read: .*Errno 5") as caught:
        source.read_at(0, 10, "W.npy")
    assert caught.value.member == "W.npy"
    assert caught.value.__cause__.errno == errno.EIO


def test_closing_leaves_a_file_open_that_was_given_open(tmp_path):
    file = io.BytesIO(CONTENT)
    ByteSource(file).close()
    assert not file.closed


def test_closed_source_is_not_read_from(tmp_path):
    path = tmp_path / "content"
    path.write_bytes(CONTENT)
    source = ByteSource(path)
    source.close()
    with pytest.raises(ValueError, match="closed"):
        source.read_at(0, 1)


def test_missing_file_is_an_error_that_is_also_a_file_not_found_error(tmp_path):
    with pytest.raises(CheckpointNotFound) as caught:
        ByteSource(tmp_path / "none")
    assert isinstance(caught.value, FileNotFoundError)
    assert caught.value.path == str(tmp_path / "none")


def test_folder_is_called_a_folder(tmp_path):
    with pytest.raises(NotACheckpoint, match="a folder"):
        ByteSource(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_named_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NotACheckpoint, match="a named pipe"):
        ByteSource(tmp_path / "pipe")


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="the system has no /dev/zero")
def test_device_is_refused():
    assert stat.S_ISCHR(os.stat("/dev/zero").st_mode)
    with pytest.raises(NotACheckpoint, match="a device"):
        ByteSource("/dev/zero")


def test_path_with_a_zero_byte_is_a_load_error():
    with pytest.raises(LoadError, match="cannot be opened"):
        ByteSource("a\0b")


def test_file_without_position_is_refused():
    reading, writing = os.pipe()
    os.close(writing)
    with open(reading, "rb") as file, pytest.raises(LoadError, match="by position"):
        ByteSource(file)
