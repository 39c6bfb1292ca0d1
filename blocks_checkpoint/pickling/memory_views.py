"""Arrays as views of memory: where they lie, whether they overlap, and back.

Nothing here copies values but :func:`octets_of`, and that only where an array
has gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

__all__ = [
    "Patchwork",
    "View",
    "byte_bounds",
    "described",
    "is_dense",
    "memory_between",
    "octets_of",
    "rebuild_view",
]

#: Memory of which only pieces matter may take this many times their bytes ...
SPAN_RATIO = 64
#: ... or this many (bytes).
SPAN_BYTES = 256 * 1024 * 1024

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]
else:
    # numpy before 1.22 has no such subscripts at run time.
    Array = np.ndarray


@dataclass(frozen=True)
class View:
    """Where an array lies in the memory of another one.

    Attributes
    ----------
    of : int
        Number of the array whose memory it is.
    offset : int
        Of the first element, in bytes from the beginning of that memory.
    dtype : numpy.dtype
    shape, strides : tuple of int
        Strides in bytes.
    writeable : bool
        Whether values may be set through this view.
    """

    of: int
    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    writeable: bool = True

    @classmethod
    def into(cls, number: int, start: int, array: Array) -> View:
        """Describe ``array`` as a view of array ``number``, which begins at ``start``."""
        offset = address_of(array) - start
        return cls(number, offset, array.dtype, array.shape, array.strides, array.flags.writeable)

    def as_tuple(self) -> tuple[Any, ...]:
        """Give the fields as plain values, which pickle small."""
        return (self.of, self.offset, self.dtype, self.shape, self.strides, self.writeable)


@dataclass(frozen=True)
class Patchwork:
    """Memory of which only some pieces matter.

    Attributes
    ----------
    nbytes : int
    pieces : tuple of (View, int)
        Where in the memory the values of which array belong.
    """

    nbytes: int
    pieces: tuple[tuple[View, int], ...]

    def as_tuple(self) -> tuple[Any, ...]:
        """Give the fields as plain values, which pickle small."""
        return (self.nbytes, [(view.as_tuple(), number) for view, number in self.pieces])

    def filled(self, values_of: Callable[[int], Array]) -> Array:
        """Make the memory.

        Parameters
        ----------
        values_of : callable
            From the number of an array to its values, as they are stored.

        Returns
        -------
        numpy.ndarray
            Of bytes. What is between the pieces takes up no room until it is
            used.
        """
        pieces = [(view, values_of(number)) for view, number in self.pieces]
        nbytes = sum(values.nbytes for _, values in pieces)
        if not 0 <= self.nbytes <= max(SPAN_BYTES, SPAN_RATIO * nbytes):
            raise ValueError(f"{nbytes} bytes are said to be spread over {self.nbytes}")
        memory = np.zeros(self.nbytes, np.uint8)
        for view, values in pieces:
            rebuild_view(view, memory)[...] = values
        return memory


def described(fields: tuple[Any, ...]) -> View | Patchwork:
    """Turn the plain values of either back into it.

    Raises
    ------
    ValueError
        The view is one of Python objects: bytes of a file would be taken for
        addresses of memory. A log that comes from anybody may say so.
    TypeError
        A dtype is none.
    """
    if len(fields) == 2:
        nbytes, pieces = fields
        return Patchwork(nbytes, tuple((_view(view), number) for view, number in pieces))
    return _view(fields)


def _view(fields: tuple[Any, ...]) -> View:
    view = View(*fields)
    # NumPy would make a dtype of a mere name, which nothing has looked at.
    if not isinstance(view.dtype, np.dtype):
        raise TypeError(f"{view.dtype!r:.40} is no dtype")
    if view.dtype.hasobject:
        raise ValueError("a view of memory as Python objects")
    return view


def rebuild_view(view: View, memory: Array) -> Array:
    """Make the array that ``view`` describes, within ``memory``.

    Parameters
    ----------
    view : View
    memory : numpy.ndarray
        Contiguous, in C or Fortran order.

    Returns
    -------
    numpy.ndarray
        Shares the memory of ``memory``.

    Raises
    ------
    ValueError
        The view reaches beyond the memory.
    """
    # An array can be read-only and have a view that is not.
    locked = view.writeable and not memory.flags.writeable
    if locked:
        memory.flags.writeable = True
    array: Array = np.ndarray(view.shape, view.dtype, octets_of(memory), view.offset, view.strides)
    if locked:
        memory.flags.writeable = False
    if not view.writeable:
        array.flags.writeable = False
    return array


def octets_of(array: Array) -> Array:
    """Return the bytes of an array, in one dimension, in the order of memory.

    Those of an array without gaps are a view of it.
    """
    # As bytes, because not every dtype (dates, bfloat16) lends out a buffer.
    # The transpose of a Fortran-ordered array is the same memory in C order.
    if not array.nbytes:
        return np.zeros(0, np.uint8)
    in_order = array.T if array.flags.f_contiguous else array
    return in_order.reshape(-1).view(np.uint8)


def address_of(array: Array) -> int:
    """Return the address of the first element."""
    return int(array.__array_interface__["data"][0])


def byte_bounds(array: Array) -> tuple[int, int]:
    """Return the addresses of the first byte of an array and behind its last."""
    low = address_of(array)
    if array.flags.c_contiguous:
        return low, low + array.nbytes
    high = low
    for length, stride in zip(array.shape, array.strides):
        if stride < 0:
            low += (length - 1) * stride
        else:
            high += (length - 1) * stride
    return low, high + array.itemsize


def is_dense(array: Array) -> bool:
    """Tell whether an array has no gaps, and is in C or Fortran order."""
    return array.flags.c_contiguous or array.flags.f_contiguous


class _Between:
    """Lends out the memory between two addresses, and keeps its owners alive."""

    def __init__(self, start: int, end: int, owners: Iterable[Array]) -> None:
        self._owners = list(owners)
        read_only = not any(array.flags.writeable for array in self._owners)
        self.__array_interface__ = {
            "version": 3,
            "shape": (end - start,),
            "typestr": "|u1",
            "data": (start, read_only),
        }


def memory_between(start: int, end: int, owners: Iterable[Array]) -> Array:
    """Return the bytes between two addresses as an array.

    Parameters
    ----------
    start, end : int
        All between them has to be of one allocation.
    owners : iterable of numpy.ndarray
        Arrays that keep that memory alive between them. It is writeable if
        one of them is.
    """
    return np.asarray(_Between(start, end, owners))
