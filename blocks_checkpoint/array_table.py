"""The arrays of one save: which are stored, once each, and which are views.

While objects are pickled, every array met is given a number and nothing else
is decided (:meth:`ArrayTable.reference`), because an array is often reached
before the shared variable that owns it. When all pickles are written,
:meth:`ArrayTable.plan` looks at the whole and decides for each array:

- it becomes a *member* of its own, under its variable's name or a number;
- it is small and nobody's: it goes to the *pool*, a small pickle behind the
  one that refers to it;
- it shares memory with others: one array that covers them all is stored, and
  the others are remembered as *views* of it.

Only what was met is stored. A small slice of a huge array that is itself not
part of the state costs the size of the slice.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .engines import identity
from .errors import CheckpointWarning

__all__ = ["ArrayTable", "Plan", "StoredArray", "View", "rebuild_view"]

#: An array that no shared variable owns is a member from this size on (bytes).
LARGE_BYTES = 64 * 1024

#: Views may cost this many times their own bytes in memory between them ...
SPARSE_RATIO = 4
#: ... before it matters, from this size on (bytes).
SPARSE_BYTES = 1024 * 1024

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
    """

    of: int
    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def as_tuple(self) -> tuple[Any, ...]:
        """Give the fields as plain values, which pickle small."""
        return (self.of, self.offset, self.dtype, self.shape, self.strides)


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
    # As bytes, because not every dtype (dates, bfloat16) lends out a buffer.
    # The transpose of a Fortran-ordered array is the same memory in C order.
    in_order = memory if memory.flags.c_contiguous else memory.T
    octets = in_order.reshape(-1).view(np.uint8)
    return np.ndarray(view.shape, view.dtype, octets, view.offset, view.strides)


@dataclass
class StoredArray:
    """An array that becomes a member of the archive.

    Attributes
    ----------
    number : int
        By which the pickles refer to it.
    array : numpy.ndarray
        The values, still those of the running loop unless copied.
    variables : list
        Shared variables that it is the value of; empty for other arrays.
    view : View or None
        Where it lies in another array's memory, if it does.
    """

    number: int
    array: Array
    variables: list[Any] = field(default_factory=list)
    view: View | None = None


@dataclass
class Plan:
    """What :meth:`ArrayTable.plan` decided.

    Attributes
    ----------
    stored : list of StoredArray
        In the order in which they were met.
    pools : dict of str to dict
        For each pickle, the small arrays and views that belong to it:
        number to :class:`numpy.ndarray` or :class:`View`.
    """

    stored: list[StoredArray]
    pools: dict[str, dict[int, Array | View]]


@dataclass
class _Entry:
    array: Array
    pickles: list[str]
    variables: list[Any] = field(default_factory=list)
    promoted: bool = False
    source: Any = None

    @property
    def is_member(self) -> bool:
        return self.promoted or bool(self.variables) or self.array.nbytes >= LARGE_BYTES


class ArrayTable:
    """Numbers the arrays of one save.

    Parameters
    ----------
    chain : tuple of str
        Names of the pickles that are written, and read, one after another:
        what one of them has in its pool, those behind it may refer to.
        Every other pickle has to load by itself.
    first_number : int
        Where the numbers begin.

    Attributes
    ----------
    pickle : str
        Name of the pickle that is being written.
    """

    def __init__(self, chain: tuple[str, ...] = (), first_number: int = 0) -> None:
        self.pickle = ""
        self._chain = chain
        # The entries keep the arrays alive. Without that, a temporary made by
        # some ``__reduce__`` dies while pickling goes on, its id is given to
        # the next array, and the two become one.
        self._entries: dict[int, _Entry] = {}
        self._next_number = first_number
        self._numbers: dict[int, int] = {}
        self._stored_before: dict[int, Array] = {}

    def reference(self, array: Any, convert: Callable[[Any], Array] | None = None) -> int:
        """Return the number of an array, giving it one at first sight.

        Parameters
        ----------
        array : numpy.ndarray or object
        convert : callable, optional
            Makes a NumPy array of an object that is none.
        """
        number = self._numbers.get(id(array))
        if number is not None and number in self._stored_before:
            return number
        if number is None:
            stored = array if convert is None else convert(array)
            number = self._numbers[id(array)] = self._add(
                _Entry(stored, [self.pickle], source=array)
            )
        elif self._entries[number].pickles[-1] != self.pickle:
            self._entries[number].pickles.append(self.pickle)
        return number

    def own(
        self, array: Any, variable: Any, convert: Callable[[Any], Array] | None = None
    ) -> int:
        """Note that ``array`` is the value of a shared variable."""
        number = self.reference(array, convert)
        if number in self._stored_before:
            return number
        entry = self._entries[number]
        if all(identity(variable) != identity(known) for known in entry.variables):
            entry.variables.append(variable)
        return number

    def set_stored(self, array: Array, number: int) -> None:
        """Say that an array is in the file already, under that number."""
        self._numbers[id(array)] = number
        self._stored_before[number] = array

    def knows(self, array: Array) -> bool:
        """Tell whether the array has a number."""
        return id(array) in self._numbers

    def _add(self, entry: _Entry) -> int:
        number = self._next_number
        self._next_number += 1
        self._entries[number] = entry
        return number

    def plan(self) -> Plan:
        """Decide what is stored and how; see the module's description."""
        plan = Plan([], {})
        for numbers in list(self._clusters()):
            if len(numbers) == 1:
                self._place(plan, numbers[0])
            else:
                self._place_sharing(plan, numbers)
        plan.stored.sort(key=lambda stored: stored.number)
        return plan

    def _homes(self, entries: list[_Entry]) -> list[str]:
        """List the pickles whose pools must hold what these entries need."""
        met = {name for entry in entries for name in entry.pickles}
        in_chain = [name for name in self._chain if name in met]
        return in_chain[:1] + sorted(met.difference(self._chain))

    def _place(self, plan: Plan, number: int, homes: list[str] | None = None) -> None:
        entry = self._entries[number]
        if entry.is_member:
            plan.stored.append(StoredArray(number, entry.array, entry.variables))
            return
        for name in homes or self._homes([entry]):
            plan.pools.setdefault(name, {})[number] = entry.array

    def _place_sharing(self, plan: Plan, numbers: list[int]) -> None:
        entries = [self._entries[number] for number in numbers]
        bounds = [byte_bounds(entry.array) for entry in entries]
        start, end = min(low for low, _ in bounds), max(high for _, high in bounds)
        if end - start > max(SPARSE_BYTES, SPARSE_RATIO * sum(e.array.nbytes for e in entries)):
            self._place_sparse(plan, numbers, end - start)
            return
        covering = [
            number
            for number, entry, span in zip(numbers, entries, bounds)
            if span == (start, end) and _is_dense(entry.array)
        ]
        # A variable's own array first: then the member has the variable's name.
        covering.sort(key=lambda number: not self._entries[number].variables)
        owner = covering[0] if covering else self._add_memory(start, end)
        homes = self._homes(entries)
        self._entries[owner].promoted |= any(entry.is_member for entry in entries)
        self._place(plan, owner, homes)
        for number, entry in zip(numbers, entries):
            if number == owner:
                continue
            array = entry.array
            offset = _address(array) - start
            view = View(owner, offset, array.dtype, array.shape, array.strides)
            for name in homes:
                plan.pools.setdefault(name, {})[number] = view
            if entry.variables:
                # A second copy of these bytes, so that numpy finds every
                # variable under its name. Loading a main loop uses the view.
                plan.stored.append(StoredArray(number, array, entry.variables, view))

    def _place_sparse(self, plan: Plan, numbers: list[int], spanned: int) -> None:
        arrays = [self._entries[number].array for number in numbers]
        if _any_share(arrays):
            warnings.warn(
                f"{len(arrays)} arrays of together {sum(a.nbytes for a in arrays)} bytes share "
                f"memory that spans {spanned} bytes; they are saved apart, and changing one "
                "will no longer change the others after loading",
                CheckpointWarning,
                stacklevel=2,
            )
        for number in numbers:
            self._place(plan, number)

    def _add_memory(self, start: int, end: int) -> int:
        # All of it lies in one allocation: it is a chain of arrays of which
        # each overlaps the next.
        raw = (ctypes.c_ubyte * (end - start)).from_address(start)
        memory = np.frombuffer(memoryview(raw), dtype=np.uint8)
        return self._add(_Entry(memory, []))

    def _clusters(self) -> Iterator[list[int]]:
        """Group the numbers of arrays whose memory overlaps."""
        if all(entry.array.base is None for entry in self._entries.values()):
            yield from ([number] for number in self._entries)
            return
        spans = []
        for number, entry in self._entries.items():
            if entry.array.size:
                low, high = byte_bounds(entry.array)
                spans.append((low, high, number))
            else:
                yield [number]
        spans.sort()
        cluster: list[int] = []
        reach = -1
        for low, high, number in spans:
            if cluster and low >= reach:
                yield sorted(cluster)
                cluster = []
            cluster.append(number)
            reach = max(reach, high) if len(cluster) > 1 else high
        if cluster:
            yield sorted(cluster)


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


def byte_bounds(array: Array) -> tuple[int, int]:
    """Return the addresses of the first byte of an array and behind its last."""
    low = _address(array)
    if array.flags.c_contiguous:
        return low, low + array.nbytes
    high = low
    for length, stride in zip(array.shape, array.strides):
        if stride < 0:
            low += (length - 1) * stride
        else:
            high += (length - 1) * stride
    return low, high + array.itemsize


def _is_dense(array: Array) -> bool:
    return array.flags.c_contiguous or array.flags.f_contiguous


def _any_share(arrays: list[Array]) -> bool:
    for index, first in enumerate(arrays[:64]):
        for second in arrays[index + 1 : 64]:
            try:
                if np.shares_memory(first, second, max_work=10_000):
                    return True
            except Exception as error:
                # numpy has moved the name of this class between versions.
                if type(error).__name__ != "TooHardError":
                    raise
                return True
    return False
