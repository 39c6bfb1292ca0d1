"""Which arrays of a save are stored, once each, and which are views.

When all pickles are written, :func:`make_plan` looks at the arrays that were met
and decides for each:

- it becomes a *member* of its own, under its variable's name or a number;
- it is small and nobody's: it goes to the *pool*, a small pickle behind the
  one that refers to it;
- it shares memory with others: one array that covers them all is stored, and
  the others are remembered as *views* of it.

Only what was met is stored. A small slice of a huge array that is itself not
part of the state costs the size of the slice, and slices that lie far apart in
one array are stored without what is between them.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from ..archive.npy import NpyError, header_bytes, parse_header
from ..errors import CheckpointWarning
from .memory_views import (
    SPAN_BYTES,
    SPAN_RATIO,
    Patchwork,
    View,
    byte_bounds,
    is_dense,
    memory_between,
    octets_of,
)

__all__ = ["LARGE_BYTES", "Array", "Entry", "Plan", "StoredArray", "fits_npy", "make_plan"]

#: An array that no shared variable owns is a member from this size on (bytes).
LARGE_BYTES = 64 * 1024

#: Views may be stored with gaps of this many times their own bytes ...
GAP_RATIO = 4
#: ... or of this many (bytes); with larger ones, the gaps are left out.
GAP_BYTES = 1024 * 1024

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]
else:
    # numpy before 1.22 has no such subscripts at run time.
    Array = np.ndarray


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
    writeable : bool
        Whether its values may be set.
    """

    number: int
    array: Array
    variables: list[Any] = field(default_factory=list)
    view: View | None = None
    writeable: bool = True


Pooled = Union[Array, View, Patchwork]


@dataclass
class Plan:
    """What :func:`make_plan` decided.

    Attributes
    ----------
    stored : list of StoredArray
        In the order in which they were met.
    pools : dict of str to dict
        For each pickle, what belongs to it and is no member: by number, small
        arrays, views, and the memory of views far apart.
    """

    stored: list[StoredArray]
    pools: dict[str, dict[int, Pooled]]

    def pickled_pool(self, pickle_name: str, protocol: int) -> bytes:
        """Pickle what belongs to a pickle; empty if nothing does."""
        pool = self.pools.get(pickle_name)
        if not pool:
            return b""
        entries = {
            number: entry.as_tuple() if isinstance(entry, (View, Patchwork)) else entry
            for number, entry in pool.items()
        }
        return pickle.dumps(entries, protocol)


@dataclass
class Entry:
    """An array that was met while objects were pickled.

    Attributes
    ----------
    array : numpy.ndarray
    pickles : list of str
        Those that refer to it.
    variables : list
        Shared variables that it is the value of.
    promoted : bool
        It becomes a member though it is small and nobody's.
    source : object
        What it was made of, kept alive.
    """

    array: Array
    pickles: list[str]
    variables: list[Any] = field(default_factory=list)
    promoted: bool = False
    source: Any = None

    @property
    def is_member(self) -> bool:
        """Whether it becomes a member of the archive."""
        return self.promoted or bool(self.variables) or self.array.nbytes >= LARGE_BYTES


def make_plan(entries: dict[int, Entry], chain: tuple[str, ...], next_number: int) -> Plan:
    """Decide what is stored and how; see the module's description.

    Parameters
    ----------
    entries : dict of int to Entry
        By number. Gets further ones, for memory that several share.
    chain : tuple of str
        Pickles that are read one after another.
    next_number : int
        The first that is free.
    """
    return _Planner(entries, chain, next_number).plan()


class _Planner:
    def __init__(self, entries: dict[int, Entry], chain: tuple[str, ...], next_number: int) -> None:
        self._entries = entries
        self._chain = chain
        self._next_number = next_number

    def plan(self) -> Plan:
        plan = Plan([], {})
        # In the order of numbers: that of addresses is another one each time.
        for numbers in sorted(self._clusters()):
            if len(numbers) > 1 and self._homes(numbers):
                self._place_sharing(plan, numbers)
            else:
                for number in numbers:
                    self._place_alone(plan, number)
        plan.stored.sort(key=lambda stored: stored.number)
        return plan

    def _add(self, entry: Entry) -> int:
        number = self._next_number
        self._next_number += 1
        self._entries[number] = entry
        return number

    def _homes(self, numbers: list[int]) -> list[str]:
        """List the pickles whose pools must hold what these entries need."""
        met = {name for number in numbers for name in self._entries[number].pickles if name}
        in_chain = [name for name in self._chain if name in met]
        return in_chain[:1] + sorted(met.difference(self._chain))

    def _place_alone(self, plan: Plan, number: int) -> None:
        entry = self._entries[number]
        array = entry.array
        if not entry.variables and _overlaps_itself(array):
            self._place_sharing(plan, [number])
        elif fits_npy(array.dtype) if entry.is_member else fits_pool(array):
            self._place(plan, number)
        else:
            self._place_with_view(plan, number)

    def _place(self, plan: Plan, number: int, homes: list[str] | None = None) -> None:
        entry = self._entries[number]
        if entry.is_member:
            writeable = entry.array.flags.writeable
            plan.stored.append(
                StoredArray(number, entry.array, entry.variables, writeable=writeable)
            )
        else:
            self._pool(plan, number, entry.array, homes)

    def _place_with_view(self, plan: Plan, number: int) -> None:
        """Place an array of which the stored values do not tell all."""
        entry = self._entries[number]
        dense = entry.array if is_dense(entry.array) else entry.array.copy()
        memory = number
        if entry.is_member:
            plan.stored.append(StoredArray(number, _npy_array(dense), entry.variables))
        else:
            memory = self._add(Entry(octets_of(dense), entry.pickles))
            self._place(plan, memory)
        writeable = entry.array.flags.writeable
        view = View(memory, 0, dense.dtype, dense.shape, dense.strides, writeable)
        self._pool(plan, number, view)

    def _pool(self, plan: Plan, number: int, thing: Pooled, homes: list[str] | None = None) -> None:
        for name in self._homes([number]) if homes is None else homes:
            plan.pools.setdefault(name, {})[number] = thing

    def _place_sharing(self, plan: Plan, numbers: list[int]) -> None:
        entries = [self._entries[number] for number in numbers]
        bounds = [byte_bounds(entry.array) for entry in entries]
        start, end = min(low for low, _ in bounds), max(high for _, high in bounds)
        nbytes = sum(entry.array.nbytes for entry in entries)
        homes = self._homes(numbers)
        is_member = any(entry.is_member for entry in entries)
        if end - start > max(SPAN_BYTES, SPAN_RATIO * nbytes):
            self._place_apart(plan, numbers, end - start)
            return
        if end - start > max(GAP_BYTES, GAP_RATIO * nbytes):
            owner = self._add_patchwork(plan, numbers, start, end)
        else:
            owner = self._covering(numbers, start, end, is_member)
            self._entries[owner].promoted |= is_member
            self._place(plan, owner, homes)
        for number, entry in zip(numbers, entries):
            if number == owner:
                continue
            view = View.into(owner, start, entry.array)
            self._pool(plan, number, view, homes)
            if entry.variables:
                # A second copy of these bytes, so that numpy finds every
                # variable under its name. Loading a main loop uses the view.
                values = _npy_array(entry.array)
                plan.stored.append(StoredArray(number, values, entry.variables, view))

    def _covering(self, numbers: list[int], start: int, end: int, is_member: bool) -> int:
        """Find an array that has the memory of all of these, or add one."""
        arrays = [self._entries[number].array for number in numbers]
        covering = [
            number
            for number, array in zip(numbers, arrays)
            if is_dense(array)
            and byte_bounds(array) == (start, end)
            and (fits_npy(array.dtype) if is_member else fits_pool(array))
        ]
        # A variable's own array first: then the member has the variable's name.
        covering.sort(key=lambda number: not self._entries[number].variables)
        if covering:
            return covering[0]
        return self._add(Entry(memory_between(start, end, arrays), []))

    def _add_patchwork(self, plan: Plan, numbers: list[int], start: int, end: int) -> int:
        """Add memory of which only what these arrays take up is stored."""
        pieces: dict[tuple[Any, ...], tuple[View, int]] = {}
        pickles = [name for number in numbers for name in self._entries[number].pickles]
        memory = self._add(Entry(np.zeros(0, np.uint8), pickles))
        for number in numbers:
            entry = self._entries[number]
            view = View.into(memory, start, entry.array)
            piece = (view.offset, view.dtype, view.shape, view.strides)
            if piece not in pieces or entry.variables:
                pieces[piece] = (replace(view, writeable=True), number)
        for piece, (view, number) in pieces.items():
            entry = self._entries[number]
            if not entry.variables:
                number = self._add(Entry(entry.array.copy(), pickles))
                self._place_alone(plan, number)
                pieces[piece] = (view, number)
        self._pool(plan, memory, Patchwork(end - start, tuple(pieces.values())))
        return memory

    def _place_apart(self, plan: Plan, numbers: list[int], spanned: int) -> None:
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
            self._place_alone(plan, number)

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


def fits_npy(dtype: np.dtype[Any]) -> bool:
    """Tell whether an array of this dtype comes back from NPY as what it was."""
    if dtype.isbuiltin == 1 and not dtype.metadata:
        return True
    if dtype.type.__module__.partition(".")[0] == "ml_dtypes":
        # Their names are in the manifest.
        return bool(dtype.isnative)
    # Equality overlooks metadata and alignment.
    return pickle.dumps(_dtype_from_npy(dtype)) == pickle.dumps(dtype)


def fits_pool(array: Array) -> bool:
    """Tell whether an array comes back from a pickle of NumPy's as what it was.

    Such a pickle turns other byte orders into the machine's own, and a
    read-only array into one that can never be written to again.
    """
    return array.flags.writeable and array.dtype.isnative


def _dtype_from_npy(dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    try:
        return parse_header(header_bytes(dtype, (), False))[0]
    except (NpyError, ValueError):
        return None


def _npy_array(array: Array) -> Array:
    """Return the array, or its bytes where NPY cannot say what they mean."""
    if fits_npy(array.dtype) or _dtype_from_npy(array.dtype) == array.dtype:
        return array
    return array.view(f"V{array.dtype.itemsize}")


def _overlaps_itself(array: Array) -> bool:
    """Tell whether several items are at one place, as in a broadcast array."""
    if is_dense(array):
        return False
    start, end = byte_bounds(array)
    return array.nbytes > end - start


#: How hard to look for an element that two arrays have in common. numpy's
#: annotations know only its two special values.
_MOST_WORK: Any = 10_000


def _any_share(arrays: list[Array]) -> bool:
    for index, first in enumerate(arrays[:64]):
        for second in arrays[index + 1 : 64]:
            try:
                if np.shares_memory(first, second, max_work=_MOST_WORK):
                    return True
            except Exception as error:
                # numpy has moved the name of this class between versions.
                if type(error).__name__ != "TooHardError":
                    raise
                return True
    return False
