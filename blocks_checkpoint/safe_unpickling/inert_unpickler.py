"""Look into a pickle of anything without importing or running what is in it.

Plain values and the training log come back as themselves; every other class
or function becomes an :class:`InertClass`, what was made or called with it an
:class:`Inert` object that only remembers what the pickle said. So the log can
be taken out of a main loop whose Blocks, Theano and devices are long gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..errors import CheckpointError
from .log_unpickler import LogVocabulary
from .pickle_machine import PickleMachine

__all__ = ["Inert", "InertClass", "load_inert"]


class InertClass:
    """The name of a class or function that was not imported.

    Attributes
    ----------
    name : str
        Dotted, with the module.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<inert {self.name[:200]}>"


class Inert:
    """What a pickle said of an object that was not made.

    Attributes
    ----------
    made_by : object
        The :class:`InertClass`, or what else was called.
    args : tuple
        What it was called with.
    state : object
        What the object's attributes were to become, usually a dictionary;
        None if the pickle gave it none.
    items : list
        What was appended or added, and pairs of key and value.
    """

    __slots__ = ("args", "items", "made_by", "state")

    def __init__(self, made_by: Any, args: tuple[Any, ...] = ()) -> None:
        self.made_by = made_by
        self.args = args
        self.state: Any = None
        self.items: list[Any] = []

    @property
    def class_name(self) -> str:
        """Dotted name of the class, as far as it can be told."""
        maker = self.made_by
        # ``copyreg`` makes objects of classes that it is given.
        if not isinstance(maker, InertClass) and self.args:
            maker = self.args[0]
        return maker.name if isinstance(maker, InertClass) else type(maker).__name__

    @property
    def attributes(self) -> dict[str, Any]:
        """The state, where it is a dictionary of attributes."""
        states = self.state if isinstance(self.state, tuple) else (self.state,)
        return {
            name: value
            for state in states
            if isinstance(state, dict)
            for name, value in state.items()
            if isinstance(name, str)
        }

    def __repr__(self) -> str:
        return f"<inert object of {self.class_name[:200]}>"


def load_inert(data: bytes, *, path: str | None = None, member: str | None = None) -> Any:
    """Read a pickle of anything.

    Parameters
    ----------
    data : bytes
        The pickle; of Python 2 or 3, any protocol.
    path, member : str, optional
        Where it is, for messages.

    Returns
    -------
    object
        A plain value, a log, or an :class:`Inert`.

    Raises
    ------
    HostileCheckpoint
        It asks for what no pickler writes.
    DamagedCheckpoint
        It is no pickle, or not a whole one.
    """
    try:
        return PickleMachine(data, _InertVocabulary()).load()
    except CheckpointError as error:
        error.path = error.path or path
        error.member = error.member or member
        raise


class _InertVocabulary(LogVocabulary):
    """Plain values and logs as they are, everything else inert."""

    def __init__(self) -> None:
        super().__init__()
        self._classes: dict[str, InertClass] = {}

    def find(self, module: str, name: str) -> Any:
        try:
            return super().find(module, name)
        except CheckpointError:
            dotted = f"{module}.{name}"
            return self._classes.setdefault(dotted, InertClass(dotted))

    def call(self, function: Any, args: tuple[Any, ...]) -> Any:
        if isinstance(function, (Inert, InertClass)):
            return Inert(function, args)
        try:
            return super().call(function, args)
        except (CheckpointError, *_WRONG_ARGUMENTS):
            return Inert(function, args)

    def new(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(cls, (Inert, InertClass)):
            return Inert(cls, args)
        return super().new(cls, args, kwargs)

    def build(self, thing: Any, state: Any) -> Any:
        if isinstance(thing, Inert):
            thing.state = state
            return thing
        if self._is_log(thing):
            return super().build(thing, state)
        try:
            return super().build(thing, state)
        except (CheckpointError, *_WRONG_ARGUMENTS):
            unbuilt = Inert(thing)
            unbuilt.state = state
            return unbuilt

    def extend(self, thing: Any, items: list[Any]) -> None:
        if isinstance(thing, Inert):
            thing.items.extend(items)
        else:
            super().extend(thing, items)

    def update(self, thing: Any, pairs: Iterable[tuple[Any, Any]]) -> None:
        if isinstance(thing, Inert):
            thing.items.extend(pairs)
        else:
            super().update(thing, pairs)

    def add(self, thing: Any, items: list[Any]) -> None:
        self.extend(thing, items)

    def key(self, key: Any) -> Any:
        # Hashed by its identity, an inert object costs nothing.
        if isinstance(key, (Inert, InertClass)):
            return key
        try:
            hash(self.allowance.key(key))
        except (CheckpointError, *_WRONG_ARGUMENTS):
            return Inert(key)
        return key

    def persistent(self, identity: Any) -> Any:
        return Inert(InertClass("persistent id"), (identity,))


#: What our own makers raise for arguments that they were not made for.
_WRONG_ARGUMENTS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def inert_values(log: dict[int, Any]) -> Iterator[Inert]:
    """Yield the records of a log that are inert objects."""
    for row in log.values():
        if isinstance(row, dict):
            yield from (value for value in row.values() if isinstance(value, Inert))
