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

What a partial file is called, and how a dead process is told from a living
one, `partial_file` knows.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator

from .errors import CheckpointError, LoadError, SaveError
from .partial_file import NOT_SUPPORTED, PartialFile, sweep

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


@contextlib.contextmanager
def replacing(
    path: str | os.PathLike[str],
    *,
    expected_bytes: int = 0,
    check: Callable[[str], object] | None = None,
    on_step: Callable[[str], object] | None = None,
) -> Iterator[PartialFile]:
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
    PartialFile
        A binary file. Readable, writable and seekable; its writes are complete or raise. The
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
        sweep(target)
        step("create")
        file = PartialFile.create(target, mode)
        try:
            step("reserve")
            file.reserve(expected_bytes)
            step("write")
            yield file
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


# check


def _check(file: PartialFile, check: Callable[[str], object]) -> None:
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
        if error.errno not in NOT_SUPPORTED:
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
