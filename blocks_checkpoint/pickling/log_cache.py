"""The pickle of a log, of which most was pickled before.

A run of a million iterations has a log of a million rows, and all but the
last few are as they were when the log was saved last. Their bytes are carried
over. What is written is an ordinary pickle of the log all the same, and
loading it gives what plain pickling would have given.

Why nothing stale is written
----------------------------
A row is carried over only if it was *final* when it was pickled and has been
out of reach since:

1. everything in it was of a type whose values cannot change (numbers, text,
   ``None``, tuples of such), or an array that only the row referred to;
2. nothing but the log referred to the row, by its reference count;
3. the log, which is watched (:meth:`.TrainingLog.watch`), has not given out
   the row since then, nor been given another one in its place. Whoever wants
   to change a row has to get hold of it first, and there is no other way to
   it. Whether he does change it is not asked: the row is pickled anew.

What is not final is pickled anew each time, in the ordinary way, after its
place among the others. So is everything where one of these cannot be known:
logs of another class (Blocks' own does not say who took a row), or of an
interpreter that does not count references. ``dict.values(log)`` and its like,
which go past the log's own methods to those of its base class, are not
noticed; a program that changes rows by them must not keep a cache.
"""

from __future__ import annotations

import pickle
import sys
import weakref
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, repeat
from typing import Any, Protocol

from ..miniblocks.log import RowWatch, TrainingLog
from .row_pickler import Piece, RowPickler, are_supported, joined

__all__ = ["LogCache", "PickledLog"]

# So many rows are pickled anew if one of them is no longer as it was.
_ROWS = 8192
# Rows that were not final, so many times in a row, are not asked again.
_ATTEMPTS = 3
# A longer run of rows that are not final is not looked through again.
_FEW = 240

# The last rows are kept apart: they are the ones most likely to be touched again.
_RECENT = 8
# A pickle to be joined with others is at least so long (bytes).
_LARGE = 1 << 14

_PROLOGUE = pickle.PROTO + b"\x04"
_FRAME_BYTES = 9


class Pickler(Protocol):
    """What is used of :class:`.ZipPickler`."""

    def dump(self, thing: Any) -> bytes:
        """Pickle one object, as the next of a chain."""

    def remember(self, things: Sequence[Any]) -> None:
        """Enter objects into the memo."""


@dataclass
class _Run:
    """Rows that stand one after another in the log.

    Attributes
    ----------
    times : list
        The keys themselves.
    piece : Piece or None
        None if the rows are not final.
    attempts : int
        How often they were found not to be.
    """

    times: list[Any]
    piece: Piece | None
    attempts: int = 0


@dataclass(frozen=True)
class PickledLog:
    """The pickle of a log.

    Attributes
    ----------
    pieces : list of bytes
        One after another they are the pickle.
    not_final : bytes
        What was pickled in the ordinary way. The rest names nothing but
        NumPy's numbers and arrays.
    """

    pieces: list[bytes]
    not_final: bytes


class LogCache:
    """Pickles one log again and again.

    Pickles without what it remembers.
    """

    def __init__(self) -> None:
        self._forget()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()

    def dump(self, log: Any, pickler: Pickler) -> PickledLog:
        """Pickle a log.

        Parameters
        ----------
        log : TrainingLog
            Of Blocks or of miniblocks; others are pickled in the plain way.
        pickler : ZipPickler
            New, and without a ``persistent_id`` of the user's.

        Returns
        -------
        PickledLog
        """
        if not _is_supported(log, pickler):
            pickled = pickler.dump(log)
            return PickledLog([pickled], pickled)
        return _assemble(log, self._update(log), pickler)

    def changeable(self, log: Any) -> list[int] | None:
        """List the rows that are not known to be final.

        The others refer to nothing that anything else may refer to, and
        nothing else refers to them.

        Returns
        -------
        list of int or None
            Times; None if nothing is known.
        """
        watch = self._watch
        if self._log is not log or watch is None or watch.lost_rows:
            return None
        loose = [time for run in self._runs if run.piece is None for time in run.times]
        times = dict.fromkeys([*loose, *_last_keys(log, len(log) - self._count), *watch.touched])
        return [time for time in times if time in log]

    def _forget(self) -> None:
        self._log: Any = None
        self._watch: RowWatch | None = None
        self._unwatch: Any = None
        self._runs: list[_Run] = []
        self._count = 0

    def _update(self, log: Any) -> list[_Run]:
        if not isinstance(log, TrainingLog) or not hasattr(log, "_watches"):
            return list(_merged(_new_runs(log, list(dict.keys(log)), RowPickler())))
        if self._log is not log:
            self._follow(log)
        watch = self._watch
        assert watch is not None
        touched = set(watch.touched)
        # From here on: what happens to a row while it is looked at is noted.
        watch.touched.difference_update(touched)
        if watch.lost_rows or len(log) < self._count:
            watch.lost_rows = False
            self._runs, self._count = [], 0
        try:
            self._bring_up_to_date(log, touched)
        except BaseException:
            self._runs, self._count = [], 0
            raise
        return self._runs

    def _follow(self, log: TrainingLog) -> None:
        if self._unwatch is not None:
            self._unwatch()
        self._forget()
        self._log = log
        self._watch = log.watch()
        # The log may well outlive the cache.
        self._unwatch = weakref.finalize(self, log.unwatch, self._watch)
        self._unwatch.atexit = False

    def _bring_up_to_date(self, log: TrainingLog, touched: set[int]) -> None:
        pickler = RowPickler()
        new = _last_keys(log, len(log) - self._count)
        runs = self._runs
        stale = self._stale(touched.difference(new)) if runs else set()
        if stale is None:
            runs, stale, new = [], set(), list(dict.keys(log))
        updated: list[_Run] = []
        for index, run in enumerate(runs):
            again = index in stale or (
                run.piece is None and run.attempts < _ATTEMPTS and len(run.times) <= _FEW
            )
            if not again:
                updated.append(run)
                continue
            attempts = 0 if index in stale else run.attempts
            for part in _new_runs(log, run.times, pickler):
                part.attempts += attempts
                updated.append(part)
        updated += _new_runs(log, new[:-_RECENT], pickler)
        recent = list(_new_runs(log, new[-_RECENT:], pickler))
        self._runs = [*_merged(updated), *_merged(recent)]
        self._count = sum(len(run.times) for run in self._runs)

    def _stale(self, times: set[int]) -> set[int] | None:
        """Return the indices of the runs that have rows of these times.

        None if some row is not found.
        """
        runs = self._runs
        firsts = [run.times[0] for run in runs]
        stale = set()
        for time in times:
            index = bisect_right(firsts, time) - 1
            if index < 0:
                return None
            # The rows of most logs are in order. Where they are not, the search
            # fails, or it finds the row all the same: there is but one of a time.
            there = runs[index].times
            place = bisect_right(there, time) - 1
            if place < 0 or there[place] != time:
                return None
            stale.add(index)
        return stale


def _is_supported(log: Any, pickler: Pickler) -> bool:
    cls: Any = type(log)
    blocks = sys.modules.get("blocks.log.log")
    classes = [TrainingLog, getattr(blocks, "TrainingLog", TrainingLog)]
    return (
        isinstance(log, dict)
        and cls.__reduce_ex__ is object.__reduce_ex__
        and any(cls.__reduce__ is known.__reduce__ for known in classes)
        and cls not in getattr(pickler, "reducers", ())
        and len(log) > 0
        and are_supported()
        # None leaves no trace in the memo, and tells the protocol.
        and pickler.dump(None)[1] >= _PROLOGUE[1]
    )


def _last_keys(log: Any, count: int) -> list[Any]:
    keys = list(islice(dict.__reversed__(log), count))
    keys.reverse()
    return keys


def _rows(log: Any, times: Sequence[Any]) -> list[Any]:
    return list(map(dict.__getitem__, repeat(log), times))


def _new_runs(log: Any, times: list[Any], pickler: RowPickler) -> Iterator[_Run]:
    """Pickle rows, as far as they are final."""
    at = 0
    looked_at, passed_over = _FEW, _ROWS
    while at < len(times):
        some = times[at : at + looked_at]
        loose = 0
        for count, piece in pickler.pickle(some, _rows(log, some)):
            yield _Run(times[at : at + count], piece, 0 if piece else 1)
            at += count
            loose += 0 if piece else count
        if loose <= len(some) // 2:
            looked_at, passed_over = min(2 * looked_at, _ROWS), _ROWS
            continue
        # Where most are not final, looking at each would take longer than
        # pickling it.
        some = times[at : at + passed_over]
        if some:
            yield _Run(some, None, _ATTEMPTS)
        at += len(some)
        looked_at, passed_over = _FEW, 2 * passed_over


def _merged(runs: Iterable[_Run]) -> Iterator[_Run]:
    """Make one run of neighbours that are alike, if it does not get too long."""
    alike: list[_Run] = []
    count = 0
    for run in runs:
        if alike and (
            (run.piece is None) != (alike[0].piece is None) or count + len(run.times) > _ROWS
        ):
            yield _united(alike)
            alike, count = [], 0
        alike.append(run)
        count += len(run.times)
    if alike:
        yield _united(alike)


def _united(runs: list[_Run]) -> _Run:
    if len(runs) == 1:
        return runs[0]
    pieces = [run.piece for run in runs if run.piece is not None]
    return _Run(
        list(chain.from_iterable(run.times for run in runs)),
        joined(pieces) if pieces else None,
        min(run.attempts for run in runs),
    )


def _assemble(log: Any, runs: Sequence[_Run], pickler: Pickler) -> PickledLog:
    """Put the pickle of a log together.

    ``pickler`` writes the class, the rows that are not final and the state;
    its memo holds what these share. It numbers its entries from behind those
    that the pieces of final rows overwrite.
    """
    reserved = max((run.piece.memo_size for run in runs if run.piece), default=0)
    pickler.remember([object() for _ in range(reserved)])
    log_class = pickler.dump(type(log))
    pickler.remember([log])
    pieces = [
        log_class[: len(_PROLOGUE)],
        # Entries are numbered by how many there are: these have to be there.
        pickle.NONE + pickle.MEMOIZE * reserved + pickle.POP,
        _but_for_the_end(log_class, pickle.EMPTY_TUPLE) + pickle.REDUCE + pickle.MEMOIZE,
    ]
    not_final = []
    for run in runs:
        if run.piece is not None:
            pieces.append(run.piece.body)
        else:
            items = _items(pickler.dump(dict(zip(run.times, _rows(log, run.times)))))
            not_final.append(items)
            pieces.append(items)
    state = _but_for_the_end(pickler.dump(vars(log)), pickle.BUILD)
    return PickledLog(
        _without_small([*pieces, state + pickle.STOP]), b"".join([log_class, *not_final, state])
    )


def _but_for_the_end(pickled: bytes, opcode: bytes) -> bytes:
    """Return a pickle without its beginning, and with an opcode in place of ``STOP``."""
    # One for one: that byte belongs to a frame of a given length.
    return pickled[len(_PROLOGUE) : -1] + opcode


def _items(pickled: bytes) -> bytes:
    """Return what sets the items of a pickled dictionary, in whatever is on the stack."""
    at = len(_PROLOGUE)
    if pickled[at : at + 1] == pickle.FRAME:
        at += _FRAME_BYTES
    assert pickled[at : at + 1] == pickle.EMPTY_DICT
    # In place of the dictionary, something that was put onto the stack for
    # this purpose is taken from it; the memo entry made next is another one of
    # the log. In place of the end, something is left there.
    begin = pickle.NONE + pickled[len(_PROLOGUE) : at] + pickle.POP
    return b"".join((begin, memoryview(pickled)[at + 1 : -1], pickle.NONE + pickle.POP))


def _without_small(pieces: Sequence[bytes]) -> list[bytes]:
    """Join pieces, but for those that are too large to be copied for nothing."""
    joined: list[bytes] = []
    small: list[bytes] = []
    for piece in pieces:
        if len(piece) < _LARGE:
            small.append(piece)
            continue
        joined += [b"".join(small), piece]
        small = []
    return [*joined, b"".join(small)]
