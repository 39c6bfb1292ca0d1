"""What is known of the data loaders of torchdata and Grain.

Their iterators hold threads, processes and locks, and cannot be pickled; but
each has a state, and is made anew by ``iter`` of what it came from. Nothing is
imported here: whoever has such an object has imported its library.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

__all__ = [
    "has_begun",
    "is_grain_source",
    "is_live",
    "is_loader",
    "is_of_torch_networks",
    "iterator_of",
    "load_state",
    "loader_types",
    "origin_of",
    "without_live_parts",
]

_LIVE = (
    ("torch", "_BaseDataLoaderIter"),
    ("torchdata", "LoaderIterator"),
    ("grain", "DatasetIterator"),
    ("grain", "DataLoaderIterator"),
)
_GRAIN_SOURCES = (("grain", "DataLoader"), ("grain", "IterDataset"), ("grain", "MapDataset"))
_TORCH_NETWORKS = (("torch", "Module"), ("torch", "Optimizer"))
#: Attributes of a StatefulDataLoader that belong to its iterator.
_OF_ITERATOR = {
    "_iterator": None,
    "next_iter_state": None,
    "_initial_iter_for_state_dict": False,
}


#: Looked up for every object of a data stream.
_names: WeakKeyDictionary[type, frozenset[tuple[str, str]]] = WeakKeyDictionary()


def _is_one_of(cls: type, known: Iterable[tuple[str, str]]) -> bool:
    names = _names.get(cls)
    if names is None:
        pairs = [(each.__module__.partition(".")[0], each.__name__) for each in cls.__mro__]
        names = _names[cls] = frozenset(pairs)
    return not names.isdisjoint(known)


def is_live(thing: Any) -> bool:
    """Tell whether this is an iterator of a loader, which no pickle can hold."""
    return _is_one_of(type(thing), _LIVE)


def is_grain_source(thing: Any) -> bool:
    """Tell whether this is what an iterator of Grain comes from."""
    return _is_one_of(type(thing), _GRAIN_SOURCES)


def is_of_torch_networks(thing: Any) -> bool:
    """Tell whether this is a network or an optimiser of PyTorch: they pickle as they are."""
    return _is_one_of(type(thing), _TORCH_NETWORKS)


def loader_types() -> list[type]:
    """List the classes of torchdata's loaders in this process."""
    module = sys.modules.get("torchdata.stateful_dataloader.stateful_dataloader")
    waiting = [getattr(module, "StatefulDataLoader", None)]
    found: list[type] = []
    while waiting:
        cls = waiting.pop()
        if isinstance(cls, type) and cls not in found:
            found.append(cls)
            waiting += cls.__subclasses__()
    return found


def is_loader(thing: Any) -> bool:
    """Tell whether this is a StatefulDataLoader of torchdata."""
    return isinstance(thing, tuple(loader_types()))


def has_begun(thing: Any) -> bool:
    """Tell whether there is a state to ask for.

    A StatefulDataLoader that nobody has iterated over begins its first epoch
    when it is asked, and draws from generators: saving would change the run.
    """
    if not is_loader(thing):
        return True
    return thing._iterator is not None or getattr(thing, "next_iter_state", None) is not None


def without_live_parts(thing: Any, state: Any) -> Any:
    """Return what an object is pickled with, without the iterators of loaders in it.

    Data sets of Grain also remember functions, which they make anew when they
    are missing.
    """
    if not isinstance(state, dict):
        return state
    if is_loader(thing):
        return {**state, **{name: _OF_ITERATOR[name] for name in _OF_ITERATOR if name in state}}
    kept = {name: None if is_live(value) else value for name, value in state.items()}
    if is_grain_source(thing):
        cls = type(thing)
        for name in state:
            if isinstance(getattr(cls, name, None), functools.cached_property):
                del kept[name]
    return kept


def load_state(loader: Any, state: Any) -> None:
    """Let a StatefulDataLoader have a state, and begin from it at once.

    It draws from its generators on beginning, and is to do so before those
    are put back where they were.
    """
    loader.load_state_dict({} if state is None else state)
    if state is not None:
        loader.state_dict()


def iterator_of(loader: Any) -> Any:
    """Return the iterator of the epoch that a StatefulDataLoader is in.

    Who has a loader in its own state may have asked for the iterator already;
    to ask a second time would begin the next epoch.
    """
    is_taken = loader._iterator is not None and not loader._initial_iter_for_state_dict
    return loader._iterator if is_taken else iter(loader)


def origin_of(iterator: Any, loaders: Iterable[Any], sources: list[Any]) -> Any:
    """Find what an iterator came from; None if that cannot be told.

    Parameters
    ----------
    iterator : object
        :func:`is_live` is true of it.
    loaders : iterable of StatefulDataLoader
    sources : list
        Of Grain; those that are in no other one.
    """
    for loader in loaders:
        if loader._iterator is iterator:
            return loader
    made_by = getattr(iterator, "__dict__", {}).get("_data_loader")
    if made_by is not None and is_grain_source(made_by):
        return made_by
    if _is_one_of(type(iterator), (("grain", "DatasetIterator"),)) and len(sources) == 1:
        return sources[0]
    return None
