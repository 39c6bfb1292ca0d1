"""Rows of a log as bytes that may stand anywhere in a pickle.

A row is *final* if it consists of values that cannot change, and nothing but
the log refers to it. Rows that are final together pickle to a piece: opcodes
that set them as items of whatever is on the stack. A piece refers to nothing
outside it, and puts what it needs twice into memo entries of its own choice,
counted from 0, over whatever was there. So it can be cut out, kept, and put
into the next pickle, as long as that leaves these entries alone.
"""

from __future__ import annotations

import gc
import io
import pickle
import sys
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, compress, count
from sys import getrefcount
from types import BuiltinFunctionType
from typing import Any

import numpy as np

__all__ = ["Piece", "RowPickler", "are_supported", "joined"]

# Later protocols number memo entries by how many there are, so that a piece
# would mean something else in every place. The opcodes of this one are part
# of all that came after.
_PROTOCOL = 3
# With few rows at a time, nearly all memo entries have numbers of one byte. Rows
# of arrays need several entries each.
_BATCH = 240
_SMALLEST_BATCH = 8
# What the pickle of a dictionary begins with.
_BEGINNING = pickle.PROTO + b"\x03" + pickle.EMPTY_DICT + pickle.BINPUT + b"\x00"
# After so many rows that only pickling showed not to be final, no more are tried.
_FAILURES = 16
# Arrays up to this size (bytes) are carried along; they are in memory twice then.
_LARGEST_ARRAY = 1 << 12

_ATOMS = frozenset([type(None), bool, int, float, complex, str, bytes])
# NumPy's numbers, and arrays of them, by the letters of their types.
_CODES = "?bhilqBHILQefdFD"
_NUMBERS = frozenset(np.dtype(code).type for code in _CODES)
# The other things that pickles of numbers name.
_CLASSES = frozenset([np.dtype, np.ndarray, complex])
_MODULES = frozenset(["numpy.core.multiarray", "numpy._core.multiarray"])

_probe: dict[int, dict[str, Any]] = {0: {}}
#: What the interpreter counts for a row that a list and its log refer to.
_LONELY = max(map(getrefcount, list(_probe.values()))) if hasattr(sys, "getrefcount") else 0


def are_supported() -> bool:
    """Tell whether this interpreter counts references in the way that is relied upon."""
    with_lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    return sys.implementation.name == "cpython" and with_lock and _LONELY > 0


@dataclass(frozen=True)
class Piece:
    """Some rows, one after another, pickled.

    Attributes
    ----------
    body : bytes
        Opcodes; the object they set items of stays on the stack.
    memo_size : int
        Memo entries from 0 to below this may be overwritten.
    """

    body: bytes
    memo_size: int


def joined(pieces: Sequence[Piece]) -> Piece:
    """Return the rows of several pieces as one."""
    if len(pieces) == 1:
        return pieces[0]
    body = b"".join([piece.body for piece in pieces])
    return Piece(body, max((piece.memo_size for piece in pieces), default=0))


class _NotFinal(Exception):
    """A value that can change, or may refer to one that can."""


class RowPickler:
    """Pickles rows that are final."""

    def __init__(self) -> None:
        self._file = io.BytesIO()
        self._pickler = _FinalPickler(self._file, _PROTOCOL)
        self._batch = _BATCH

    def pickle(self, times: Sequence[int], rows: list[Any]) -> Iterator[tuple[int, Piece | None]]:
        """Pickle rows, as far as they are final.

        Parameters
        ----------
        times : sequence of int
        rows : list of dict
            Only the log and this list may refer to a row that is final.

        Yields
        ------
        int
            A number of rows; these numbers add up to all.
        Piece or None
            Those rows; None for rows that are not final, or were not looked
            at because too many of those before were not.
        """
        begin = failures = loose = 0
        for end in [*_ineligible(rows), len(rows)]:
            while begin < end and failures <= _FAILURES:
                piece, fit = self._first(times[begin:end], rows[begin:end])
                if fit and loose:
                    yield loose, None
                    loose = 0
                if fit:
                    yield fit, piece
                begin += fit
                if begin < end:
                    failures += 1
                    loose += 1
                    begin += 1
            upto = min(end + 1, len(rows))
            loose += upto - begin
            begin = upto
        if loose:
            yield loose, None

    def _first(self, times: Sequence[int], rows: list[Any]) -> tuple[Piece, int]:
        """Pickle eligible rows up to the first that turns out not to be final."""
        pieces: list[Piece] = []
        done = 0
        while done < len(rows):
            end = done + self._batch
            fit = self._leading(times[done:end], rows[done:end], pieces)
            done += fit
            if done < min(end, len(rows)):
                break
            entries_per_row = pieces[-1].memo_size / fit
            # Numbers and text have none, and the row itself has one.
            is_simple = entries_per_row < 2 or fit < _SMALLEST_BATCH
            self._batch = (
                _BATCH if is_simple else max(_SMALLEST_BATCH, int(_BATCH / entries_per_row))
            )
        return joined(pieces), done

    def _leading(self, times: Sequence[int], rows: list[Any], pieces: list[Piece]) -> int:
        """Pickle the first rows, halving them until those that are not final are left."""
        body = self._all(times, rows)
        if body is not None:
            pieces.append(Piece(body, _most_memo_entries(body)))
            return len(rows)
        middle = len(rows) // 2
        if not middle:
            return 0
        fit = self._leading(times[:middle], rows[:middle], pieces)
        if fit == middle:
            fit += self._leading(times[middle:], rows[middle:], pieces)
        return fit

    def _all(self, times: Sequence[int], rows: list[Any]) -> bytes | None:
        """Pickle rows, or return None if one of them is not final."""
        pickler = self._pickler
        arrays: list[Any] = []
        pickler.arrays = arrays
        try:
            pickler.dump(dict(zip(times, rows)))
            pickled = self._file.getvalue()
        except _NotFinal:
            return None
        finally:
            pickler.clear_memo()
            pickler.arrays = []
            self._file.seek(0)
            self._file.truncate()
        if arrays and not _belong_to(arrays, rows):
            return None
        return pickled[len(_BEGINNING) : -1]


class _FinalPickler(pickle.Pickler):
    """Refuses what is not final.

    The C pickler asks about everything but numbers, text, bytes and builtin
    containers. Of containers, only tuples get here: rows with others in them
    are tracked by the collector, and are looked at one by one.
    """

    def __init__(self, file: io.BytesIO, protocol: int) -> None:
        super().__init__(file, protocol)
        self.arrays: list[Any] = []

    def reducer_override(self, thing: Any) -> Any:
        cls = type(thing)
        if cls is np.ndarray:
            if not _may_be_final(thing):
                raise _NotFinal
            self.arrays.append(thing)
        elif cls not in _NUMBERS and cls is not complex and not _is_named_by_numbers(thing):
            raise _NotFinal
        return NotImplemented


def _is_named_by_numbers(thing: Any) -> bool:
    if isinstance(thing, np.dtype):
        return _is_plain(thing)
    if isinstance(thing, BuiltinFunctionType):
        return thing.__module__ in _MODULES
    return isinstance(thing, type) and thing in _CLASSES


def _is_plain(dtype: np.dtype[Any]) -> bool:
    return dtype.char in _CODES and dtype.isnative and dtype.metadata is None


def _may_be_final(array: Any) -> bool:
    """Tell whether an array can change only through references to itself."""
    return array.flags.owndata and _is_plain(array.dtype) and array.nbytes <= _LARGEST_ARRAY


def _ineligible(rows: list[Any]) -> list[int]:
    """Return the indices of rows that are found not to be final without pickling them."""
    found: list[int] = []
    if rows and max(map(getrefcount, rows)) > _LONELY:
        found += compress(count(), map(_LONELY.__lt__, map(getrefcount, rows)))
    # Dictionaries of nothing but numbers and text are not tracked by the
    # collector of cyclic garbage. That is what most rows are, and this is the
    # quickest way to know them. Keys cannot change, or pickling shows it.
    for index in compress(count(), map(gc.is_tracked, rows)):
        row = rows[index]
        if type(row) is not dict or not all(map(_is_final, row.values())):
            found.append(index)
    return sorted(set(found))


def _belong_to(arrays: list[Any], rows: list[dict[str, Any]]) -> bool:
    """Tell whether nothing but the rows and this list refers to the arrays."""
    values = chain.from_iterable(map(dict.values, rows))
    return (
        max(map(getrefcount, arrays)) <= _LONELY
        and not any(map(weakref.getweakrefcount, arrays))
        # Others may have the tuple that an array is in.
        and list(map(type, values)).count(np.ndarray) == len(arrays)
    )


def _is_final(value: Any) -> bool:
    # What else is to be known of arrays is found out when they are pickled.
    return type(value) is np.ndarray or _cannot_change(value)


def _cannot_change(value: Any) -> bool:
    cls = type(value)
    if cls is tuple:
        return all(map(_cannot_change, value))
    return cls in _ATOMS or cls in _NUMBERS


def _most_memo_entries(body: bytes) -> int:
    """Return a number that is not below how many memo entries are made."""
    # Whatever else these bytes are part of, every entry is made by one of them.
    octets = np.frombuffer(body, np.uint8)
    count = int(np.count_nonzero(octets == pickle.BINPUT[0]))
    if count >= 255:
        count += int(np.count_nonzero(octets == pickle.LONG_BINPUT[0]))
    return count + 1
