"""Where in an object graph something hangs, and why it cannot be pickled.

A pickler that fails names a type, and not the place. Here the graph is
walked the way a pickler would walk it, object by object instead of by
recursion, and every object that a pickler would stop at is reported with the
path of attributes that leads to it. Nothing is changed by the walk beyond
what asking an object for its state changes. It is slow, and done only after
a failure.
"""

from __future__ import annotations

import copyreg
import functools
import io
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Offender", "find_globals", "find_offenders", "main_globals_of"]

#: Modules whose content another process does not have under that name.
MAIN_MODULES = ("__main__", "__mp_main__")

_ATOMIC = (type(None), bool, int, float, complex, str, bytes, bytearray, type(...), type(NotImplemented))
_BY_NAME = (type, types.FunctionType, types.BuiltinFunctionType)
Reducers = Mapping[type, Callable[[Any], Any]]


@dataclass(frozen=True)
class Offender:
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


@dataclass(frozen=True)
class _Place:
    """An object, and the way back to the root."""

    thing: Any
    label: str
    parent: _Place | None

    @property
    def path(self) -> str:
        labels = []
        place: _Place | None = self
        while place is not None:
            labels.append(place.label)
            place = place.parent
        return "".join(reversed(labels))


def find_offenders(
    root: Any, name: str, *, reducers: Reducers | None = None, protocol: int = 5
) -> list[Offender]:
    """List every object below ``root`` that cannot be pickled.

    Parameters
    ----------
    root : object
    name : str
        What to call it, the beginning of every path.
    reducers : mapping of type to callable, optional
        The pickler's dispatch table.
    protocol : int

    Returns
    -------
    list of Offender
        Those nearest to the root come first.
    """
    found = []
    for place, error in _walk(root, name, reducers or copyreg.dispatch_table, protocol):
        if error is not None:
            found.append(_describe(place, error))
    return found


def find_globals(
    root: Any, name: str, *, reducers: Reducers | None = None, protocol: int = 5
) -> dict[str, str]:
    """Find what ``root`` needs of the main module.

    Returns
    -------
    dict of str to str
        Name of a function or class of ``__main__`` to the path of an object
        that needs it.
    """
    found: dict[str, str] = {}
    for place, _ in _walk(root, name, reducers or copyreg.dispatch_table, protocol):
        for needed in main_globals_of(place.thing):
            # Instances are met before their class; theirs is the better path.
            found.setdefault(needed, place.path)
    return found


def main_globals_of(thing: Any) -> list[str]:
    """Name what ``thing`` is, or is an instance of, in the main module."""
    for candidate in (thing, type(thing)):
        if isinstance(candidate, _BY_NAME) and candidate.__module__ in MAIN_MODULES:
            return [candidate.__qualname__]
    return []


def _walk(
    root: Any, name: str, reducers: Reducers, protocol: int
) -> Iterator[tuple[_Place, Exception | None]]:
    # Breadth first: the shortest path to an object is the one to show.
    waiting = deque([_Place(root, name, None)])
    # Keeps alive what is known by its id, states made on the fly included.
    seen: dict[int, Any] = {}
    while waiting:
        place = waiting.popleft()
        thing = place.thing
        if isinstance(thing, _ATOMIC) or id(thing) in seen:
            continue
        seen[id(thing)] = thing
        try:
            children = list(_children(thing, reducers, protocol))
        except Exception as error:
            yield place, error
            continue
        yield place, None
        waiting.extend(_Place(child, label, place) for label, child in children)


def _children(thing: Any, reducers: Reducers, protocol: int) -> Iterator[tuple[str, Any]]:
    cls = type(thing)
    if cls in (list, tuple):
        yield from _indexed(thing)
    elif cls is dict:
        yield from _keyed(thing.items())
    elif cls in (set, frozenset):
        yield from (("{...}", element) for element in thing)
    elif isinstance(thing, type) or cls in _BY_NAME and getattr(thing, "__self__", None) is None:
        _check_importable(thing)
    elif cls is np.ndarray:
        if thing.dtype.hasobject:
            yield from (("[...]", element) for element in thing.ravel().tolist())
    elif cls is types.MethodType:
        yield ".__self__", thing.__self__
    elif cls is functools.partial:
        yield ".func", thing.func
        yield ".args", thing.args
        yield ".keywords", thing.keywords
        yield from _attributes(thing.__dict__)
    else:
        reducer = reducers.get(cls)
        reduced = thing.__reduce_ex__(protocol) if reducer is None else reducer(thing)
        yield from _parts(thing, reduced)


def _parts(thing: Any, reduced: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(reduced, str):
        _check_importable(thing, reduced)
        return
    function, args, state, items, pairs = [*reduced, None, None, None][:5]
    # An object that is made by its class alone: the class goes without saying,
    # but has to be importable.
    plain = function in (copyreg.__newobj__, copyreg.__newobj_ex__)  # type: ignore[attr-defined]
    if not plain:
        yield ".__reduce_ex__()[0]", function
    for index, arg in enumerate(args):
        yield f".__reduce_ex__()[1][{index}]", arg
    if isinstance(state, dict):
        yield from _attributes(state)
    elif isinstance(state, tuple) and len(state) == 2 and isinstance(state[1], dict):
        yield from _attributes(state[0] or {})
        yield from _attributes(state[1])
    elif state is not None:
        yield ".__getstate__()", state
    if items is not None:
        yield from _indexed(items)
    if pairs is not None:
        yield from _keyed(pairs)


def _indexed(elements: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    for index, element in enumerate(elements):
        yield f"[{index}]", element


def _keyed(pairs: Iterable[tuple[Any, Any]]) -> Iterator[tuple[str, Any]]:
    for key, value in pairs:
        shown = repr(key) if isinstance(key, _ATOMIC) else f"<{type(key).__name__}>"
        if not isinstance(key, _ATOMIC):
            yield f".keys(){shown}", key
        yield f"[{shown}]", value


def _attributes(state: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in state.items():
        if isinstance(name, str) and name.isidentifier():
            # ``extension._main_loop`` is what people write as ``.main_loop``;
            # the private name is the true one, and is the one to search for.
            yield f".{name}", value
        else:
            yield f".__dict__[{name!r}]", value


def _check_importable(thing: Any, name: str | None = None) -> None:
    module_name = getattr(thing, "__module__", None)
    name = name or getattr(thing, "__qualname__", None) or thing.__name__
    if module_name is None:
        # Extension types without a module: the pickler searches all modules.
        return
    found: Any = sys.modules.get(module_name)
    if found is None:
        raise AttributeError(f"module {module_name!r} is not imported")
    for part in name.split("."):
        if part == "<locals>":
            raise AttributeError(f"{name} exists only while the function around it runs")
        found = getattr(found, part, None)
    if found is not thing:
        if found is None:
            raise AttributeError(f"{module_name} has no attribute {name}")
        raise AttributeError(f"{module_name}.{name} is another object by now")


_CURES: tuple[tuple[tuple[type, ...], str], ...] = (
    (
        (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType),
        "Use a class with __next__, which keeps its position in attributes",
    ),
    ((io.IOBase,), "Keep the path, leave the file out of __getstate__, and open it on first use"),
    ((types.ModuleType,), "Import the module where it is used"),
    (
        (weakref.ref, weakref.ProxyType, weakref.CallableProxyType),
        "Leave it out of __getstate__ and make it anew in __setstate__",
    ),
)


def _cure(thing: Any) -> str:
    if isinstance(thing, types.FunctionType):
        if thing.__name__ == "<lambda>":
            return "Write the lambda as a function with a name, at the top level of a module"
        return "Move the function to the top level of a module"
    if isinstance(thing, type):
        return "Move the class to the top level of a module"
    for types_, cure in _CURES:
        if isinstance(thing, types_):
            return cure
    module = type(thing).__module__.partition(".")[0]
    if module in ("h5py", "sqlite3", "_sqlite3"):
        return "Keep the path, leave the handle out of __getstate__, and open it on first use"
    return "Leave it out with __getstate__, and make it anew in __setstate__ or on first use"


def _defined(thing: Any) -> str:
    code = getattr(thing, "__code__", None) or getattr(thing, "gi_code", None)
    if isinstance(code, types.CodeType):
        return f"{code.co_filename}, line {code.co_firstlineno}"
    if isinstance(thing, type):
        return f"{thing.__module__}.{thing.__qualname__}"
    if isinstance(thing, io.IOBase):
        name = getattr(thing, "name", "")
        return name if isinstance(name, str) else ""
    return ""


def _describe(place: _Place, error: Exception) -> Offender:
    thing = place.thing
    cls = type(thing)
    kind = cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    if isinstance(error, RecursionError):
        reason = f"{cls.__qualname__} calls itself without end when asked for its state"
        cure = "A __getattr__ must raise AttributeError for names that begin with two underscores"
        return Offender(place.path, kind, _defined(thing), reason, cure)
    return Offender(place.path, kind, _defined(thing), str(error).rstrip("."), _cure(thing))
