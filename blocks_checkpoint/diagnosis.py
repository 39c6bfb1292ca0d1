"""Where in an object graph something hangs, and why it cannot be pickled.

A pickler that fails names a type, and not the place. Here the graph is walked
the way a pickler would walk it, object by object instead of by recursion, and
every object that a pickler would stop at is reported with the path of
attributes that leads to it. Nothing is changed by the walk beyond what asking
an object for its state changes. It is slow, and done only after a failure.
"""

from __future__ import annotations

import copyreg
import functools
import sys
import time
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .pickling.cures import cure_for, is_worker, place_of_definition

__all__ = ["Findings", "Offender", "Walker", "find_globals", "find_offenders"]

Reducers = Mapping[type, Callable[[Any], Any]]
Root = tuple[str, Any]
Child = tuple[str, Any]

#: After this time the search gives up: a graph may be endless, if its objects
#: make new ones whenever they are asked (seconds).
SEARCH_SECONDS = 60.0

#: Pickle protocols below 4 write down sizes in four bytes.
MAX_PIECE_BYTES = 0xFFFFFFFF

_SIZED = (bytes, bytearray, str)
_ATOMIC = frozenset(
    [type(None), bool, int, float, complex, str, bytes, bytearray, type(...), type(NotImplemented)]
)
_PLAIN_CLASSES = (type(None), type(...), type(NotImplemented))
_BY_NAME = (types.FunctionType, types.BuiltinFunctionType)
_NEW_OBJECT = (copyreg.__newobj__, copyreg.__newobj_ex__)  # type: ignore[attr-defined]


class Offender(NamedTuple):
    """An object that cannot be pickled.

    Attributes
    ----------
    path : str
        How to get to it: ``main_loop.extensions[2].callback``.
    type_name : str
        Its type, with the module.
    defined : str
        Where it comes from, as far as that can be told; empty otherwise.
    reason : str
        What the pickler says to it.
    cure : str
        What to do about it.
    """

    path: str
    type_name: str
    defined: str
    reason: str
    cure: str

    def __str__(self) -> str:
        defined = f", defined in {self.defined}" if self.defined else ""
        return f"{self.path} is a {self.type_name}{defined}: {self.reason}. {self.cure}"


class Findings(NamedTuple):
    """What a search has found.

    Attributes
    ----------
    offenders : list of Offender
        Those nearest to the root come first.
    is_complete : bool
        False if the search gave up.
    """

    offenders: list[Offender]
    is_complete: bool


class _Place(NamedTuple):
    """An object, and the way back to the root."""

    thing: Any
    label: str
    parent: Any

    @property
    def path(self) -> str:
        labels = []
        place: Any = self
        while place is not None:
            labels.append(place.label)
            place = place.parent
        return "".join(reversed(labels))


def find_offenders(roots: Sequence[Root], walker: Walker | None = None) -> Findings:
    """List every object below ``roots`` that cannot be pickled.

    Parameters
    ----------
    roots : sequence of (str, object)
        What to call each, the beginning of every path, and the object.
    walker : Walker, optional

    Returns
    -------
    Findings
    """
    walker = walker or Walker()
    found = [_describe(place, error) for place, error in walker.walk(roots) if error is not None]
    return Findings(found, not walker.gave_up)


def find_globals(
    roots: Sequence[Root],
    wanted: Iterable[str],
    modules: Callable[[str], bool],
    walker: Walker | None = None,
) -> dict[str, str]:
    """Find where functions and classes of certain modules are needed.

    Parameters
    ----------
    roots : sequence of (str, object)
    wanted : iterable of str
        Qualified names. The search ends when all are found.
    modules : callable
        Tells of the name of a module whether it is one of them.
    walker : Walker, optional

    Returns
    -------
    dict of str to str
        Name to the path of an object that needs it.
    """
    missing = set(wanted)
    found: dict[str, str] = {}
    for place, _ in (walker or Walker()).walk(roots):
        if not missing:
            break
        for candidate in (place.thing, type(place.thing)):
            try:
                name = getattr(candidate, "__qualname__", None) or candidate.__name__
                module = str(candidate.__module__)
            except Exception:
                continue
            # Lower protocols name the outermost class of a nested one only.
            for each in [n for n in missing if name == n or str(name).startswith(f"{n}.")]:
                if modules(module):
                    # Instances are met before their class; theirs is the better path.
                    found[each] = place.path
                    missing.discard(each)
    return found


class Walker:
    """Walks object graphs as a pickler does.

    Parameters
    ----------
    reducers : mapping of type to callable, optional
        The pickler's dispatch table.
    protocol : int
    persistent_id : callable, optional
        The user's own; what it knows is not pickled.
    seconds : float
        When to give up.

    Attributes
    ----------
    gave_up : bool
        Whether the last walk was ended before it was complete.
    """

    def __init__(
        self,
        reducers: Reducers | None = None,
        protocol: int = 5,
        persistent_id: Callable[[Any], Any] | None = None,
        seconds: float = SEARCH_SECONDS,
    ) -> None:
        self._reducers = copyreg.dispatch_table if reducers is None else reducers
        self._protocol = protocol
        self._persistent_id = persistent_id
        self._seconds = seconds
        self._classes: dict[type, Exception | None] = {}
        self.gave_up = False

    def walk(self, roots: Sequence[Root]) -> Iterator[tuple[_Place, Exception | None]]:
        """Visit every object once, those near the roots first.

        Yields
        ------
        place : _Place
        error : Exception or None
            Why the object cannot be pickled.
        """
        self.gave_up = False
        end = time.monotonic() + self._seconds
        # Breadth first: the shortest path to an object is the one to show.
        waiting = deque(_Place(thing, name, None) for name, thing in roots)
        # Keeps alive what is known by its id, states made on the fly included.
        seen: dict[int, Any] = {}
        while waiting:
            place = waiting.popleft()
            thing = place.thing
            if id(thing) in seen:
                continue
            seen[id(thing)] = thing
            if not len(seen) & 1023 and time.monotonic() > end:
                self.gave_up = True
                return
            children: list[Child] = []
            error = None
            try:
                if self._persistent_id is None or self._persistent_id(thing) is None:
                    error = self._look_at(thing, children)
            except Exception as failure:
                error = failure
            yield place, error
            for label, child in children:
                cls = type(child)
                if cls not in _ATOMIC:
                    waiting.append(_Place(child, label, place))
                elif self._protocol < 4 and cls in _SIZED and len(child) > MAX_PIECE_BYTES:
                    yield _Place(child, label, place), self._too_large(child)

    def _too_large(self, piece: Any) -> Exception:
        return OverflowError(
            f"it has {len(piece)} bytes, and pickle protocol {self._protocol} holds "
            f"{MAX_PIECE_BYTES} in one piece at most; ask for protocol 4 or 5"
        )

    def _look_at(self, thing: Any, children: list[Child]) -> Exception | None:
        cls = type(thing)
        if cls in (list, tuple):
            children.extend(_indexed(thing))
        elif cls is dict:
            children.extend(_keyed(thing.items()))
        elif cls in (set, frozenset):
            children.extend(("{...}", element) for element in thing)
        elif cls is np.ndarray:
            if thing.dtype.hasobject:
                children.extend(("[...]", element) for element in thing.ravel().tolist())
        elif cls is types.MethodType:
            children.append((".__self__", thing.__self__))
        elif cls is functools.partial:
            children += [
                (".func", thing.func),
                (".args", thing.args),
                (".keywords", thing.keywords),
                *_attributes(thing.__dict__),
            ]
        elif cls in self._reducers:
            return self._parts(thing, self._reducers[cls](thing), children)
        elif isinstance(thing, type):
            return self._check_class(thing)
        elif cls in _BY_NAME and _is_global(thing):
            check_importable(thing)
        elif is_worker(thing):
            # What stands in the way is the whole of it, not each lock in it.
            return TypeError("it runs in this process only")
        elif cls not in _ATOMIC:
            return self._parts(thing, thing.__reduce_ex__(self._protocol), children)
        return None

    def _parts(self, thing: Any, reduced: Any, children: list[Child]) -> Exception | None:
        if isinstance(reduced, str):
            check_importable(thing, reduced)
            return None
        parts: list[Any] = [*reduced, None, None, None]
        function, args, state, items, pairs = parts[:5]
        error = None
        if function in _NEW_OBJECT:
            # Its class goes without saying, but has to be importable.
            error = self._check_class(args[0])
            args = args[1:]
        elif function is type(thing):
            error = self._check_class(function)
        else:
            children.append((".__reduce_ex__()[0]", function))
        children.extend(_arguments(thing, args))
        if isinstance(state, dict):
            children.extend(_attributes(state))
        elif isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], dict):
            if isinstance(state[0], dict):
                children.extend(_attributes(state[0]))
            elif state[0] is not None:
                children.append((".__getstate__()[0]", state[0]))
            children.extend(_attributes(state[1]))
        elif state is not None:
            children.append((".__getstate__()", state))
        if items is not None:
            children.extend(_indexed(items))
        if pairs is not None:
            children.extend(_keyed(pairs))
        return error

    def _check_class(self, cls: type) -> Exception | None:
        if cls not in self._classes:
            try:
                check_importable(cls)
            except Exception as error:
                self._classes[cls] = error
            else:
                self._classes[cls] = None
        return self._classes[cls]


def _is_global(function: Any) -> bool:
    # The methods of built-in objects are of the same type as ``len``.
    owner = getattr(function, "__self__", None)
    return owner is None or isinstance(owner, types.ModuleType)


def _indexed(elements: Iterable[Any]) -> Iterator[Child]:
    return ((f"[{index}]", element) for index, element in enumerate(elements))


def _arguments(thing: Any, args: Sequence[Any]) -> Iterator[Child]:
    """Name what an object is made from, as one would get it from the object."""
    cls = type(thing)
    labels = [f".__reduce_ex__()[1][{index}]" for index in range(len(args))]
    if issubclass(cls, tuple) and len(getattr(cls, "_fields", ())) == len(args) > 0:
        labels = [f".{field}" for field in getattr(cls, "_fields", ())]
    elif issubclass(cls, tuple) and len(args) == 1 and type(args[0]) is tuple:
        # The elements, as a tuple of no special class.
        labels = [""]
    elif issubclass(cls, BaseException) and len(thing.args) == len(args):
        labels = [f".args[{index}]" for index in range(len(args))]
    return zip(labels, args)


def _keyed(pairs: Iterable[tuple[Any, Any]]) -> Iterator[Child]:
    for key, value in pairs:
        if type(key) in _ATOMIC:
            yield f"[{key!r}]", value
        else:
            shown = f"<{type(key).__name__}>"
            yield f".keys(){shown}", key
            yield f"[{shown}]", value


def _attributes(state: Mapping[Any, Any]) -> Iterator[Child]:
    for name, value in state.items():
        is_plain = type(name) is str and name.isidentifier()
        yield f".{name}" if is_plain else f".__dict__[{name!r}]", value


def check_importable(thing: Any, name: str | None = None) -> None:
    """Raise an error if a function or class is not found under its own name.

    Raises
    ------
    AttributeError
        It says why not.
    """
    module_name = getattr(thing, "__module__", None)
    name = name or getattr(thing, "__qualname__", None) or thing.__name__
    if module_name is None or any(thing is each for each in _PLAIN_CLASSES):
        # Extension types without a module: the pickler searches all modules.
        return
    found: Any = sys.modules.get(module_name)
    if found is None:
        raise AttributeError(f"the module {module_name} is not imported")
    for part in name.split("."):
        if part == "<locals>":
            raise AttributeError(f"{name} exists only inside of the function that made it")
        found = getattr(found, part, None)
    if found is None:
        raise AttributeError(f"{module_name} has no attribute {name}")
    if found is not thing:
        raise AttributeError(f"{module_name}.{name} is another object by now")


def _describe(place: _Place, error: Exception) -> Offender:
    thing = place.thing
    cls = type(thing)
    kind = cls.__qualname__
    if cls.__module__ != "builtins":
        kind = f"{cls.__module__}.{kind}"
    reason = str(error).rstrip(".") or type(error).__name__
    if isinstance(error, RecursionError):
        reason = f"{cls.__qualname__} calls itself without end when asked for its state"
    return Offender(place.path, kind, place_of_definition(thing), reason, cure_for(thing, error))
