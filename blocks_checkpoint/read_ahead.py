"""Streams that read ahead: the place that they have reached is not that of the training.

What they have fetched and nobody has trained on is neither in the file, nor
will it come again. Such a run cannot be continued exactly, and whoever saves
it, or goes on with it, is told.
"""

from __future__ import annotations

import multiprocessing.process
import socket
import threading
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor
from typing import Any

from .errors import ReadAheadWarning
from .resumption import all_extensions
from .state_methods import state_methods

__all__ = ["streams_that_read_ahead", "warn_of_reading_ahead", "warn_on_going_on"]

#: Fuel's leaves out its socket when it is pickled, and with it what is on the way.
_KNOWN = ("ServerDataStream",)
_WORKERS = (threading.Thread, multiprocessing.process.BaseProcess, Executor, socket.socket)
#: Longer ones are data.
MAX_ELEMENTS = 1000
#: A save is not to wait for a search.
MAX_OBJECTS = 10_000


def streams_that_read_ahead(main_loop: Any) -> list[str]:
    """Say which parts of the data streams of a main loop read ahead.

    They are found where they can be pickled without their place: Fuel's
    server, and objects that leave a thread, a process or a connection out of
    their pickles. One that cannot be pickled at all is refused by the save.

    Returns
    -------
    list of str
        ``main_loop.data_stream (a ServerDataStream)``.
    """
    roots = _named(main_loop.iteration_state)
    for extension in all_extensions(main_loop):
        stream = getattr(extension, "__dict__", {}).get("data_stream")
        roots.append((f"{type(extension).__name__}.data_stream", stream))
    return _found(roots)


def _named(iteration_state: Any) -> list[tuple[str, Any]]:
    return list(zip(("main_loop.data_stream", "main_loop.epoch_iterator"), iteration_state))


def _found(roots: Iterable[tuple[str, Any]]) -> list[str]:
    # Near the roots first: what is far from them, and much, is data.
    waiting = deque(roots)
    seen: set[int] = set()
    found = []
    while waiting and len(seen) < MAX_OBJECTS:
        path, thing = waiting.popleft()
        # Whoever tells its state says itself what its place is.
        if id(thing) in seen or state_methods(type(thing)) is not None:
            continue
        seen.add(id(thing))
        attributes = _attributes_of(thing)
        worker = _worker_of(thing, attributes)
        if worker is not None:
            found.append(f"{path} ({worker})")
            continue
        waiting.extend((f"{path}{step}", child) for step, child in _children(thing, attributes))
    return found


def _attributes_of(thing: Any) -> dict[str, Any]:
    attributes = getattr(thing, "__dict__", None)
    return attributes if isinstance(attributes, dict) and not isinstance(thing, type) else {}


def _children(thing: Any, attributes: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    steps: Iterable[tuple[str, Any]] = [(f".{name}", each) for name, each in attributes.items()]
    if isinstance(thing, (list, tuple)) and len(thing) <= MAX_ELEMENTS:
        steps = [(f"[{index}]", each) for index, each in enumerate(thing)]
    elif isinstance(thing, dict) and len(thing) <= MAX_ELEMENTS:
        steps = [(f"[{key!r}]", each) for key, each in thing.items()]
    for step, child in steps:
        # The rest has no parts that count.
        if isinstance(child, (list, tuple, dict)) or hasattr(child, "__dict__"):
            yield step, child


def _worker_of(thing: Any, attributes: Mapping[str, Any]) -> str | None:
    """Describe a thing that reads ahead, if it does."""
    names = [cls.__name__ for cls in type(thing).__mro__]
    for name in _KNOWN:
        if name in names:
            return f"a {name}"
    if not _has_its_own_pickling(type(thing)):
        return None
    for name, value in attributes.items():
        if isinstance(value, _WORKERS):
            return f"a {names[0]}, whose {name} is not saved"
    return None


def _has_its_own_pickling(cls: type) -> bool:
    return any(
        getattr(cls, name, None) is not getattr(object, name, None)
        for name in ("__getstate__", "__reduce__", "__reduce_ex__")
    )


def warn_of_reading_ahead(found: Iterable[str], moment: str, *, stacklevel: int) -> None:
    """Warn, if anything was found.

    Parameters
    ----------
    found : iterable of str
        As :func:`streams_that_read_ahead` returned it.
    moment : str
        What is going on: ``'going on from run.zip'``.
    stacklevel : int
        From the caller's point of view.
    """
    found = list(found)
    if found:
        warnings.warn(
            f"{moment}: a stream reads ahead of the training, and its place cannot be saved: "
            f"{', '.join(found)}. A run that goes on from the file gets other batches than one "
            "that is not interrupted; everything else is exact. For exact batches, have the main "
            "loop read the data itself, or give the stream methods state_dict() and "
            "load_state_dict(state) that tell the place of the training",
            ReadAheadWarning,
            stacklevel=stacklevel + 1,
        )


def warn_on_going_on(checkpoint: Any, iteration_state: Any, *, stacklevel: int) -> None:
    """Warn whoever goes on from a checkpoint, if its streams had read ahead.

    Parameters
    ----------
    checkpoint : CheckpointFile
    iteration_state : tuple
        That of the checkpoint. It is looked at if the file was written by one
        that did not.
    stacklevel : int
        From the caller's point of view.
    """
    found = checkpoint.manifest.get("reads_ahead") or _found(_named(iteration_state))
    warn_of_reading_ahead(found, f"going on from {checkpoint.path}", stacklevel=stacklevel + 1)
