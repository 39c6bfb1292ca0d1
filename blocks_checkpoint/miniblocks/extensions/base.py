"""What an extension is: callbacks that a main loop calls as it trains."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from ..main_loop import MainLoop

__all__ = ["CallbackName", "TrainingExtension", "callback"]

Function = TypeVar("Function", bound=Callable[..., Any])


def callback(function: Function) -> Function:
    """Mark a method as one that the main loop calls by name."""
    function._is_callback = True  # type: ignore[attr-defined]
    return function


class TrainingExtension:
    """Base of all extensions: one method per event, each doing nothing.

    Parameters
    ----------
    name : str, optional
        What ``main_loop.find_extension`` finds it by; the class's name by
        default.
    """

    def __init__(self, name: str | None = None) -> None:
        self.name = name or type(self).__name__

    @property
    def main_loop(self) -> MainLoop:
        """The main loop that this extension belongs to."""
        try:
            loop: MainLoop = self.__dict__["_main_loop"]
        except KeyError:
            raise ValueError(f"extension {self.name} belongs to no main loop yet") from None
        return loop

    @main_loop.setter
    def main_loop(self, value: MainLoop) -> None:
        self._main_loop = value

    def dispatch(self, callback_name: str, *args: Any) -> None:
        """Call the method of that name; subclasses may decide otherwise."""
        getattr(self, str(callback_name))(*args)

    @callback
    def before_training(self) -> None:
        """Called once, before the algorithm is initialised."""

    @callback
    def on_resumption(self) -> None:
        """Called when a run starts that goes on from an earlier one."""

    @callback
    def before_epoch(self) -> None:
        """Called before the first batch of an epoch is asked for."""

    @callback
    def before_batch(self, batch: Any) -> None:
        """Called before a batch is processed."""

    @callback
    def after_batch(self, batch: Any) -> None:
        """Called after a batch was processed and counted."""

    @callback
    def after_epoch(self) -> None:
        """Called after an epoch was completed and counted."""

    @callback
    def on_interrupt(self) -> None:
        """Called when a signal has ended the run, before ``after_training``."""

    @callback
    def after_training(self) -> None:
        """Called when the run has ended without an error."""

    @callback
    def on_error(self, exception: BaseException) -> None:
        """Called when an error has ended the run; it is raised again afterwards."""


_CALLBACK_NAMES = frozenset(
    name
    for name, method in vars(TrainingExtension).items()
    if getattr(method, "_is_callback", False)
)


class CallbackName(str):
    """Name of a callback; refuses to be compared with what is none.

    A misspelt name in a condition would otherwise never be noticed: the
    condition would never come true.

    Raises
    ------
    TypeError
        On comparison with a string that names no callback.
    """

    def __eq__(self, other: object) -> bool:
        if other not in _CALLBACK_NAMES:
            raise TypeError(
                f"{other!r} is no callback; there are {', '.join(sorted(_CALLBACK_NAMES))}"
            )
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__
