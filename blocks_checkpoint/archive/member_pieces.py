"""What a member is written from: its bytes, a piece at a time."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from . import npy
from .crc import crc32

__all__ = [
    "CHUNK",
    "PAGE",
    "SMALL_MEMBER",
    "ArrayBytes",
    "Deflater",
    "chunks_of_bytes",
    "member_content",
]

#: Longest piece. Large enough that the interpreter's lock is taken rarely: a
#: training loop on another thread shall not feel it.
CHUNK = 8 << 20
#: Up to this size a member is copied and written together with its neighbours, and
#: read so, or at least with its local header in one call. The
#: data of an array that is larger begin at a page.
SMALL_MEMBER = 256 << 10
#: A multiple of every block of a disk. From memory that begins at one, to a place
#: in a file that does, bytes go without anybody copying them.
PAGE = 4096
# Others (dates, records, dtypes of other libraries) are no buffers, or not always.
_PLAIN_KINDS = frozenset("biufc")


def member_content(array: np.ndarray[Any, Any]) -> tuple[bytes, Any]:
    """Return the NPY header of a small array, and its bytes.

    These are its own memory, where that can be looked at as bytes.
    """
    flags = array.flags
    dtype = array.dtype
    if flags.c_contiguous:
        content = array if dtype.kind in _PLAIN_KINDS else array.tobytes()
        return npy.header_bytes(dtype, array.shape, False), content
    fortran_order = flags.f_contiguous
    header = npy.header_bytes(dtype, array.shape, fortran_order)
    return header, array.tobytes("F" if fortran_order else "C")


class ArrayBytes:
    """The bytes of an array member, piece by piece, as often as one likes."""

    def __init__(self, header: bytes, array: np.ndarray[Any, Any], fortran_order: bool) -> None:
        self._header = header
        self._array = array.T if fortran_order else array

    def __iter__(self) -> Iterator[Any]:
        yield self._header
        if self._array.nbytes:
            for part in _contiguous_parts(self._array):
                yield from chunks_of_bytes(part.reshape(-1).view(np.uint8).data)


def _contiguous_parts(array: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    """Yield `array` in C order: itself, or copies of at most a chunk where it has gaps."""
    if array.flags.c_contiguous or array.nbytes <= CHUNK or not array.ndim:
        yield np.ascontiguousarray(array)
        return
    row_bytes = array.nbytes // len(array)
    rows = CHUNK // row_bytes
    if rows:
        for start in range(0, len(array), rows):
            yield np.ascontiguousarray(array[start : start + rows])
    else:
        for row in array:
            yield from _contiguous_parts(row)


def chunks_of_bytes(view: memoryview) -> Iterator[memoryview]:
    """Yield the bytes of a view, a chunk at a time."""
    for start in range(0, len(view), CHUNK):
        yield view[start : start + CHUNK]


class Deflater:
    """Pieces of bytes, compressed; afterwards their sum and compressed length."""

    def __init__(self, pieces: Iterable[Any]) -> None:
        self._pieces = pieces
        self.crc = 0
        self.stored = 0

    def __iter__(self) -> Iterator[bytes]:
        packer = zlib.compressobj(zlib.Z_DEFAULT_COMPRESSION, zlib.DEFLATED, -zlib.MAX_WBITS)
        for piece in self._pieces:
            self.crc = crc32(piece, self.crc)
            yield self._count(packer.compress(piece))
        yield self._count(packer.flush())

    def _count(self, packed: bytes) -> bytes:
        self.stored += len(packed)
        return packed
