"""Memory that copies of arrays are put into, again and again.

Memory that is new to a process is given to it page by page, as it is first
touched, and that takes longer than the copying. Here it is touched once, and
used for one save after another.

Large arrays are summed as they are copied, while the processor's cache has
their bytes. A thread that did it later would fetch them from memory once more,
and take the time from training.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .archive.crc import LIBRARY, combine, crc32
from .archive.member_pieces import PAGE, SMALL_MEMBER
from .archive.parallel import available_cores, for_each

__all__ = ["Arena", "Copies"]

# A line of the processor's cache: no two copies share one, and none is split.
_ALIGNMENT = 64
# One thread copies so much at a time; each then takes the next piece.
_PIECE = 8 << 20
# So much is copied, then summed: a core's cache still has it, and the
# interpreter's lock, which is taken in between, is taken rarely.
_STEP = 1 << 20
# Below this, an array is not worth preparing for threads.
_SMALL = 64 << 10
# Below this, a second thread costs more than it saves.
_WORTH_A_THREAD = 8 << 20
# Two threads use all of the bandwidth of most machines.
_THREADS = 2
# Python's own library sums more slowly than memory is copied.
_SUMS_ARE_CHEAP = LIBRARY != "zlib"


class Copies:
    """Copies of arrays, in memory that is lent.

    Attributes
    ----------
    arrays : list of numpy.ndarray
        In the order of the originals. Not to be used once :meth:`release` was
        called.
    crcs : list of int or None
        CRC-32 of the bytes of each; None for small arrays, and for all where
        summing takes longer than copying.
    """

    def __init__(
        self, arena: Arena, memory: Any, arrays: list[Any], crcs: list[int | None]
    ) -> None:
        self.arrays = arrays
        self.crcs = crcs
        self._arena = arena
        self._memory = memory

    def release(self) -> None:
        """Give the memory back."""
        memory, self._memory = self._memory, None
        self.arrays = []
        if memory is not None:
            self._arena.take_back(memory)

    def __del__(self) -> None:
        # A save that was replaced while it waited is dropped with its copies.
        self.release()


class Arena:
    """Memory for copies of arrays, kept from save to save.

    Holds as much as the largest set of copies took. If copies are asked for
    while others are in use, these get memory of their own, of which only the
    larger is kept in the end.

    Pickles without its memory.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._free: Any = None
        self._process = os.getpid()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()

    @property
    def nbytes(self) -> int:
        """Size of the memory that is kept and not in use, in bytes."""
        return 0 if self._free is None else int(self._free.nbytes)

    def copy(self, arrays: Iterable[np.ndarray[Any, Any]]) -> Copies:
        """Copy arrays.

        Parameters
        ----------
        arrays : iterable of numpy.ndarray
            Of any dtype but objects.

        Returns
        -------
        Copies
            Of the same shapes, dtypes and values; Fortran-ordered where the
            originals are, in C order otherwise.
        """
        originals = [np.asarray(array) for array in arrays]
        starts, total = _layout(originals)
        memory = self._take(total)
        copies: list[np.ndarray[Any, Any]] = []
        pieces: list[_Piece] = []
        for number, (array, start) in enumerate(zip(originals, starts)):
            flags = array.flags
            is_fortran = flags.f_contiguous and not flags.c_contiguous
            copy: np.ndarray[Any, Any] = np.ndarray(
                array.shape, array.dtype, memory, start, order="F" if is_fortran else "C"
            )
            copies.append(copy)
            if array.nbytes <= _SMALL and array.dtype.names is None:
                np.copyto(copy, array)
            elif array.nbytes:
                room = memory[start : start + array.nbytes]
                pieces += _pieces(number, copy, array, room)
        for_each(_Piece.copy, pieces, _threads(total))
        return Copies(self, memory, copies, _crcs(pieces, len(copies)))

    def prepare(self, nbytes: int) -> None:
        """Touch memory for copies of so many bytes, before it is needed.

        The arrays' bytes together, each rounded up to 4096, are enough.
        """
        memory = self._take(nbytes)
        pieces = range(0, memory.nbytes, _PIECE)

        def touch(start: int) -> None:
            memory[start : start + _PIECE] = 0

        for_each(touch, pieces, _threads(memory.nbytes))
        self.take_back(memory)

    def clear(self) -> None:
        """Give the memory that is not in use back to the system."""
        with self._guard():
            self._free = None

    def take_back(self, memory: Any) -> None:
        """Keep memory that was lent, if it is the largest."""
        with self._guard():
            if self._free is None or memory.nbytes > self._free.nbytes:
                self._free = memory

    def _take(self, nbytes: int) -> Any:
        with self._guard():
            memory, self._free = self._free, None
        if memory is not None and memory.nbytes >= nbytes:
            return memory
        # The old one goes before the new one comes.
        del memory
        return _aligned(nbytes)

    def _guard(self) -> Any:
        # A forked process may have got the lock as another thread held it.
        if self._process != os.getpid():
            self._lock, self._process = threading.RLock(), os.getpid()
        return self._lock


def _aligned(nbytes: int) -> Any:
    memory = np.empty(nbytes + PAGE, dtype=np.uint8)
    start = -memory.ctypes.data % PAGE
    return memory[start : start + nbytes]


def _layout(arrays: Sequence[np.ndarray[Any, Any]]) -> tuple[list[int], int]:
    """Return where each array goes, and how much they need together."""
    starts = []
    total = 0
    for array in arrays:
        # From a page, a disk can fetch the bytes itself.
        total += -total % (PAGE if array.nbytes > SMALL_MEMBER else _ALIGNMENT)
        starts.append(total)
        total += array.nbytes
    return starts, total


def _threads(nbytes: int) -> int:
    return min(_THREADS, available_cores()) if nbytes >= _WORTH_A_THREAD else 1


class _Piece:
    """A part of an array, and where it is copied to.

    Attributes
    ----------
    number : int
        Which array it is of.
    nbytes : int
    crc : int or None
        Of the copy.
    """

    def __init__(self, number: int, target: Any, source: Any, octets: Any, is_summed: bool) -> None:
        self.number = number
        self.nbytes = octets.nbytes
        self.crc = 0 if is_summed else None
        self._target = target
        self._source = source
        # The memory of the target.
        self._octets = octets

    def copy(self) -> None:
        """Copy the part, step by step if it is summed as well."""
        if self.crc is None:
            np.copyto(self._target, self._source)
            return
        width = self.nbytes // len(self._target)
        rows = max(1, _STEP // width)
        for start in range(0, len(self._target), rows):
            end = start + rows
            np.copyto(self._target[start:end], self._source[start:end])
            self.crc = crc32(self._octets[start * width : end * width], self.crc)


def _pieces(
    number: int,
    target: np.ndarray[Any, Any],
    source: np.ndarray[Any, Any],
    room: np.ndarray[Any, Any],
) -> Iterable[_Piece]:
    """Yield what to copy, and where to, so that threads can share the work.

    The room is the memory of the target.
    """
    is_summed = _SUMS_ARE_CHEAP and source.nbytes > SMALL_MEMBER
    if not (source.flags.c_contiguous or source.flags.f_contiguous):
        yield _Piece(number, target, source, room, is_summed)
        return
    # As bytes: what lies between the fields of a structure comes along.
    octets = _octets(source)
    for start in range(0, len(octets), _PIECE):
        part = room[start : start + _PIECE]
        yield _Piece(number, part, octets[start : start + _PIECE], part, is_summed)


def _octets(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    in_order = array if array.flags.c_contiguous else array.T
    return in_order.reshape(-1).view(np.uint8)


def _crcs(pieces: Iterable[_Piece], count: int) -> list[int | None]:
    """Return the sum of each of so many arrays, from those of its pieces."""
    crcs: list[int | None] = [None] * count
    for piece in pieces:
        if piece.crc is not None:
            crcs[piece.number] = combine(crcs[piece.number] or 0, piece.crc, piece.nbytes)
    return crcs
