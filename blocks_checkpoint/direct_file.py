"""Writing a large file past the system's cache.

A write through the cache takes memory for every page, copies into it, and
starts the writing to the disk later. All of that is work of the processor, and
takes it from the training that goes on meanwhile. Many disks can fetch the
bytes from the memory of the process itself (``O_DIRECT``), as long as memory,
length and place in the file are multiples of a page. Copies that a background
save has made of large arrays are, and go out from where they lie; everything
else is collected in a buffer first.
"""

from __future__ import annotations

import errno
import mmap
import os
import sys
from typing import Any, BinaryIO, cast

import numpy as np

from .archive.member_pieces import PAGE

if sys.platform != "win32":
    import fcntl

__all__ = ["DirectFile", "past_the_cache"]

#: Below this, the cache costs little, and the file is soon read again.
WORTH_IT = 32 << 20
# In pages; so large that the interpreter's lock is taken rarely, so small that
# the processor's cache still holds it.
_BUFFER_BYTES = 4 << 20
# So much is written at once from where it lies, for the same reason; no copy of
# it has to fit into a cache.
_AT_ONCE = 64 << 20
# Less is copied: a request to the disk has a price, too.
_WORTH_A_PLACE = 256 << 10
# More is copied without the interpreter's lock, which a busy thread gives back
# late.
_WORTH_LETTING_GO = 64 << 10


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
    """A file that is written in order, in whole pages, past the cache.

    What is given to be written may be looked at until the file is flushed.

    `flush` writes what is left, which is no whole page, through the cache,
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
        # Whole pages that come next in the file, and behind them what is in
        # the buffer from `begin` to `end`.
        self._pages: list[Any] = []
        self._pages_bytes = 0
        self._begin = self._end = 0
        self._is_direct = True

    def seekable(self) -> bool:
        """Tell that nothing can be written anywhere but at the end."""
        return False

    def write(self, data: Any) -> int:
        """Take all of `data`."""
        source = np.frombuffer(data, dtype=np.uint8)
        total = len(source)
        while self._is_direct and len(source):
            source = source[self._take_pages(source) or self._hold(source) :]
        if len(source):
            self._file.write(source.data)
        return total

    def flush(self) -> None:
        """Write what was held back."""
        if self._is_direct:
            self._write_pages()
            self._leave_direct_mode()
            # Also if it is nothing: the file takes note of where it ends.
            self._file.write(self._buffer[self._begin : self._end].data)
            self._begin = self._end = 0

    def _hold(self, source: np.ndarray[Any, Any]) -> int:
        """Copy bytes into the buffer; return how many."""
        room = self._buffer[self._end :][: len(source)]
        if len(room) < _WORTH_LETTING_GO:
            room.data[:] = source[: len(room)].data
        else:
            np.copyto(room, source[: len(room)])
        self._end += len(room)
        if self._end == len(self._buffer):
            self._take_held()
            self._write_pages()
        return len(room)

    def _take_pages(self, source: np.ndarray[Any, Any]) -> int:
        """Note whole pages, to be written from where they are; return how many bytes."""
        nbytes = len(source) - len(source) % PAGE
        if nbytes < _WORTH_A_PLACE or self._end % PAGE or source.ctypes.data % PAGE:
            return 0
        self._take_held()
        self._pages.append(source[:nbytes])
        self._pages_bytes += nbytes
        if self._pages_bytes >= _AT_ONCE:
            self._write_pages()
        return nbytes

    def _take_held(self) -> None:
        """Note the pages that are in the buffer."""
        if self._end > self._begin:
            self._pages.append(self._buffer[self._begin : self._end])
            self._begin = self._end

    def _write_pages(self) -> None:
        """Write the pages noted; what the buffer holds after them stays."""
        pages, self._pages, self._pages_bytes = self._pages, [], 0
        try:
            while pages:
                pages = _without_start(pages, os.writev(self._file.fileno(), pages))
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            # What the file system said of the mode, it does not say of the
            # write; or a write that was cut short has left the blocks.
            self._leave_direct_mode()
            for octets in pages:
                self._file.write(octets.data)
        if self._begin == self._end:
            self._begin = self._end = 0

    def _leave_direct_mode(self) -> None:
        self._is_direct = False
        _set_direct(self._file, False)


def _without_start(pieces: list[Any], nbytes: int) -> list[Any]:
    """Return what is left of pieces behind their first bytes."""
    for number, piece in enumerate(pieces):
        if nbytes < len(piece):
            return [piece[nbytes:], *pieces[number + 1 :]]
        nbytes -= len(piece)
    return []


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
