"""The training log: what happened, iteration by iteration."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from numbers import Integral
from typing import Any
from uuid import UUID, uuid4

__all__ = ["BACKENDS", "RowWatch", "TrainingLog"]

Row = dict[str, Any]


class RowWatch:
    """What was done with the rows of a log since it began to be watched.

    Attributes
    ----------
    touched : set of int
        Times of the rows that were put in or given out. Whoever was given a
        row may change it at any time, as long as he holds it. Take out what
        you have dealt with.
    lost_rows : bool
        Whether rows were removed, so that the order of rows is another one,
        or the log was pickled or copied as a whole. Set it to false when you
        have dealt with it.
    """

    def __init__(self) -> None:
        self.touched: set[int] = set()
        self.lost_rows = False


class TrainingLog(defaultdict[int, Row]):
    """A dictionary of rows, one per iteration, with a status beside it.

    ``log[time][name]`` is the record ``name`` made after ``time`` batches.
    A row that is asked for and not there is made, empty.

    Parameters
    ----------
    uuid : uuid.UUID, optional
        Identity of the log; a random one by default.

    Attributes
    ----------
    status : dict
        What is true now and bound to no iteration: ``iterations_done``,
        ``epochs_done``, ``_epoch_ends`` (iterations at which epochs ended),
        ``resumed_from`` (hexadecimal UUID of the log that this one goes on
        from), and whatever the main loop and extensions add.
    uuid : uuid.UUID
        Another one after each resumption.
    """

    # Beside the attributes, for it is no part of the log's state.
    __slots__ = ("__dict__", "__weakref__", "_watches")

    _watches: tuple[RowWatch, ...]

    def __new__(cls, *args: Any, **kwargs: Any) -> TrainingLog:
        """Make a log that nobody watches."""
        log = super().__new__(cls)
        log._watches = ()
        return log

    def __init__(self, uuid: UUID | None = None) -> None:
        super().__init__(dict)
        self.uuid = uuid or uuid4()
        self.status: dict[str, Any] = {
            "iterations_done": 0,
            "epochs_done": 0,
            "_epoch_ends": [],
            "resumed_from": None,
        }

    @property
    def h_uuid(self) -> str:
        """Hexadecimal form of the UUID."""
        return self.uuid.hex

    @property
    def current_row(self) -> Row:
        """Row of the batch processed last."""
        return self[self.status["iterations_done"]]

    @property
    def previous_row(self) -> Row:
        """Row of the batch before the last."""
        return self[self.status["iterations_done"] - 1]

    @property
    def last_epoch_row(self) -> Row:
        """Row at which the last whole epoch ended."""
        return self[self.status["_epoch_ends"][-1]]

    def resume(self) -> None:
        """Take a new identity, and remember the old one as the origin."""
        self.status["resumed_from"] = self.h_uuid
        self.uuid = uuid4()

    def watch(self) -> RowWatch:
        """Have it noted, from now on, which rows are put in, given out and removed.

        Every way to a row but one is watched: the methods of ``dict`` itself,
        called past those of the log (``dict.values(log)``).
        """
        watch = RowWatch()
        self._watches = (*self._watches, watch)
        return watch

    def unwatch(self, watch: RowWatch) -> None:
        """Note no more for this watch."""
        self._watches = tuple(each for each in self._watches if each is not watch)

    # A row is first got hold of, and then noted: whoever finds it not yet
    # noted (on another thread) finds a reference to it that is not the log's.

    def _note(self, time: int) -> None:
        for watch in self._watches:
            watch.touched.add(time)

    def _note_loss(self) -> None:
        for watch in self._watches:
            watch.lost_rows = True

    def __getitem__(self, time: int) -> Row:
        row = super().__getitem__(_checked(time))
        if self._watches:
            self._note(time)
        return row

    def __setitem__(self, time: int, row: Row) -> None:
        super().__setitem__(_checked(time), row)
        self._note(time)

    def __delitem__(self, time: int) -> None:
        super().__delitem__(time)
        self._note_loss()

    # So that ``dict(log)`` takes the rows by way of the methods here, and not
    # out of the log's memory.
    def __iter__(self) -> Iterator[int]:
        return super().__iter__()

    def get(self, time: int, default: Any = None) -> Any:
        """Return a row, or ``default`` if there is none."""
        # The dictionary's own would give a row out without anybody noticing.
        return self[time] if time in self else default  # noqa: SIM401

    def setdefault(self, time: int, default: Any = None) -> Any:
        """Return a row, after putting in ``default`` if there is none."""
        if time not in self:
            self[time] = default
        return self[time]

    def pop(self, time: int, *default: Any) -> Any:
        """Remove a row and return it, or ``default`` if there is none."""
        row = super().pop(time, *default)
        self._note_loss()
        return row

    def popitem(self) -> tuple[int, Row]:
        """Remove the row that was put in last, and return its time and itself."""
        item = super().popitem()
        self._note_loss()
        return item

    def clear(self) -> None:
        """Remove all rows."""
        super().clear()
        self._note_loss()

    def update(self, *rows: Any, **no_rows: Any) -> None:
        """Put in rows: another log or dictionary, or pairs of time and row."""
        for time, row in dict(*rows, **no_rows).items():
            self[time] = row

    def __ior__(self, rows: Mapping[int, Row] | Iterable[tuple[int, Row]]) -> TrainingLog:  # type: ignore[override,misc]
        self.update(rows)
        return self

    def values(self) -> Any:
        """Return a view of the rows."""
        return _Rows(self)

    def items(self) -> Any:
        """Return a view of the pairs of time and row."""
        return _Items(self)

    def __reduce__(self) -> tuple[Any, ...]:
        self._note_loss()
        # The constructor takes no factory, unlike that of a defaultdict.
        return type(self), (), self.__dict__, None, iter(dict.items(self))


class _Items(ItemsView[int, Row]):
    """Pairs of time and row of a log; each row is noted as it is given out."""

    _mapping: TrainingLog

    def __contains__(self, item: object) -> bool:
        pairs: Any = dict.items(self._mapping)
        return bool(item in pairs)

    def __iter__(self) -> Iterator[tuple[int, Row]]:
        return self._pairs(dict.items(self._mapping))

    def __reversed__(self) -> Iterator[tuple[int, Row]]:
        return self._pairs(reversed(dict.items(self._mapping)))

    def _pairs(self, items: Iterable[tuple[int, Row]]) -> Iterator[tuple[int, Row]]:
        log = self._mapping
        for item in items:
            if log._watches:
                log._note(item[0])
            yield item


class _Rows(ValuesView[Row]):
    """Rows of a log; each is noted as it is given out."""

    _mapping: TrainingLog

    def __contains__(self, row: object) -> bool:
        return row in dict.values(self._mapping)

    def __iter__(self) -> Iterator[Row]:
        return (row for _, row in _Items(self._mapping))

    def __reversed__(self) -> Iterator[Row]:
        return (row for _, row in reversed(_Items(self._mapping)))


def _is_row(time: Any) -> bool:
    return isinstance(time, Integral) and int(time) >= 0


def _checked(time: int) -> int:
    if not _is_row(time):
        raise ValueError(f"a row of the log is a non-negative integer, not {time!r}")
    return time


#: Kinds of log by the name that ``config.log_backend`` gives them.
BACKENDS = {"python": TrainingLog}
