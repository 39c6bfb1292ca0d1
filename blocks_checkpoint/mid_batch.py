"""A batch of a Blocks loop that was taken from the stream, and not trained on.

Blocks takes a batch and announces it (``before_batch``) before it trains. A
state that is saved then, or after an error, is one in which the batch is
next. The main loop of miniblocks keeps it so itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .extensions.base import SimpleExtension
from .miniblocks.iterator import PushedBack
from .resumption import is_blocks_loop

__all__ = ["Announced", "batch_is_next", "go_on_in_mid_batch"]


class Announced(PushedBack):
    """An epoch whose next batch the extensions have been told of.

    Attributes
    ----------
    main_loop : MainLoop or None
        The one that goes on with it.
    """

    main_loop: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "main_loop"}

    def __next__(self) -> Any:
        # What Blocks does next is to announce what it is given here.
        if self.main_loop is not None:
            main_loop, self.main_loop = self.main_loop, None
            main_loop.extensions = [_Told(main_loop, main_loop.extensions, self._iterator)]
        return super().__next__()


class _Told(SimpleExtension):
    """Stands for extensions that have seen ``before_batch`` already, until the event after it."""

    def __init__(self, main_loop: Any, extensions: Any, rest: Iterator[Any]) -> None:
        super().__init__()
        self.main_loop = main_loop
        self._extensions = list(extensions)
        self._rest = rest

    def dispatch(self, callback_name: Any, *args: Any) -> None:
        """Keep one event from them; pass on the next."""
        if str(callback_name) == "before_batch":
            return
        main_loop, present = self.main_loop, self.main_loop.extensions
        main_loop.epoch_iterator = self._rest
        # Blocks is going through this very list: what comes next for it is
        # the second of them.
        present[:] = self._extensions
        if present:
            present[0].dispatch(callback_name, *args)

    def do(self, which_callback: Any, *args: Any) -> None:
        """Do nothing: this extension has no conditions."""


@contextmanager
def batch_is_next(main_loop: Any, event: str, argument: Any) -> Iterator[None]:
    """Let the batch that a Blocks loop is at be the next one, while its state is saved.

    Parameters
    ----------
    main_loop : MainLoop
    event : str
    argument : object
        What came with it: the batch, or the error that ended training.
    """
    before: Any = getattr(main_loop, "epoch_iterator", None)
    given_back: PushedBack | None = None
    if is_blocks_loop(main_loop):
        if event == "before_batch":
            given_back = Announced(argument, before)
        elif event == "on_error" and isinstance(argument, BaseException):
            given_back = _after_error(main_loop, argument)
    if given_back is None:
        yield
        return
    main_loop.epoch_iterator = given_back
    try:
        yield
    finally:
        main_loop.epoch_iterator = before


def _after_error(main_loop: Any, error: BaseException) -> PushedBack | None:
    """Look in the traceback for the batch that an error kept from being trained on."""
    trace, rest = error.__traceback__, main_loop.epoch_iterator
    while trace is not None:
        frame, trace = trace.tb_frame, trace.tb_next
        if frame.f_code.co_name != "_run_iteration" or frame.f_locals.get("self") is not main_loop:
            continue
        if "batch" not in frame.f_locals:
            return None
        event = None
        if trace is not None and trace.tb_frame.f_code.co_name == "_run_extensions":
            event = trace.tb_frame.f_locals.get("method_name")
        if event == "after_batch":
            return None
        # Where not all have been told of it, all are told again.
        cls = PushedBack if event == "before_batch" else Announced
        return cls(frame.f_locals["batch"], rest)
    return None


def go_on_in_mid_batch(main_loop: Any) -> None:
    """Have a loaded Blocks loop not announce a batch a second time."""
    if is_blocks_loop(main_loop) and isinstance(main_loop.epoch_iterator, Announced):
        main_loop.epoch_iterator.main_loop = main_loop
