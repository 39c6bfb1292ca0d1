"""Data sets that make up most of a checkpoint, and where they hang."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from .errors import HeavyDataWarning

__all__ = ["HeavyArray", "heavy_arrays", "warn_of_weight", "weight_warning"]

#: Below this nobody minds (bytes).
LIGHT_BYTES = 16 * 1024 * 1024
#: Share of a checkpoint from which on data sets are worth a word.
MOST = 0.5
#: Arrays that a message lists.
LISTED = 3
MAX_DEPTH = 12
#: Longer ones are data, and looked at here and there.
MAX_ELEMENTS = 1000
SAMPLE = 100
#: What an element takes in a pickle beside its data, roughly, and an array.
ELEMENT_BYTES, ARRAY_BYTES = 16, 48
_CONTAINERS = (list, tuple, dict, set, frozenset)


class HeavyArray(NamedTuple):
    """An array in a data stream, or a long container of small things.

    Attributes
    ----------
    path : str
        ``main_loop.data_stream.dataset.indexables[0]``
    nbytes : int
        Of a container, an estimate from some of its elements.
    """

    path: str
    nbytes: int


def warn_of_weight(main_loop: Any, parameters: Iterable[Any], stacklevel: int) -> None:
    """Warn if data sets make up most of a checkpoint of this main loop."""
    heavy = heavy_arrays(main_loop)
    values = [each.get_value(borrow=True) for each in parameters]
    beside = sum(getattr(value, "nbytes", 0) for value in values)
    message = weight_warning(heavy, beside + sum(each.nbytes for each in heavy))
    if message is not None:
        warnings.warn(message, HeavyDataWarning, stacklevel=stacklevel + 1)


def heavy_arrays(main_loop: Any) -> list[HeavyArray]:
    """List the arrays that hang in data streams, the largest first, each once."""
    roots = [("main_loop.data_stream", main_loop.data_stream)]
    for index, extension in enumerate(main_loop.extensions):
        stream = getattr(extension, "__dict__", {}).get("data_stream")
        roots.append((f"main_loop.extensions[{index}].data_stream", stream))
    seen: set[int] = set()
    found = [array for path, root in roots for array in _walk(path, root, 0, seen)]
    return sorted(found, key=lambda each: -each.nbytes)


def _walk(path: str, thing: Any, depth: int, seen: set[int]) -> Iterator[HeavyArray]:
    if id(thing) in seen or depth > MAX_DEPTH:
        return
    if isinstance(thing, np.ndarray):
        # What many views are views of is stored once.
        base = thing if thing.base is None else thing.base
        if id(base) not in seen:
            seen.update((id(thing), id(base)))
            yield HeavyArray(path, _array_bytes(thing))
        return
    seen.add(id(thing))
    if isinstance(thing, _CONTAINERS) and len(thing) > MAX_ELEMENTS:
        yield HeavyArray(path, _estimate(thing))
        return
    if isinstance(thing, (list, tuple)):
        children = [(f"{path}[{index}]", each) for index, each in enumerate(thing)]
    elif isinstance(thing, dict):
        children = [(f"{path}[{key!r}]", each) for key, each in thing.items()]
    elif isinstance(getattr(thing, "__dict__", None), dict) and not isinstance(thing, type):
        state = _pickled_attributes(thing)
        children = [(f"{path}.{name}", each) for name, each in state.items()]
    else:
        return
    for name, child in children:
        yield from _walk(name, child, depth + 1, seen)


def _array_bytes(array: np.ndarray[Any, Any]) -> int:
    return _estimate(array.ravel()) if array.dtype.hasobject else array.nbytes


def _estimate(container: Any) -> int:
    """Estimate what a container takes in a pickle, from elements here and there."""
    elements = container.values() if isinstance(container, dict) else container
    step = max(1, len(elements) // SAMPLE)
    sample = [_element_bytes(each, 0) for each in islice(elements, 0, None, step)]
    return sum(sample) * len(elements) // max(1, len(sample))


def _element_bytes(thing: Any, depth: int) -> int:
    if isinstance(thing, np.ndarray):
        return ARRAY_BYTES + thing.nbytes
    if isinstance(thing, (str, bytes)):
        return len(thing)
    if isinstance(thing, (list, tuple)) and depth < MAX_DEPTH:
        return sum(_element_bytes(each, depth + 1) for each in thing[:SAMPLE])
    return ELEMENT_BYTES


def _pickled_attributes(thing: Any) -> dict[str, Any]:
    """Return the attributes that go into a pickle: a lazy data set leaves its data out."""
    get_state = getattr(type(thing), "__getstate__", None)
    if get_state is None or get_state is getattr(object, "__getstate__", None):
        return dict(thing.__dict__)
    try:
        state = thing.__getstate__()
    except Exception:
        # An iterator of a data loader has none; anything else the save will tell.
        return {}
    return state if isinstance(state, dict) else {}


def weight_warning(arrays: list[HeavyArray], total_bytes: int) -> str | None:
    """Say that data sets make up most of a checkpoint, if they do.

    Parameters
    ----------
    arrays : list of HeavyArray
    total_bytes : int
        Of all that is saved.
    """
    heavy = sum(each.nbytes for each in arrays)
    if heavy < LIGHT_BYTES or heavy < MOST * total_bytes:
        return None
    listed = ", ".join(f"{each.path} ({_readable(each.nbytes)})" for each in arrays[:LISTED])
    return (
        f"data sets make up {_readable(heavy)} of the {_readable(total_bytes)} of each "
        f"checkpoint: {listed}. They are needed to go on in another process. To leave them out, "
        "have the data set read a file, as H5PYDataset does, or give its class a __getstate__ "
        "that leaves the arrays out and a __setstate__ that loads them"
    )


def _readable(count: int) -> str:
    return f"{count / 2**20:.0f} MiB" if count >= 2**20 else f"{count} bytes"
