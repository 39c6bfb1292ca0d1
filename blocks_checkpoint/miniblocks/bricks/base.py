"""Bricks: parts of a model, each with its parameters and the parts it is made of."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, MutableSequence, Sequence
from functools import wraps
from typing import Any

from ..graph.annotations import Annotation, add_annotation
from ..graph.computation import is_variable
from ..roles import PARAMETER, add_role
from .application import Application, ApplicationCall, BoundApplication, application

__all__ = [
    "BRICK_DELIMITER",
    "Application",
    "ApplicationCall",
    "BoundApplication",
    "Brick",
    "NoneAllocation",
    "NoneInitialization",
    "application",
    "lazy",
]

BRICK_DELIMITER = "/"


class Brick(Annotation):
    """A part of a model.

    A brick is configured, then *allocated* (its parameters come into being),
    then *initialised* (they get values); a parent does for its children what
    is done to it, having pushed its configuration down to them before.
    Applying a brick allocates it.

    Parameters
    ----------
    name : str, optional
        By default that of the class, in lower case.
    children : sequence of Brick, optional

    Attributes
    ----------
    parents : list of Brick
    parameters : sequence of shared variables
        There once the brick is allocated.
    allocated, initialized : bool
    allocation_config_pushed, initialization_config_pushed : bool
    """

    #: Names of the arguments that allocation, or initialisation, needs.
    allocation_args: Sequence[str] = ()
    initialization_args: Sequence[str] = ()

    def __init__(self, name: str | None = None, children: Iterable[Brick] = ()) -> None:
        super().__init__()
        self.name = name or type(self).__name__.lower()
        self.parents: list[Brick] = []
        self.children = children or ()
        self.allocated = False
        self.allocation_config_pushed = False
        self.initialized = False
        self.initialization_config_pushed = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} at {id(self):#x}>"

    @property
    def children(self) -> Any:
        """The bricks that this one is made of."""
        return self._children

    @children.setter
    def children(self, value: Iterable[Brick]) -> None:
        self._children = _Children(self, value)

    @property
    def parameters(self) -> Any:
        """The brick's own parameters, without its children's."""
        return self._parameters

    @parameters.setter
    def parameters(self, value: Iterable[Any]) -> None:
        self._parameters = _Parameters(self, value)

    def allocate(self) -> None:
        """Make the parameters, after those of the children.

        Done again, it makes new ones, here and below.

        Raises
        ------
        ValueError
            Something in the configuration that is needed for it is not set.
        """
        self._require(self.allocation_args, NoneAllocation)
        if not self.allocation_config_pushed:
            self.push_allocation_config()
        for child in self.children:
            # One that is shared keeps what another parent has had it allocate.
            if self.allocated or not child.allocated:
                child.allocate()
        self.parameters = []
        self._allocate()
        self.allocated = True

    def initialize(self) -> None:
        """Give the parameters values, after those of the children.

        Raises
        ------
        ValueError
            Something in the configuration that is needed for it is not set.
        """
        self._require(self.initialization_args, NoneInitialization)
        if not self.allocated:
            self.allocate()
        if not self.initialization_config_pushed:
            self.push_initialization_config()
        for child in self.children:
            child.initialize()
        self._initialize()
        self.initialized = True

    def push_allocation_config(self) -> None:
        """Configure the children for allocation, and they theirs."""
        self._push_allocation_config()
        for child in self.children:
            child.push_allocation_config()
        self.allocation_config_pushed = True

    def push_initialization_config(self) -> None:
        """Configure the children for initialisation, and they theirs."""
        self._push_initialization_config()
        for child in self.children:
            child.push_initialization_config()
        self.initialization_config_pushed = True

    def get_dim(self, name: str) -> Any:
        """Return the dimension of an input or output of that name."""
        raise ValueError(f"brick {self.name} knows no dimension of {name}")

    def get_dims(self, names: Iterable[str]) -> list[Any]:
        """Return the dimensions of several inputs or outputs."""
        return [self.get_dim(name) for name in names]

    def get_unique_path(self) -> list[Brick]:
        """Return the bricks from the top of the hierarchy down to this one.

        Of several parents, the one whose name comes first in the alphabet
        counts, and of several of one name, the one that took it first.
        """
        if not self.parents:
            return [self]
        parent = min(self.parents, key=lambda brick: brick.name)
        return [*parent.get_unique_path(), self]

    def get_hierarchical_name(self, parameter: Any, delimiter: str = BRICK_DELIMITER) -> str:
        """Return the path of a parameter, as in ``/mlp/linear_0.W``."""
        path = delimiter.join(["", *(brick.name for brick in self.get_unique_path())])
        return f"{path}.{parameter.name}"

    def _allocate(self) -> None:
        """Fill ``parameters``; for subclasses."""

    def _initialize(self) -> None:
        """Give the parameters values; for subclasses."""

    def _push_allocation_config(self) -> None:
        """Set what children need for allocation; for subclasses."""

    def _push_initialization_config(self) -> None:
        """Set what children need for initialisation; for subclasses."""

    def _require(self, names: Iterable[str], unset: Any) -> None:
        missing = [name for name in names if getattr(self, name) is unset]
        if missing:
            raise ValueError(f"brick {self.name}: {', '.join(missing)} must be set first")


class _Annotating(MutableSequence):  # type: ignore[type-arg]
    """A list that lets its brick know what enters and leaves."""

    # Not a subclass of list: one would be filled before its attributes are
    # there when it is unpickled.
    def __init__(self, brick: Brick, items: Iterable[Any]) -> None:
        self.brick = brick
        self._items: list[Any] = []
        self.extend(items)

    def __repr__(self) -> str:
        return repr(self._items)

    def __eq__(self, other: object) -> bool:
        return list(self._items) == (list(other) if isinstance(other, Sequence) else other)

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:
        return self._items[index]

    def __setitem__(self, index: Any, item: Any) -> None:
        self._leave(self._items[index])
        self._enter(item)
        self._items[index] = item

    def __delitem__(self, index: Any) -> None:
        self._leave(self._items[index])
        del self._items[index]

    def insert(self, index: int, item: Any) -> None:
        self._enter(item)
        self._items.insert(index, item)

    def _enter(self, item: Any) -> None:
        """Note that an item is in the list."""

    def _leave(self, item: Any) -> None:
        """Note that an item is no longer in the list."""


class _Children(_Annotating):
    """Bricks that know their parent."""

    def _enter(self, item: Any) -> None:
        if item is not None:
            item.parents.append(self.brick)

    def _leave(self, item: Any) -> None:
        if item is not None:
            item.parents.remove(self.brick)


class _Parameters(_Annotating):
    """Variables that know their brick; a shared parameter stays with its first one."""

    def _enter(self, item: Any) -> None:
        if is_variable(item):
            add_role(item, PARAMETER)
            annotations = getattr(item.tag, "annotations", [])
            if not any(isinstance(annotation, Brick) for annotation in annotations):
                add_annotation(item, self.brick)


class _Unset:
    """Stands for an argument that may still be set as an attribute."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return self.name


NoneAllocation = _Unset("NoneAllocation")
NoneInitialization = _Unset("NoneInitialization")


def lazy(
    allocation: Sequence[str] = (), initialization: Sequence[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let arguments of a brick's ``__init__`` be set later, as attributes.

    Parameters
    ----------
    allocation, initialization : sequence of str, optional
        Arguments that only allocation, or initialisation, needs.
    """

    def decorate(init: Callable[..., None]) -> Callable[..., None]:
        @wraps(init)
        def lazy_init(self: Any, *args: Any, **kwargs: Any) -> None:
            self.allocation_args = [*self.allocation_args, *allocation]
            self.initialization_args = [*self.initialization_args, *initialization]
            given = inspect.signature(init).bind_partial(self, *args, **kwargs).arguments
            for name in allocation:
                if name not in given:
                    kwargs[name] = NoneAllocation
            for name in initialization:
                if name not in given:
                    kwargs[name] = NoneInitialization
            init(self, *args, **kwargs)

        return lazy_init

    return decorate
