"""The values that a log recorded last, whatever iteration that was at."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["LastRecords", "current_value"]

#: How many iterations to look back for values that nobody asks for by name.
LOOK_BACK_ITERATIONS = 100_000
#: A longer text says nothing in a table or a file name.
_LONGEST_TEXT = 200


def current_value(log: Any, record: str) -> Any:
    """Return a value of the current row as it is; None if the row lacks it."""
    return (log.get(log.status["iterations_done"]) or {}).get(record)


class LastRecords:
    """Follows a log, and knows the last value of each record.

    Each row is looked at once, so that asking costs what was recorded since
    the last time. It travels with no pickle: after loading it looks anew.
    """

    def __init__(self) -> None:
        self._log: Any = None
        self._seen = 0
        self._values: dict[str, Any] = {}
        self._absent: set[str] = set()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()

    def update(self, log: Any, names: Iterable[str] = ()) -> dict[str, Any]:
        """Look at what is new.

        Parameters
        ----------
        log : TrainingLog
            Blocks' or miniblocks'. It is not changed: no row is made.
        names : iterable of str
            Records to look for as far back as it takes.

        Returns
        -------
        dict of str to object
            Numbers and short texts by the names of their records.
        """
        done = int(log.status["iterations_done"])
        if log is not self._log or done < self._seen:
            self._log, self._values, self._absent = log, {}, set()
            self._seen = max(0, done - LOOK_BACK_ITERATIONS)
        # The row seen last may have got more since.
        for iteration in range(self._seen, done + 1):
            # ``get`` makes no row where there is none, unlike square brackets.
            row = log.get(iteration)
            if row:
                self._values.update(_plain_values(row, row))
        missing = set(names) - set(self._values) - self._absent
        for iteration in range(done, -1, -1) if missing else ():
            row = log.get(iteration)
            if not row or missing.isdisjoint(row):
                continue
            found = _plain_values(row, missing.intersection(row))
            self._values.update(found)
            missing -= set(found)
            if not missing:
                break
        self._absent |= missing
        self._seen = done
        return dict(self._values)


def _plain_values(row: Any, names: Iterable[Any]) -> dict[str, Any]:
    pairs = [(name, _plain(row[name])) for name in names if isinstance(name, str)]
    return {name: value for name, value in pairs if value is not None}


def _plain(value: Any) -> Any:
    """Return a number or a short text as Python has it, and None for the rest."""
    if type(value) in (float, int, bool):
        return value
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, (bool, int, float)):
        return value
    return value if isinstance(value, str) and len(value) <= _LONGEST_TEXT else None
