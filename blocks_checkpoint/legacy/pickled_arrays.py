"""Shared variables inside a pickle, where no archive has them.

Blocks 0.0.1 saved a main loop as one pickle, and later versions do where they
are given no parameters to save apart. Read by the inert unpickler, such a
pickle tells each shared variable's value and name, and the bricks it hangs in;
nothing in it is imported or run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..archive import Damage
from ..errors import DamagedCheckpoint, HostileCheckpoint
from ..naming import numbered
from ..safe_unpickling.inert_unpickler import Inert, InertClass, load_inert

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

__all__ = ["PickledArrays"]

#: Bricks above one another. A chain that is longer has a ring in it.
MAX_BRICKS = 100
#: Words in the names of the roles that make a variable outside of bricks a
#: parameter, and of those that make one of a brick none.
_ROLES_OF_PARAMETERS = ("PARAMETER", "WEIGHT", "BIAS", "FILTER")
_ROLES_OF_OTHERS = ("POPULATION", "BUFFER", "HYPER")


class PickledArrays:
    """The values of the shared variables in a pickle, by name.

    Parameters
    ----------
    read : callable
        Returns the bytes of the pickle.
    path, member : str or None
        For messages.
    """

    def __init__(self, read: Callable[[], bytes], path: str | None, member: str | None) -> None:
        self._read = read
        self._path = path
        self._member = member

    @cached_property
    def _variables(self) -> dict[str, Inert]:
        root = load_inert(self._read(), path=self._path, member=self._member)
        # A compiled function may have clones of a variable; they have its value.
        by_value: dict[int, Inert] = {}
        for thing in _everything(root):
            value = _value(thing)
            if value is not None:
                by_value.setdefault(id(value), thing)
        found = list(by_value.values())
        return dict(zip(numbered([_name(variable) for variable in found]), found))

    def __iter__(self) -> Iterator[str]:
        return iter(self._variables)

    def is_parameter(self, name: str) -> bool:
        """Tell whether a variable is a parameter, by its brick and its roles."""
        tag = _attributes(self._variables[name]).get("tag")
        roles = [_word(role) for role in _items(_attributes(tag).get("roles"))]
        has_role = any(word in role for role in roles for word in _ROLES_OF_PARAMETERS)
        is_other = any(word in role for role in roles for word in _ROLES_OF_OTHERS)
        return (has_role or name.startswith("/")) and not is_other

    def header(self, name: str) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
        """Return dtype, shape and Fortran order of an array."""
        array = self.read_array(name)
        in_fortran_order = array.flags.f_contiguous and not array.flags.c_contiguous
        return array.dtype, array.shape, in_fortran_order

    def read_array(self, name: str) -> Array:
        """Return an array."""
        array = _value(self._variables[name])
        assert array is not None
        return array

    def verify(self, count: Callable[[int], object]) -> Iterator[Damage]:
        """Yield what keeps the pickle from being read, if anything."""
        try:
            count(sum(self.read_array(name).nbytes for name in self))
        except (DamagedCheckpoint, HostileCheckpoint) as error:
            yield Damage(error.member or "", error.message)


def _everything(root: Any) -> Iterator[Inert]:
    """Yield every inert object, in the order of a walk from the root."""
    seen: set[int] = set()
    todo = [root]
    while todo:
        thing = todo.pop()
        parts: Any = ()
        if isinstance(thing, Inert):
            parts = (thing.args, thing.state, thing.items)
        elif isinstance(thing, dict):
            parts = [*thing, *thing.values()]
        elif isinstance(thing, (list, tuple, set, frozenset)):
            parts = thing
        else:
            continue
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, Inert):
            yield thing
        todo.extend(reversed(list(parts)))


def _value(variable: Inert) -> Array | None:
    """Return the value of what is a shared variable, or None."""
    if not variable.class_name.endswith("SharedVariable"):
        return None
    storage = _attributes(_attributes(variable).get("container")).get("storage")
    value = storage[0] if isinstance(storage, list) and storage else None
    return value if type(value) is np.ndarray else None


def _name(variable: Inert) -> str:
    """Name a variable as a model of Blocks does."""
    attributes = _attributes(variable)
    tag = _attributes(attributes.get("tag"))
    own = tag.get("name") or attributes.get("name")
    own = own if isinstance(own, str) and own else "parameter"
    for annotation in _items(tag.get("annotations")):
        path = _path(annotation)
        if path:
            return f"/{'/'.join(path)}.{own}"
    return own


def _path(brick: Any) -> list[str]:
    """List the names of a brick and those above it, from the top."""
    path: list[str] = []
    while isinstance(brick, Inert) and len(path) < MAX_BRICKS:
        name = brick.attributes.get("name")
        # An annotation may also be the application of a brick, which has no
        # parents.
        if not isinstance(name, str) or "parents" not in brick.attributes:
            return []
        path.append(name)
        parents = _items(brick.attributes["parents"])
        brick = parents[0] if parents else None
    return path[::-1]


def _attributes(thing: Any) -> dict[str, Any]:
    return thing.attributes if isinstance(thing, Inert) else {}


def _items(thing: Any) -> list[Any]:
    if isinstance(thing, Inert):
        return thing.items
    return list(thing) if isinstance(thing, (list, tuple)) else []


def _word(role: Any) -> str:
    if isinstance(role, (Inert, InertClass)):
        name = role.class_name if isinstance(role, Inert) else role.name
        return name.rpartition(".")[2].upper()
    return str(role).upper() if isinstance(role, str) else ""
