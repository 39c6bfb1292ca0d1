"""Iterators and streams that say themselves what their state is.

An object of the data stream that can be iterated over and has ``state_dict``
and ``load_state_dict``, or ``get_state`` and ``set_state``, is saved as what it
is made of (its own pickle, without the iterators of loaders in it) and the
state that it returns. Where it cannot be pickled it is saved by its state
alone, which the object at the same place of a newly built main loop gets.

What hangs in such an object is part of its state, and is not asked for one.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..errors import CheckpointError, LoadError, UnpicklableError
from ..state_methods import state_methods
from .generator_places import (
    LEAVES,
    STREAM_PARTS,
    Path,
    children_of,
    replace_at,
    spelled,
    take_step,
)
from .generator_states import is_generator, is_global, new_generator, put_state, state_of
from .loaders import (
    has_begun,
    is_grain_source,
    is_live,
    is_loader,
    is_of_torch_networks,
    iterator_of,
    load_state,
    loader_types,
    origin_of,
    without_live_parts,
)

__all__ = [
    "Stateful",
    "StatefulPart",
    "find_stateful",
    "put_part",
    "put_saved",
    "saved_state",
    "stateful_part",
]

logger = logging.getLogger(__name__)

_ITERATES = ("__iter__", "__next__", "get_epoch_iterator")
#: Data sets of Grain hang in each other, two steps apart.
MAX_DEPTH = 60

Reducer = Callable[[Any], Any]


def methods_of(thing: Any) -> tuple[str, str] | None:
    """Name the methods by which an iterator or stream gives and takes its state."""
    if not any(hasattr(type(thing), name) for name in _ITERATES):
        return None
    if is_generator(thing) or is_of_torch_networks(thing):
        return None
    return state_methods(type(thing))


@dataclass
class StatefulPart:
    """An object that is saved by its state.

    Attributes
    ----------
    path : tuple
        Where it hangs in the main loop.
    thing : object
    saved : dict
        Its state, and those of the random generators in it.
    """

    path: Path
    thing: Any
    saved: dict[str, Any] = field(default_factory=dict)


@dataclass
class Stateful:
    """What of an iteration state is saved by its state.

    Attributes
    ----------
    parts : dict of int to StatefulPart
        By the identity of the object.
    iterators : dict of int to (iterator, origin)
        Iterators of loaders that are not part of another object's state.
    source_types : set of type
        Of Grain's data sets.
    only_by_state : bool
        The objects themselves are left out.
    """

    parts: dict[int, StatefulPart] = field(default_factory=dict)
    iterators: dict[int, tuple[Any, Any]] = field(default_factory=dict)
    source_types: set[type] = field(default_factory=set)
    only_by_state: bool = False

    def take_states(self) -> None:
        """Ask each object for its state.

        Raises
        ------
        UnpicklableError
            One has none to give.
        """
        for part in self.parts.values():
            try:
                part.saved = saved_state(part.thing)
            except CheckpointError:
                raise
            except Exception as error:
                method = _methods(part.thing)[0]
                raise UnpicklableError(
                    f"{_shown(part.path)} is to be saved by its state, and {method}() failed with "
                    f"{type(error).__name__}: {error}. It is asked for its state at any batch; "
                    f"an object without {method} is pickled as any other"
                ) from error

    def reducers(self, protocol: int) -> Iterator[tuple[type, Reducer]]:
        """List how objects of these classes are pickled."""
        for cls in (*loader_types(), *self.source_types):
            yield cls, self._reducer(protocol)
        for part in self.parts.values():
            yield type(part.thing), self._reducer(protocol)
        for iterator, _ in self.iterators.values():
            yield type(iterator), self._reducer(protocol)

    def _reducer(self, protocol: int) -> Reducer:
        def reduce(thing: Any) -> Any:
            part = self.parts.get(id(thing))
            if part is not None:
                return _reduce_part(part, protocol, self.only_by_state)
            if id(thing) in self.iterators:
                return _reduce_iterator(thing, self.iterators[id(thing)][1])
            return _without_live_parts(thing, protocol)

        return reduce


def _methods(thing: Any) -> tuple[str, str]:
    pair = methods_of(thing)
    assert pair is not None
    return pair


def find_stateful(iteration_state: Any) -> Stateful:
    """Find what of an iteration state is to be saved by its state.

    Nothing is asked for its state yet.

    Parameters
    ----------
    iteration_state : tuple
        Data stream and epoch iterator.
    """
    search = _Search()
    if isinstance(iteration_state, tuple) and len(iteration_state) == len(STREAM_PARTS):
        roots = list(zip(STREAM_PARTS, iteration_state))
        for name, thing in roots:
            search.walk((name,), thing, False, False)
            # Also if it hangs in the other: a stream cannot give its state to
            # the iterator that the main loop holds.
            search.enter((name,), thing)
    found = Stateful(search.parts, source_types=search.source_types)
    for iterator in search.iterators:
        found.iterators[id(iterator)] = (
            iterator,
            origin_of(iterator, search.loaders, search.sources),
        )
    return found


class _Search:
    def __init__(self) -> None:
        self.parts: dict[int, StatefulPart] = {}
        self.iterators: list[Any] = []
        self.loaders: list[Any] = []
        self.sources: list[Any] = []
        self.source_types: set[type] = set()
        self._seen: set[int] = set()

    def enter(self, path: Path, thing: Any) -> bool:
        """Take down an object that has a state of its own; tell whether it has."""
        if id(thing) in self.parts:
            return True
        if isinstance(thing, LEAVES) or is_live(thing) or methods_of(thing) is None:
            return False
        self.parts[id(thing)] = StatefulPart(path, thing)
        return True

    def walk(self, path: Path, thing: Any, is_covered: bool, is_in_source: bool) -> None:
        if isinstance(thing, LEAVES) or id(thing) in self._seen or len(path) > MAX_DEPTH:
            return
        if is_live(thing):
            # One that an object with a state of its own holds is part of that
            # state; whether anybody else holds it, too, is seen there.
            if not is_covered:
                self._seen.add(id(thing))
                self.iterators.append(thing)
            return
        self._seen.add(id(thing))
        if is_loader(thing):
            self.loaders.append(thing)
        if is_grain_source(thing):
            self.source_types.add(type(thing))
            if not is_in_source:
                is_in_source = True
                self.sources.append(thing)
        is_covered = is_covered or self.enter(path, thing)
        for step, child in children_of(thing):
            self.walk((*path, step), child, is_covered, is_in_source)


def _generators_in(thing: Any) -> Iterator[tuple[Path, Any]]:
    seen: set[int] = set()

    def walk(path: Path, each: Any) -> Iterator[tuple[Path, Any]]:
        if isinstance(each, LEAVES) or id(each) in seen or len(path) > MAX_DEPTH or is_live(each):
            return
        seen.add(id(each))
        if is_generator(each):
            if not is_global(each):
                yield path, each
            return
        for step, child in children_of(each):
            yield from walk((*path, step), child)

    return walk((), thing)


def saved_state(thing: Any) -> dict[str, Any]:
    """Return what is saved of an object that has a state."""
    saved: dict[str, Any] = {}
    if has_begun(thing):
        saved["state"] = getattr(thing, _methods(thing)[0])()
    # Where a loader has begun an epoch, its generators have gone on since; its
    # state has them as they were then.
    saved["generators"] = [(path, state_of(each)) for path, each in _generators_in(thing)]
    return saved


def put_saved(thing: Any, saved: dict[str, Any]) -> None:
    """Put an object into a state that :func:`saved_state` returned."""
    state = saved.get("state")
    if is_loader(thing):
        load_state(thing, state)
    elif state is not None:
        getattr(thing, _methods(thing)[1])(state)
    for path, generator_state in saved["generators"]:
        try:
            _put_generator(thing, path, generator_state)
        except (AttributeError, LookupError, TypeError) as error:
            # What it hung in is no part of the state, and was not made anew.
            logger.debug("there is no random generator at %r: %s", path, error)


def _put_generator(thing: Any, path: Path, state: Any) -> None:
    holder = thing
    for step in path[:-1]:
        holder = take_step(holder, step)
    try:
        put_state(take_step(holder, path[-1]), state)
    except LoadError as error:
        # It is of another seed, or has gone further.
        logger.debug("%r: %s", path, error)
        replace_at(holder, path[-1], new_generator(state))


def stateful_part(path: Path, kind: str, make: Any, args: Any) -> Any:
    """Make an object whose state comes next in the pickle.

    Raises
    ------
    LoadError
        It was saved by its state alone. :mod:`.zip_unpickler` puts a function
        of its own in the place of this one, if there is a main loop.
    """
    if make is None:
        raise LoadError(
            f"{_shown(path)}, a {kind}, was saved by its state alone. The state is for the one "
            "of a newly built main loop: add Resume(path, load_log=True, "
            "load_iteration_state=True) to the extensions of one, in a script"
        )
    return make(*args)


def put_part(thing: Any, state: tuple[Any, dict[str, Any]]) -> None:
    """Complete what :func:`stateful_part` made.

    Raises
    ------
    LoadError
        It does not take its state.
    """
    own, rest = state
    if rest["set_own"] is not None:
        rest["set_own"](thing, own)
    elif rest["has_own"]:
        _set_own(thing, own)
    for element in rest["items"]:
        thing.append(element)
    for key, value in rest["pairs"]:
        thing[key] = value
    try:
        put_saved(thing, rest["saved"])
    except Exception as error:
        raise LoadError(
            f"the {type(thing).__qualname__} of the data stream does not take the state that it "
            f"had: {type(error).__name__}: {error}"
        ) from error


def _set_own(thing: Any, own: Any) -> None:
    # As the unpickler does it.
    if hasattr(thing, "__setstate__"):
        thing.__setstate__(own)
        return
    attributes, slots = own if isinstance(own, tuple) and len(own) == 2 else (own, None)
    if attributes:
        thing.__dict__.update(attributes)
    for name, value in (slots or {}).items():
        setattr(thing, name, value)


def _reduce_part(part: StatefulPart, protocol: int, only_by_state: bool) -> Any:
    thing, kind = part.thing, type(part.thing).__qualname__
    # A newly built main loop has no epoch iterator to be given a state.
    is_left_out = only_by_state and part.path != STREAM_PARTS[1:]
    reduced: Any = (None, None) if is_left_out else _without_live_parts(thing, protocol)
    if isinstance(reduced, str):
        # One that the importing of a module makes.
        return reduced
    make, args, own, items, pairs, set_own = [*reduced, None, None, None, None][:6]
    rest: dict[str, Any] = {
        "has_own": own is not None,
        "set_own": set_own,
        "items": [*(items or ())],
        "pairs": [*(pairs or ())],
        "saved": part.saved,
    }
    return stateful_part, (part.path, kind, make, args), (own, rest), None, None, put_part


def _without_live_parts(thing: Any, protocol: int) -> Any:
    reduced = thing.__reduce_ex__(protocol)
    if isinstance(reduced, tuple) and len(reduced) > 2:
        reduced = (*reduced[:2], without_live_parts(thing, reduced[2]), *reduced[3:])
    return reduced


def _reduce_iterator(iterator: Any, origin: Any) -> Any:
    if getattr(iterator, "_finished", False):
        # To ask the loader for it would begin the next epoch.
        return iter, ((),)
    if origin is None:
        raise pickle.PicklingError(
            "what this iterator came from is not in the data stream, or there are several things "
            "that it could have come from"
        )
    if is_loader(origin):
        return iterator_of, (origin,)
    return continued, (origin, iterator.get_state())


def continued(source: Any, state: Any) -> Any:
    """Make an iterator that goes on from a state."""
    iterator = iter(source)
    iterator.set_state(state)
    return iterator


def _shown(path: Path) -> str:
    return f"main_loop.{spelled(path)}"
