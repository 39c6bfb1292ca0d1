"""Objects of a training log that something outside the log holds as well.

The log is pickled by itself, so that it loads by itself. What the rest of the
main loop shares with it (the status, a row, a list in a row) is one object in
the running loop and has to be one after loading. Such parts are found here by
their reference counts, and named by the way to them.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import compress, repeat
from sys import getrefcount
from typing import Any

__all__ = ["Way", "find_part", "shared_parts"]

#: Where in a log: ``("attribute", "status")``, ``("row", 7)``. What follows
#: are positions in the containers on the way: ``("row", 7, 2, 0)``.
Way = tuple[Any, ...]

# What the interpreter counts for an object that only one container refers to,
# when it is looked at in the ways in which it is done below.
_LONELY = next(map(getrefcount, {0: []}.values()))


def shared_parts(log: Any, times: Iterable[Any] | None = None) -> list[tuple[Way, Any]]:
    """List the parts of a log that are referred to from elsewhere, too.

    Parameters
    ----------
    log : TrainingLog
        Logs that keep their rows in a database have no such parts.
    times : iterable of int, optional
        Of the rows to look at, if it is known of the others that nothing else
        refers to them.

    Returns
    -------
    list of (tuple, object)
        One of the ways to each part, as :func:`find_part` takes it, and the
        part.
    """
    if not isinstance(log, dict):
        return []
    parts: dict[int, tuple[Way, Any]] = {}
    for way, part in (*_parts_of_attributes(log), *_parts_of_rows(log, times)):
        # A row may hold the status, or another row.
        parts.setdefault(id(part), (way, part))
    return list(parts.values())


def find_part(log: Any, way: Sequence[Any]) -> Any:
    """Return the part of a log that :func:`shared_parts` named."""
    kind, key, *positions = way
    found = vars(log)[key] if kind == "attribute" else dict.__getitem__(log, key)
    for position in positions:
        found = list(_children(found))[position]
    return found


def _parts_of_attributes(log: dict[int, Any]) -> Iterator[tuple[Way, Any]]:
    attributes = vars(log)
    counts = list(map(getrefcount, attributes.values()))
    for name, count in zip(list(attributes), counts):
        if gc.is_tracked(attributes[name]):
            if count > _LONELY:
                yield ("attribute", name), attributes[name]
            yield from _parts_within(("attribute", name), attributes[name])


def _parts_of_rows(log: dict[int, Any], among: Iterable[Any] | None) -> Iterator[tuple[Way, Any]]:
    if among is None:
        times: Collection[Any] = log
        rows: Callable[[], Iterable[Any]] = partial(dict.values, log)
    else:
        times = list(among)
        rows = partial(map, dict.__getitem__, repeat(log), times)
    # A log may have a million rows, and usually nobody holds any: that is
    # found out here without a step of Python for each.
    if sum(map(getrefcount, rows())) > _LONELY * len(times):
        for time in list(compress(times, map(_LONELY.__lt__, map(getrefcount, rows())))):
            yield ("row", time), dict.__getitem__(log, time)
    # Nor does the collector track rows of nothing but numbers and strings.
    if any(map(gc.is_tracked, rows())):
        for time in list(compress(times, map(gc.is_tracked, rows()))):
            yield from _parts_within(("row", time), dict.__getitem__(log, time))


def _parts_within(way: Way, container: Any) -> Iterator[tuple[Way, Any]]:
    waiting = [(way, container)]
    seen = {id(container)}
    while waiting:
        way, container = waiting.pop()
        children = _children(container)
        counts = list(map(getrefcount, children))
        for position, child in enumerate(children):
            if not gc.is_tracked(child) or id(child) in seen:
                continue
            seen.add(id(child))
            if counts[position] > _LONELY:
                yield (*way, position), child
            waiting.append(((*way, position), child))


def _children(container: Any) -> Collection[Any]:
    if isinstance(container, dict):
        return dict.values(container)
    if isinstance(container, (list, tuple)):
        return container
    return ()
