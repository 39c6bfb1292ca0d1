"""Noting signals while a main loop runs: whether a save is wanted, and since when.

A handler does nothing but note the time, and calls whoever handled the signal
before. The save comes at the next batch boundary, where the state is
consistent and nothing else is being saved.

A main loop has handlers of its own for SIGINT and SIGTERM, which end the run;
for these only the time is noted here.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterable
from types import FrameType
from typing import Any, Union

from .errors import CheckpointWarning

__all__ = ["SignalWatch", "seconds_since"]

Asked = Union[int, Iterable[int], None]

#: What main loops end the run at.
_OF_MAIN_LOOPS = ("SIGINT", "SIGTERM")
_IMPOSSIBLE = ("SIGKILL", "SIGSTOP")


class SignalWatch:
    """Knows whether a signal has come that asks for a save, and when.

    It can be pickled. Which signals ask for a save travels, under their names,
    since numbers differ between systems; what has come does not.

    Parameters
    ----------
    asked : signal.Signals, or iterable of them, optional
        The signals that ask for a save.

    Attributes
    ----------
    asked : tuple of str
        Their names.

    Raises
    ------
    ValueError
        A signal cannot be handled, or ends training, which saves already.
    """

    def __init__(self, asked: Asked = None) -> None:
        numbers = [] if asked is None else [asked] if isinstance(asked, int) else list(asked)
        self.asked = tuple(dict.fromkeys(map(_checked_name, numbers)))
        self._forget()

    def __getstate__(self) -> dict[str, Any]:
        return {"asked": self.asked}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.asked = tuple(state["asked"])
        self._forget()

    def _forget(self) -> None:
        self._pending: dict[str, float] = {}
        self._handlers: dict[str, _Handler] = {}
        self._run: FrameType | None = None
        self._has_warned = False

    def begin(self, main_loop: Any) -> None:
        """Handle signals from now on, as far as they are not handled already.

        Parameters
        ----------
        main_loop : MainLoop
            It is running. When its run is over, even if nobody has called
            `end`, signals are left to whoever handled them before.

        Warns
        -----
        CheckpointWarning
            A signal was asked for, and this is not the main thread.
        """
        if threading.current_thread() is not threading.main_thread():
            self._warn_of_thread()
            return
        run = _frame_of_run(main_loop)
        if run is not None and run is not self._run:
            # What came in a run before, that nothing has told the end of.
            self._pending.clear()
        self._run = run
        for name in dict.fromkeys((*self.asked, *_OF_MAIN_LOOPS)):
            number = _number(name)
            present = self._handlers.get(name)
            if number is None or (present is not None and present.is_in_place()):
                continue
            if name in self.asked or _is_of(main_loop, signal.getsignal(number)):
                self._handlers[name] = _Handler.of(number, self)

    def end(self) -> None:
        """Leave signals to whoever handled them before."""
        for handler in self._handlers.values():
            handler.forget(self)
        self._forget()

    def is_due(self) -> bool:
        """Tell whether a signal has come that asks for a save."""
        # Not the other way round: a dictionary that grows cannot be gone through.
        return any(name in self._pending for name in self.asked)

    def take(self) -> float | None:
        """Say that a save begins, which answers all signals that have come.

        Returns
        -------
        float or None
            When the first of them came, for `seconds_since`; None if there
            was none.
        """
        # One that comes from here on is for the next save.
        pending, self._pending = self._pending, {}
        return min(pending.values(), default=None)

    def note(self, number: int) -> None:
        """Note that a signal has come."""
        self._pending.setdefault(_name(number), time.monotonic())

    def concerns(self, frame: FrameType | None) -> bool:
        """Tell from the innermost frame whether the run goes on."""
        if self._run is None:
            return True
        while frame is not None and frame is not self._run:
            frame = frame.f_back
        return frame is not None

    def _warn_of_thread(self) -> None:
        if self.asked and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                "training does not run in the main thread, and only there can Python handle "
                f"signals: on_signal={', '.join(self.asked)} has no effect",
                CheckpointWarning,
                stacklevel=3,
            )


def seconds_since(moment: float) -> float:
    """Return how long ago it is that a signal came, as `SignalWatch.take` tells it."""
    return time.monotonic() - moment


def _frame_of_run(main_loop: Any) -> FrameType | None:
    """Return the frame in which a main loop runs, if this is called from within."""
    code = getattr(getattr(type(main_loop), "run", None), "__code__", None)
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame


def _is_of(main_loop: Any, handler: Any) -> bool:
    """Tell whether a main loop handles a signal, and not somebody else."""
    return main_loop is not None and getattr(handler, "__self__", None) is main_loop


# Names of signals


def _checked_name(number: int) -> str:
    name = _name(number)
    if name in _OF_MAIN_LOOPS:
        raise ValueError(
            f"on_signal: {name} ends training, and a Checkpoint saves when it does. To save and "
            "train on, send another signal, such as SIGUSR1"
        )
    if name in _IMPOSSIBLE or _number(name) is None:
        raise ValueError(f"on_signal: no program can handle the signal {name}")
    return name


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        # Most real-time signals have numbers only.
        return str(int(number))


def _number(name: str) -> int | None:
    if not name.isdigit():
        return getattr(signal, name, None)
    return int(name) if int(name) in signal.valid_signals() else None


# Handlers


class _Handler:
    """The handler of a signal, for however many watches there are.

    One for all of them: handlers that each restore what they found would have
    to go in the opposite order in which they came.
    """

    _present: dict[int, _Handler] = {}

    def __init__(self, number: int) -> None:
        self._number = number
        self._watches: list[SignalWatch] = []
        self._before: Any = signal.getsignal(number)

    @classmethod
    def of(cls, number: int, watch: SignalWatch) -> _Handler:
        """Return the handler that is in place, or put one there, for one more watch."""
        handler = cls._present.get(number)
        if handler is None or not handler.is_in_place():
            handler = cls._present[number] = cls(number)
        handler._watches.append(watch)
        signal.signal(number, handler.handle)
        return handler

    def is_in_place(self) -> bool:
        """Tell whether nobody has put another handler there since."""
        return signal.getsignal(self._number) == self.handle

    def forget(self, watch: SignalWatch) -> None:
        """Take a watch away, and with the last one the handler."""
        self._watches = [each for each in self._watches if each is not watch]
        if not self._watches:
            self._withdraw()

    def _withdraw(self) -> None:
        if self._present.get(self._number) is self:
            del self._present[self._number]
        if threading.current_thread() is threading.main_thread() and self.is_in_place():
            # None stands for a handler that was not set from Python, which
            # Python cannot set either.
            signal.signal(self._number, signal.SIG_DFL if self._before is None else self._before)

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Note the signal, and pass it on."""
        self._watches = [watch for watch in self._watches if watch.concerns(frame)]
        for watch in self._watches:
            watch.note(number)
        if not self._watches:
            self._withdraw()
        if callable(self._before):
            self._before(number, frame)
        elif not self._watches and self._before != signal.SIG_IGN:
            # Its default action, which is now in place again.
            os.kill(os.getpid(), number)
