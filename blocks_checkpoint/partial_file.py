"""A file under the name it has until it is whole, and what becomes of orphans.

A partial file lies beside its target and is called ``.NAME.PID-RANDOM.partial``.
The process that writes it holds a lock on it (`flock`), which ends with the
process, however that ends: a partial file that can be locked is nobody's any
more, and the next save to the same target removes it. A process identifier
alone would not tell, since it may be another's by now, or one of another
computer that shares the folder.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import io
import os
import re
import stat
import sys
import time
from typing import Any

from .archive.crc import crc32

if sys.platform != "win32":
    import fcntl

__all__ = ["NOT_SUPPORTED", "PartialFile", "sweep"]

_CREATE_FLAGS = (
    os.O_RDWR
    | os.O_CREAT
    | os.O_EXCL
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
#: What a file system answers that cannot do what it is asked.
NOT_SUPPORTED = frozenset(
    {
        errno.EINVAL,
        errno.ENODEV,
        errno.ENOLCK,
        errno.ENOSYS,
        errno.ENOTSUP,
        errno.EOPNOTSUPP,
    }
)
# The name of a partial file must fit into the 255 bytes of most file systems.
_LONGEST_STEM = 180
# How many times a new partial file may be swept away before it is locked.
_ATTEMPTS = 100
_FALLOC_FL_KEEP_SIZE = 1


def sweep(target: str) -> None:
    """Remove the partial files that dead processes left of a target."""
    if sys.platform == "win32":
        return
    folder = os.path.dirname(target)
    is_partial = re.compile(re.escape(_stem(target)) + r"[0-9]+-[0-9a-f]+\.partial").fullmatch
    try:
        names = [name for name in os.listdir(folder) if is_partial(name)]
    except PermissionError:
        # One may be allowed to write into a folder that one cannot list.
        return
    for name in names:
        # Whatever hinders this (another user's file, one gone meanwhile) is
        # no reason not to save.
        with contextlib.suppress(OSError):
            _remove_if_dead(os.path.join(folder, name))


def _stem(target: str) -> str:
    """Return what the names of all partial files of a target begin with."""
    name = os.path.basename(target)
    raw = os.fsencode(name)
    if len(raw) > _LONGEST_STEM:
        start = raw[: _LONGEST_STEM - 10].decode("utf-8", "ignore")
        name = f"{start}~{crc32(raw):08x}"
    return f".{name}."


def _remove_if_dead(path: str) -> None:
    if sys.platform == "win32":
        return
    flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        # Network file systems lock only what is open for writing.
        descriptor = os.open(path, os.O_RDWR | flags)
    except PermissionError:
        descriptor = os.open(path, os.O_RDONLY | flags)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)
    finally:
        os.close(descriptor)


class PartialFile(io.FileIO):
    """A new file, locked, to be renamed when it is whole.

    Attributes
    ----------
    path : str
        Where it is until then.
    sync_seconds : float
        How long was waited for the disk.
    """

    def __init__(self, path: str, descriptor: int) -> None:
        super().__init__(descriptor, "r+")
        self.path = path
        self.sync_seconds = 0.0
        self._end = 0

    @classmethod
    def create(cls, target: str, mode: int | None) -> PartialFile:
        """Make one beside `target`, with the permissions `mode` or those of the umask."""
        path = target
        for _ in range(_ATTEMPTS):
            name = f"{_stem(target)}{os.getpid()}-{os.urandom(8).hex()}.partial"
            path = os.path.join(os.path.dirname(target), name)
            # What others must not read is not theirs to read meanwhile.
            file = cls(path, os.open(path, _CREATE_FLAGS, 0o666 if mode is None else mode))
            try:
                # Another process may sweep the file away before it is locked.
                if file.lock():
                    if mode is not None:
                        file.permit(mode)
                    return file
            except BaseException:
                file.discard()
                file.close()
                raise
            file.discard()
            file.close()
        raise OSError(errno.EBUSY, "another program keeps removing the partial file", path)

    def lock(self) -> bool:
        """Lock the file; return False if it is another's or gone."""
        if sys.platform == "win32":
            return True
        try:
            fcntl.flock(self.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            # A file system without locks: nobody sweeps there either.
            if error.errno not in NOT_SUPPORTED:
                raise
            return True
        try:
            return os.path.samestat(os.lstat(self.path), os.fstat(self.fileno()))
        except FileNotFoundError:
            return False

    def permit(self, mode: int) -> None:
        """Set the permissions, if the umask made them others."""
        if sys.platform != "win32" and stat.S_IMODE(os.fstat(self.fileno()).st_mode) != mode:
            os.fchmod(self.fileno(), mode)

    def reserve(self, size: int) -> None:
        """Take `size` bytes from the disk, or see at least that it has them."""
        if size <= 0 or sys.platform == "win32":
            return
        try:
            _allocate(self.fileno(), size)
        except OSError as error:
            if error.errno not in NOT_SUPPORTED:
                raise
            status = os.fstatvfs(self.fileno())
            if status.f_bavail * status.f_frsize < size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path) from error

    def write(self, data: Any) -> int:
        """Write all of `data`; a raw file may else write less."""
        view = memoryview(data).cast("B")
        total = len(view)
        while len(view):
            taken = super().write(view)
            view = view[taken:]
        self._end = max(self._end, self.tell())
        return total

    def truncate(self, size: int | None = None) -> int:
        """Cut the file at `size` bytes, or where it is."""
        self._end = super().truncate(size)
        return self._end

    def trim(self) -> None:
        """Give back what was reserved and not used."""
        super().truncate(self._end)

    def sync(self) -> None:
        """Wait until the bytes are on the disk."""
        begin = time.perf_counter()
        _sync(self.fileno())
        self.sync_seconds += time.perf_counter() - begin

    def rename(self, target: str) -> None:
        """Give the file its name."""
        if sys.platform == "win32":
            self.close()
        os.replace(self.path, target)

    def discard(self) -> None:
        """Remove the file from its folder, if it is there."""
        if sys.platform == "win32":
            self.close()
        with contextlib.suppress(OSError):
            os.unlink(self.path)


def _sync(descriptor: int) -> None:
    if sys.platform == "darwin":
        # There, fsync leaves them in the disk's own memory.
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


def _allocate(descriptor: int, size: int) -> None:
    """Allocate blocks without changing the file's length.

    `os.posix_fallocate` does not do: it makes the file longer, and where the
    file system cannot allocate (many network file systems), the C library
    writes to every block instead, so that everything would be written twice.
    """
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    library = ctypes.CDLL(None, use_errno=True)
    call = getattr(library, "fallocate64", None) or library.fallocate
    call.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    while call(descriptor, _FALLOC_FL_KEEP_SIZE, 0, size):
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number))
