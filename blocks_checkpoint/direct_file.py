"""Writing a large file past the system's cache.

A write through the cache takes memory for every page, copies into it, and
starts the writing to the disk later. All of that is work of the processor, and
takes it from the training that goes on meanwhile. Many disks can fetch the
bytes from the memory of the process itself (``O_DIRECT``), as long as memory,
length and place in the file are multiples of a block; so they are collected in
a buffer first.
"""

from __future__ import annotations

import errno
import mmap
import os
import sys
from typing import Any, BinaryIO, cast

import numpy as np

if sys.platform != "win32":
    import fcntl

__all__ = ["DirectFile", "past_the_cache"]

#: Below this, the cache costs little, and the file is soon read again.
WORTH_IT = 32 << 20
# A multiple of every block; so large that the interpreter's lock is taken
# rarely, so small that the processor's cache still holds it.
_BUFFER_BYTES = 4 << 20


def past_the_cache(file: BinaryIO, nbytes: int) -> BinaryIO:
    """Return what to write so many bytes to: `file`, or a `DirectFile` around it.

    Parameters
    ----------
    file : raw binary file
        New, and of the operating system.
    nbytes : int
        About as much as is going to be written.

    Returns
    -------
    binary file
        The caller has to flush it in the end.
    """
    if nbytes < WORTH_IT or not _is_on_a_disk(file) or not _set_direct(file, True):
        return file
    return cast(BinaryIO, DirectFile(file))


class DirectFile:
    """A file that is written in order, in whole buffers, past the cache.

    `flush` writes what is left, which is no whole buffer, through the cache,
    and so does whatever is written after that. A file system that turns out
    not to take such writes gets the others.

    Parameters
    ----------
    file : raw binary file
        At its beginning, and in direct mode.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        # An anonymous map begins at a page; other memory may not.
        self._buffer: Any = np.frombuffer(mmap.mmap(-1, _BUFFER_BYTES), dtype=np.uint8)
        self._held = 0
        self._is_direct = True

    def seekable(self) -> bool:
        """Tell that nothing can be written anywhere but at the end."""
        return False

    def write(self, data: Any) -> int:
        """Take all of `data`."""
        source = np.frombuffer(data, dtype=np.uint8)
        total = len(source)
        while self._is_direct and len(source):
            taken = min(len(source), len(self._buffer) - self._held)
            # NumPy lets go of the interpreter's lock for this; a memoryview would not.
            np.copyto(self._buffer[self._held : self._held + taken], source[:taken])
            self._held += taken
            source = source[taken:]
            if self._held == len(self._buffer):
                self._write_buffer()
        if len(source):
            self._file.write(source.data)
        return total

    def flush(self) -> None:
        """Write what was held back."""
        if self._is_direct:
            self._leave_direct_mode()
            self._file.write(self._buffer[: self._held].data)
            self._held = 0

    def _write_buffer(self) -> None:
        start = self._file.tell()
        try:
            self._file.write(self._buffer.data)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            # What the file system said of the mode, it does not say of the
            # write; or a write that was cut short has left the blocks.
            self._leave_direct_mode()
            self._file.write(self._buffer[self._file.tell() - start :].data)
        self._held = 0

    def _leave_direct_mode(self) -> None:
        self._is_direct = False
        _set_direct(self._file, False)


def _is_on_a_disk(file: BinaryIO) -> bool:
    """Tell whether the file system lies on a device of its own.

    Those in memory, on a network, or in layers on others do not, nor does
    Btrfs. Some of them take direct writes, and none gains by it.
    """
    return sys.platform == "linux" and os.major(os.fstat(file.fileno()).st_dev) != 0


def _set_direct(file: BinaryIO, is_direct: bool) -> bool:
    """Switch direct mode on or off; return whether that can be done."""
    try:
        flags = fcntl.fcntl(file.fileno(), fcntl.F_GETFL)
        wanted = flags | os.O_DIRECT if is_direct else flags & ~os.O_DIRECT
        fcntl.fcntl(file.fileno(), fcntl.F_SETFL, wanted)
    except OSError:
        return False
    return True
