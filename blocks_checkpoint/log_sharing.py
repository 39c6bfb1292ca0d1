"""Objects of a training log that something outside the log holds as well.

The log is pickled by itself, so that it loads by itself. What the rest of the
main loop shares with it (the status dictionary, a row, a list in a row) is
one object in the running loop and has to be one after loading. Such parts are
found here by their reference counts, and named by the way to them.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import compress
from sys import getrefcount
from typing import Any

__all__ = ["find_part", "shared_parts"]

#: Where in a log: ``("status",)``, ``("row", 7)``, ``("value", 7, "batch")``.
Part = tuple[Any, ...]

_probe: dict[str, Any] = {"value": []}
#: What the interpreter counts for a value that only its dictionary refers to.
_LONELY = getrefcount(_probe["value"])


def shared_parts(log: Any) -> list[tuple[Part, Any]]:
    """List the parts of a log that are referred to from elsewhere, too.

    Parameters
    ----------
    log : TrainingLog
        Logs that keep their rows in a database have no such parts.

    Returns
    -------
    list of (tuple, object)
        The way to each part, as :func:`find_part` takes it, and the part.
    """
    return list(_parts(log)) if isinstance(log, dict) else []


def find_part(log: Any, part: Part) -> Any:
    """Return the part of a log that :func:`shared_parts` named."""
    kind, *keys = part
    if kind == "status":
        return log.status
    row = dict.__getitem__(log, keys[0])
    return row if kind == "row" else row[keys[1]]


def _parts(log: dict[int, dict[str, Any]]) -> Iterator[tuple[Part, Any]]:
    attributes = vars(log)
    if isinstance(attributes.get("status"), dict) and getrefcount(attributes["status"]) > _LONELY:
        yield ("status",), attributes["status"]
    # The collector does not track dictionaries of numbers and strings, which
    # is what nearly all rows are: this passes over them at C speed.
    for time in list(compress(log, map(gc.is_tracked, log.values()))):
        row = dict.__getitem__(log, time)
        if not isinstance(row, dict):
            continue
        for name in row:
            if gc.is_tracked(row[name]) and getrefcount(row[name]) > _LONELY:
                yield ("value", time, name), row[name]
    status = attributes.get("status") or {}
    latest = status.get("iterations_done", 0)
    for time in {latest, latest - 1, *status.get("_epoch_ends", ())[-1:]}:
        # ``row`` of above would count as a reference.
        row = None
        if time in log and getrefcount(dict.__getitem__(log, time)) > _LONELY:
            yield ("row", time), dict.__getitem__(log, time)
