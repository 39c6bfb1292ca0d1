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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from sys import getrefcount
from typing import Any

import numpy as np

__all__ = ["Piece", "RowPickler", "are_supported"]

# Later protocols number memo entries by how many there are, so that a piece
# would mean something else in every place. The opcodes of this one are part
# of all that came after.
_PROTOCOL = 3
# With few rows at a time, nearly all memo entries have numbers of one byte.
_BATCH = 240
# What the pickle of a dictionary begins with: protocol, dictionary, memo entry 0.
_BEGINNING = pickle.PROTO + b"\x03" + pickle.EMPTY_DICT + pickle.BINPUT + b"\x00"
# Arrays up to this size (bytes) are carried along; they are in memory twice then.
_LARGEST_ARRAY = 1 << 12

_ATOMS = frozenset([type(None), bool, int, float, complex, str, bytes])
_NUMBERS = frozenset(
    np.dtype(code).type for code in "?bhilqBHILQefdFD" if np.dtype(code).type is not np.void
)
# What the pickles of NumPy's numbers and arrays name.
_MAKERS = frozenset([np.dtype, np.ndarray, *map(type, map(np.dtype, "?bhilqBHILQefdFD"))])
_MAKER_MODULES = frozenset(["numpy.core.multiarray", "numpy._core.multiarray"])

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


class _NotFinal(Exception):
    """A value that can change, or may refer to one that can."""


class RowPickler:
    """Pickles rows that are final."""

    def __init__(self) -> None:
        self._file = io.BytesIO()
        self._pickler = _FinalPickler(self._file, _PROTOCOL)

    def pickle(self, times: Sequence[int], rows: Sequence[Any]) -> Piece | None:
        """Pickle rows if all of them are final.

        Parameters
        ----------
        times : sequence of int
        rows : list of dict
            Nothing but the log and this list may refer to a row.

        Returns
        -------
        Piece or None
            None if some row is not final.
        """
        if set(map(type, rows)) != {dict} or max(map(getrefcount, rows)) > _LONELY:
            return None
        bodies = []
        memo_size = 0
        for start in range(0, len(rows), _BATCH):
            batch = rows[start : start + _BATCH]
            body = self._batch(times[start : start + _BATCH], batch)
            if body is None:
                return None
            bodies.append(body)
            memo_size = max(memo_size, _most_memo_entries(body))
        return Piece(b"".join(bodies), memo_size)

    def _batch(self, times: Sequence[int], rows: Sequence[dict[str, Any]]) -> bytes | None:
        # Dictionaries of nothing but numbers and text are not looked at by the
        # collector of cyclic garbage. They are the most, and this is the
        # quickest way to know them.
        tracked = [row for row in rows if gc.is_tracked(row)]
        if not all(_is_final(value) for row in tracked for value in chain(row, row.values())):
            return None
        self._pickler.arrays = arrays = []
        try:
            self._pickler.dump(dict(zip(times, rows)))
            pickled = self._file.getvalue()
        except _NotFinal:
            return None
        finally:
            self._pickler.clear_memo()
            self._file.seek(0)
            self._file.truncate()
            self._pickler.arrays = []
        if not pickled.startswith(_BEGINNING):
            return None
        if arrays and (max(map(getrefcount, arrays)) > _LONELY or _are_referred_to_weakly(arrays)):
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
        elif not (cls in _NUMBERS or cls in _MAKERS or _is_maker(thing)):
            raise _NotFinal
        return NotImplemented


def _is_maker(thing: Any) -> bool:
    if isinstance(thing, type):
        return thing in _MAKERS
    return callable(thing) and getattr(thing, "__module__", None) in _MAKER_MODULES


def _may_be_final(array: Any) -> bool:
    """Tell whether an array can change only through references to itself."""
    return (
        array.base is None
        and array.flags.owndata
        and type(array.dtype) in _MAKERS
        and array.nbytes <= _LARGEST_ARRAY
    )


def _are_referred_to_weakly(arrays: Sequence[Any]) -> bool:
    count: Callable[[Any], int] = weakref.getweakrefcount
    return any(map(count, arrays))


def _is_final(value: Any) -> bool:
    cls = type(value)
    if cls in _ATOMS or cls in _NUMBERS:
        return True
    if cls is tuple:
        return all(map(_is_final, value))
    # What else is to be known of arrays is found out when they are pickled.
    return cls is np.ndarray


def _most_memo_entries(body: bytes) -> int:
    """Return a number that is not below how many memo entries are made."""
    # Whatever else these bytes are part of, every entry is made by one of them.
    octets = np.frombuffer(body, np.uint8)
    count = int(np.count_nonzero(octets == pickle.BINPUT[0]))
    if count >= 255:
        count += int(np.count_nonzero(octets == pickle.LONG_BINPUT[0]))
    return count + 1
