"""Where an array is read to: its memory, in parts that threads can fill."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .crc import combine
from .npy import ArrayHeader
from .zip_structures import Member

__all__ = ["Destination", "Part", "order_of"]

_PART = 4 << 20


class Part(NamedTuple):
    """A stretch of one array: where it is in the file, and the memory it goes to."""

    destination: Destination
    number: int
    offset: int
    view: memoryview


class Destination:
    """Where one array is read to.

    Parameters
    ----------
    member : Member
    header : ArrayHeader
    header_crc : int
        Sum of the member's bytes before the data.
    out : numpy.ndarray or None
        Where the caller wants the values. If it has the layout of the stored
        array, it is read into directly.

    Attributes
    ----------
    memory : memoryview
        Takes the stored data as they are.
    sums : list of int
        CRC-32 of each part, to be filled in by whoever reads it.
    array : numpy.ndarray
        The result, valid after `finish`.
    """

    def __init__(
        self,
        member: Member,
        header: ArrayHeader,
        header_crc: int,
        out: np.ndarray[Any, Any] | None,
    ) -> None:
        self.member = member
        self.header = header
        self._header_crc = header_crc
        self._read: np.ndarray[Any, Any]
        if out is None or not _fits_in_place(header, out):
            self._read = np.empty(header.shape, header.dtype, order_of(header))
        else:
            self._read = np.asarray(out)
        self._is_elsewhere = out is not None and not np.may_share_memory(self._read, out)
        self.array = self._read if out is None else out
        flat = self._read.T if header.fortran_order else self._read
        self.memory = flat.reshape(-1).view(np.uint8).data if header.nbytes else memoryview(b"")
        self.sums = [0] * -(-header.nbytes // _PART)

    def parts(self) -> Iterator[Part]:
        """Yield the stretches to read, in order."""
        for number in range(len(self.sums)):
            view = self.memory[number * _PART : (number + 1) * _PART]
            yield Part(self, number, self.header.data_offset + number * _PART, view)

    def crc(self) -> int:
        """Return the sum of the whole member, once `sums` is filled in."""
        crc = self._header_crc
        left = self.header.nbytes
        for part_crc in self.sums:
            crc = combine(crc, part_crc, min(left, _PART))
            left -= _PART
        return crc

    def finish(self) -> None:
        """Bring the values to where the caller wants them."""
        if self._is_elsewhere:
            self.array[...] = self._read.view(self.array.dtype)


def _fits_in_place(header: ArrayHeader, out: np.ndarray[Any, Any]) -> bool:
    """Say whether `out` has the layout of the stored array; refuse another shape or dtype."""
    stands_for = header.dtype.kind == "V" and header.dtype.names is None
    if out.shape != header.shape or not (
        out.dtype == header.dtype
        or (stands_for and out.dtype.itemsize == header.dtype.itemsize and not out.dtype.hasobject)
    ):
        raise ValueError(
            f"out has shape {out.shape} and dtype {out.dtype}; "
            f"stored are {header.shape} and {header.dtype}"
        )
    if not out.flags.writeable:
        raise ValueError("out is read-only")
    return bool(out.flags.f_contiguous if header.fortran_order else out.flags.c_contiguous)


def order_of(header: ArrayHeader) -> Any:
    """Return the order of a stored array as numpy's functions take it."""
    return "F" if header.fortran_order else "C"
