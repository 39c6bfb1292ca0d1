"""Bytes of a file by position, from any number of threads.

A reader of archives asks for spans; whether these come from an open file
descriptor or from some other seekable object is settled here. A span that the
file does not hold is an error, never a shorter answer.
"""

from __future__ import annotations

import io
import os
import stat
import threading
from types import TracebackType
from typing import Any, BinaryIO, Union

from ..errors import (
    CheckpointNotFound,
    DamagedCheckpoint,
    LoadError,
    NotACheckpoint,
)

__all__ = ["ByteSource", "Source"]

Source = Union[str, "os.PathLike[str]", BinaryIO]

# File objects whose descriptor holds the same bytes as their read() gives;
# that of a GzipFile, for one, does not.
_PLAIN_FILES = (io.FileIO, io.BufferedReader, io.BufferedRandom)

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class ByteSource:
    """A file to read spans of.

    Parameters
    ----------
    source : str, os.PathLike or binary file
        A path, or a seekable binary file, which is left open.

    Attributes
    ----------
    path : str or None
        Where the file is, if it was given by its path or knows it.
    size : int
        Length of the file in bytes at the time it was opened.

    Raises
    ------
    CheckpointNotFound
        There is nothing at the path.
    NotACheckpoint
        It is a folder, a pipe or a device.
    LoadError
        It cannot be opened or its position cannot be set.
    """

    def __init__(self, source: Source) -> None:
        self._descriptor: int | None = None
        self._file: BinaryIO | None = None
        self._owned: Any = None
        self._lock = threading.Lock()
        if isinstance(source, (str, os.PathLike)):
            self.path: str | None = os.fsdecode(source)
            self._open_path(self.path)
        else:
            name = getattr(source, "name", None)
            self.path = name if isinstance(name, str) else None
            self._open_file(source)

    def _open_path(self, path: str) -> None:
        # Without O_NONBLOCK a named pipe would keep this waiting for a writer.
        flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
        flags |= getattr(os, "O_BINARY", 0)
        try:
            _refuse_other_kinds(os.stat(path).st_mode, path)
            descriptor = os.open(path, flags)
        except FileNotFoundError as error:
            raise CheckpointNotFound("there is no such file", path=path) from error
        except (OSError, ValueError) as error:
            raise LoadError(f"cannot be opened: {error}", path=path) from error
        self._owned = io.FileIO(descriptor, "rb")
        try:
            status = os.fstat(descriptor)
            _refuse_other_kinds(status.st_mode, path)
        except BaseException:
            self._owned.close()
            raise
        self.size = status.st_size
        if hasattr(os, "preadv"):
            self._descriptor = descriptor
        else:
            self._file = self._owned

    def _open_file(self, file: BinaryIO) -> None:
        try:
            self.size = file.seek(0, os.SEEK_END)
        except (OSError, ValueError, AttributeError) as error:
            raise LoadError(
                "cannot be read by position; give a path or a seekable binary file",
                path=self.path,
            ) from error
        if type(file) in _PLAIN_FILES and hasattr(os, "preadv"):
            self._descriptor = file.fileno()
        self._file = file

    def descriptor(self) -> int | None:
        """Return the open file descriptor, or None if there is none to map."""
        return self._descriptor

    def read_at(self, offset: int, length: int, member: str | None = None) -> bytes:
        """Return `length` bytes from `offset` on.

        `member` is named in the error if the file does not hold them.
        """
        self._require(offset, length, member)
        if self._descriptor is not None and length <= 1 << 30:
            # One call answers nearly every request, without a second copy.
            try:
                data = os.pread(self._descriptor, length, offset)
            except OSError as error:
                raise self._unreadable(error, member) from error
            if len(data) == length:
                return data
        buffer = bytearray(length)
        self.read_into(offset, memoryview(buffer), member)
        return bytes(buffer)

    def read_into(self, offset: int, view: memoryview, member: str | None = None) -> None:
        """Fill `view` with the bytes from `offset` on."""
        self._require(offset, len(view), member)
        done = 0
        try:
            while done < len(view):
                count = self._read_some(offset + done, view[done:])
                if not count:
                    raise DamagedCheckpoint(
                        f"the file ends after {offset + done} bytes; it was cut off "
                        "while it was being read",
                        path=self.path,
                        member=member,
                    )
                done += count
        except OSError as error:
            raise self._unreadable(error, member) from error

    def _read_some(self, offset: int, view: memoryview) -> int:
        if self._descriptor is not None:
            return os.preadv(self._descriptor, [view], offset)
        file: Any = self._file
        if file is None:
            raise ValueError("the archive is closed")
        with self._lock:
            file.seek(offset)
            if hasattr(file, "readinto"):
                return file.readinto(view) or 0
            data = file.read(len(view))
            view[: len(data)] = data
            return len(data)

    def _require(self, offset: int, length: int, member: str | None) -> None:
        if self._descriptor is None and self._file is None:
            raise ValueError("the archive is closed")
        if offset < 0 or length < 0 or offset + length > self.size:
            raise DamagedCheckpoint(
                f"bytes {offset} to {offset + length} are asked for, "
                f"and the file has only {self.size}",
                path=self.path,
                member=member,
            )

    def _unreadable(self, error: OSError, member: str | None) -> DamagedCheckpoint:
        return DamagedCheckpoint(f"cannot be read: {error}", path=self.path, member=member)

    def close(self) -> None:
        """Close the file if it was opened here."""
        self._descriptor = None
        self._file = None
        if self._owned is not None:
            self._owned.close()

    def __enter__(self) -> ByteSource:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _refuse_other_kinds(mode: int, path: str) -> None:
    for is_kind, words in _KINDS:
        if is_kind(mode):
            raise NotACheckpoint(f"this is {words}, not a checkpoint file", path=path)
