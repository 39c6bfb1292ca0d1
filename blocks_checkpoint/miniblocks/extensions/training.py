"""Following the best value, and changing a shared variable as training goes on."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from .simple import SimpleExtension

__all__ = ["SharedVariableModifier", "TrackTheBest"]


class SharedVariableModifier(SimpleExtension):
    """Set a shared variable, such as a learning rate, to what a function says.

    Parameters
    ----------
    parameter : shared variable
    function : callable
        Takes the number of iterations done and, if it has two parameters,
        the present value.
    num_args : int, optional
        1 or 2, where the function does not tell itself.
    **kwargs
        Triggers; after every batch by default.
    """

    def __init__(
        self,
        parameter: Any,
        function: Callable[..., Any],
        num_args: int | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("after_batch", True)
        super().__init__(**kwargs)
        self.parameter = parameter
        self.function = function
        self.num_args = num_args or len(inspect.signature(function).parameters)

    def do(self, which_callback: str, *args: Any) -> None:
        """Set it."""
        arguments = [self.main_loop.status["iterations_done"]]
        if self.num_args == 2:
            arguments.append(self.parameter.get_value())
        self.parameter.set_value(self.function(*arguments))


class TrackTheBest(SimpleExtension):
    """Write into the log when a record is better than ever before.

    The best value is kept in the status as ``best_<record name>``. Put this
    extension behind the one that makes the record.

    Parameters
    ----------
    record_name : str
        The record to follow.
    notification_name : str, optional
        What to write when it is the best; ``<record name>_best_so_far`` by default.
    choose_best : callable, optional
        Takes two values and returns the better one; ``min`` by default.
    **kwargs
        Triggers; after every epoch by default.
    """

    def __init__(
        self,
        record_name: str,
        notification_name: str | None = None,
        choose_best: Callable[[Any, Any], Any] = min,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("after_epoch", True)
        super().__init__(**kwargs)
        self.record_name = record_name
        self.notification_name = notification_name or f"{record_name}_best_so_far"
        self.best_name = f"best_{record_name}"
        self.choose_best = choose_best

    def do(self, which_callback: str, *args: Any) -> None:
        """Compare the current value with the best one."""
        log = self.main_loop.log
        value = log.current_row.get(self.record_name)
        best = log.status.get(self.best_name)
        # NaN is no better than anything, and differs from itself.
        if value is None or value != value:
            return
        if best is None or (value != best and self.choose_best(value, best) == value):
            log.status[self.best_name] = value
            log.current_row[self.notification_name] = True
