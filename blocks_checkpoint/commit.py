"""Making a finished file appear under its name, durably, all or nothing.

`replacing` is the commit. Its steps, in the order of the code, and what the
folder holds when the process is killed at any time between two of them::

    resolve       symbolic links followed, the target looked at     old
    sweep         partial files of dead processes removed           old
    create        partial file beside the target, locked            old, partial
    reserve       its space taken from the disk                     old, partial
    write         members written                                   old, partial
    trim          space not needed given back                       old, partial
    sync_file     its bytes on the disk                             old, partial
    check         read back, if asked for                           old, partial
    replace       renamed over the target                           new
    sync_folder   the new name on the disk                          new

A partial file is called ``.NAME.PID-RANDOM.partial``. The process that writes
it holds a lock on it (`flock`), which ends with the process, however that
ends: a partial file that can be locked is nobody's any more.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import re
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, cast

from .errors import CheckpointError, LoadError, SaveError

if sys.platform != "win32":
    import fcntl

__all__ = ["STEPS", "replacing"]

#: The steps of a commit; `on_step` is called with each before it is done.
STEPS = (
    "resolve",
    "sweep",
    "create",
    "reserve",
    "write",
    "trim",
    "sync_file",
    "check",
    "replace",
    "sync_folder",
)

_CREATE_FLAGS = (
    os.O_RDWR
    | os.O_CREAT
    | os.O_EXCL
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
# The name of a partial file must fit into the 255 bytes of most file systems.
_LONGEST_STEM = 180
# What file systems answer that cannot do what they are asked.
_NOT_SUPPORTED = {
    errno.EINVAL,
    errno.ENODEV,
    errno.ENOLCK,
    errno.ENOSYS,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
}
# How many times a new partial file may be swept away before it is locked.
_ATTEMPTS = 100


@contextlib.contextmanager
def replacing(
    path: str | os.PathLike[str],
    *,
    expected_bytes: int = 0,
    check: Callable[[str], object] | None = None,
    on_step: Callable[[str], object] | None = None,
) -> Iterator[BinaryIO]:
    """Write a file that appears under `path` when it is whole, and not before.

    The ``with`` block is given the partial file to write to. When it ends
    without an error, the file is made durable and takes the place of what was
    there. When it ends with one, whatever the error, the old file is as it
    was and nothing else is left.

    Parameters
    ----------
    path : str or os.PathLike
        A symbolic link is written through: what it points to is replaced. The
        new file has the permissions of the old one, or those the umask gives.
    expected_bytes : int, optional
        Space to reserve before anything is written, so that a full disk is
        found out at once.
    check : callable, optional
        Called with the path of the finished partial file before it replaces
        the old one; an exception of its keeps it from doing so.
    on_step : callable, optional
        Called with the name of each step (see `STEPS`) before it is done. What
        it raises is an error of that step.

    Yields
    ------
    binary file
        Readable, writable and seekable; its writes are complete or raise. The
        new file ends where it was written to last.

    Raises
    ------
    SaveError
        With the `OSError` as its cause, and what can be done about it.
    """
    step = on_step or _ignore
    shown = os.fsdecode(path)
    with _explained(shown):
        step("resolve")
        target, mode = _resolve(shown)
        step("sweep")
        _sweep(target)
        step("create")
        file = _create(target, mode)
        try:
            step("reserve")
            file.reserve(expected_bytes)
            step("write")
            yield cast(BinaryIO, file)
            step("trim")
            file.trim()
            step("sync_file")
            file.sync()
            step("check")
            if check:
                _check(file, check)
            step("replace")
            file.rename(target)
        except BaseException:
            file.discard()
            raise
        finally:
            file.close()
    with _explained(shown, "is in place, but is not sure to outlast a power failure"):
        step("sync_folder")
        _sync_folder(os.path.dirname(target))


def _ignore(step: str) -> None:
    """Do nothing at a step."""


# resolve


def _resolve(path: str) -> tuple[str, int | None]:
    """Return what a path points to in the end, and the permissions of what is there."""
    target = os.path.realpath(path)
    try:
        status = os.lstat(target)
    except FileNotFoundError:
        return target, None
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
    if not stat.S_ISREG(status.st_mode):
        what = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        raise SaveError(f"this is {what}; give the path of a file", path=path)
    return target, stat.S_IMODE(status.st_mode) & 0o777


# sweep


def _stem(target: str) -> str:
    """Return what the names of all partial files of a target begin with."""
    name = os.path.basename(target)
    raw = os.fsencode(name)
    if len(raw) > _LONGEST_STEM:
        digest = hashlib.sha256(raw).hexdigest()[:16]
        name = f"{raw[: _LONGEST_STEM - 20].decode('utf-8', 'ignore')}~{digest}"
    return f".{name}."


def _sweep(target: str) -> None:
    """Remove the partial files that dead processes left of a target."""
    if sys.platform == "win32":
        return
    folder = os.path.dirname(target)
    is_partial = re.compile(re.escape(_stem(target)) + r"[0-9]+-[0-9a-f]+\.partial").fullmatch
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if is_partial(entry.name)]
    for name in names:
        # Whatever hinders this (another user's file, one gone meanwhile) is
        # no reason not to save.
        with contextlib.suppress(OSError):
            _remove_if_dead(os.path.join(folder, name))


def _remove_if_dead(partial: str) -> None:
    if sys.platform == "win32":
        return
    flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        # Network file systems lock only what is open for writing.
        descriptor = os.open(partial, os.O_RDWR | flags)
    except PermissionError:
        descriptor = os.open(partial, os.O_RDONLY | flags)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(partial)
    finally:
        os.close(descriptor)


# create


def _create(target: str, mode: int | None) -> _PartialFile:
    path = target
    for _ in range(_ATTEMPTS):
        name = f"{_stem(target)}{os.getpid()}-{secrets.token_hex(8)}.partial"
        path = os.path.join(os.path.dirname(target), name)
        # A file that others must not read is not theirs to read meanwhile.
        file = _PartialFile(path, os.open(path, _CREATE_FLAGS, 0o666 if mode is None else mode))
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


class _PartialFile(io.FileIO):
    """The file that is written, under the name it has until it is whole."""

    def __init__(self, path: str, descriptor: int) -> None:
        super().__init__(descriptor, "r+")
        self.path = path
        self._end = 0

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
            if error.errno not in _NOT_SUPPORTED:
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
        if size <= 0 or not hasattr(os, "posix_fallocate"):
            return
        try:
            os.posix_fallocate(self.fileno(), 0, size)
        except OSError as error:
            if error.errno not in _NOT_SUPPORTED:
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
        if sys.platform == "darwin":
            # There, fsync leaves them in the disk's own memory.
            with contextlib.suppress(OSError):
                fcntl.fcntl(self.fileno(), fcntl.F_FULLFSYNC)
                return
        os.fsync(self.fileno())

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


# check


def _check(file: _PartialFile, check: Callable[[str], object]) -> None:
    if hasattr(os, "posix_fadvise"):
        # What is checked shall come from the disk, not from memory.
        with contextlib.suppress(OSError):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    try:
        check(file.path)
    except LoadError as error:
        raise SaveError(
            f"what was written reads back wrong, and the file of before was kept: {error.message}",
            member=error.member,
        ) from error


# sync_folder


def _sync_folder(folder: str) -> None:
    """Wait until the names in a folder are on the disk."""
    if sys.platform == "win32":
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | os.O_CLOEXEC)
    except PermissionError:
        # One may be allowed to write into a folder that one cannot list.
        os.sync()
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NOT_SUPPORTED:
            raise
        os.sync()
    finally:
        os.close(descriptor)


# errors

_CURES = {
    errno.ENOSPC: "free some space, or save to another disk",
    errno.EDQUOT: "remove files of yours, or ask for a larger quota",
    errno.EACCES: "allow writing into the folder, or save elsewhere",
    errno.EPERM: "allow writing into the folder, or save elsewhere",
    errno.EROFS: "the file system is read-only; save elsewhere",
    errno.ENOENT: "the folder is missing; create it",
    errno.ENOTDIR: "a part of the path is a file; correct the path",
    errno.EFBIG: "the file is larger than the system allows; see 'ulimit -f'",
    errno.EIO: "the disk or its connection fails; save elsewhere and check it",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ELOOP: "its symbolic links go round in a circle; remove one",
    errno.EMFILE: "too many files are open; see 'ulimit -n'",
}


@contextlib.contextmanager
def _explained(path: str, what: str = "could not be written") -> Iterator[None]:
    """Raise a `SaveError` that says what to do, in place of an `OSError`."""
    try:
        yield
    except CheckpointError as error:
        if error.path is None:
            error.path = path
        raise
    except OSError as error:
        number = error.errno
        name = type(error).__name__ if number is None else errno.errorcode.get(number, str(number))
        cure = None if number is None else _CURES.get(number)
        raise SaveError(
            f"{what}: {error} ({name}){f'; {cure}' if cure else ''}", path=path
        ) from error
