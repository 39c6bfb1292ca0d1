"""Attributes that are loaded when asked for, and never pickled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["do_not_pickle_attributes"]

Class = TypeVar("Class", bound=type)


def do_not_pickle_attributes(*names: str) -> Callable[[Class], Class]:
    """Leave attributes out of the pickle; ``load`` sets them when next used.

    The decorated class has a method ``load`` that sets them all.

    Parameters
    ----------
    *names : str
        The attributes.

    Raises
    ------
    ValueError
        The class has no method ``load``.
    """

    def decorate(cls: Class) -> Class:
        if not hasattr(cls, "load"):
            raise ValueError(f"{cls.__name__} has no method load() to set {', '.join(names)}")
        for name in names:
            setattr(cls, name, _lazy_property(name))
        # Since Python 3.11 every class has a __getstate__; only one that a
        # class of the hierarchy defines says what its author wants.
        inherited = _defined_getstate(cls)

        hidden = {f"_{name}" for name in names}

        def getstate(self: Any) -> Any:
            state = inherited(self) if inherited else self.__dict__
            return {key: state[key] for key in state if key not in hidden}

        # setattr: to a type checker, the method of ``object`` is no variable.
        setattr(cls, "__getstate__", getstate)  # noqa: B010
        return cls

    return decorate


def _defined_getstate(cls: type) -> Callable[[Any], Any] | None:
    for base in cls.__mro__[:-1]:
        if "__getstate__" in vars(base):
            function: Callable[[Any], Any] = vars(base)["__getstate__"]
            return function
    return None


def _lazy_property(name: str) -> property:
    attribute = f"_{name}"

    def getter(self: Any) -> Any:
        if attribute not in self.__dict__:
            self.load()
        if attribute not in self.__dict__:
            raise ValueError(f"{type(self).__name__}.load() did not set {name}")
        return self.__dict__[attribute]

    def setter(self: Any, value: Any) -> None:
        self.__dict__[attribute] = value

    return property(getter, setter)
