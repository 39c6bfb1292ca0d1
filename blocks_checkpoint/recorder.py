"""What a run does, batch by batch, as digests."""

from __future__ import annotations

from typing import Any

import numpy as np

from .extensions.base import SimpleExtension
from .extensions.checkpoint import Checkpoint
from .parameters import loop_variables
from .replay import _digest

__all__ = ["Enough", "Recorder"]


#: Between two batches, in this order. At all that come in a row the counts may
#: be the same.
_BETWEEN = ("after_batch", "after_epoch", "before_epoch", "before_batch")


class Enough(BaseException):
    """Ends a run at once; no extension hears of it."""


class Recorder(SimpleExtension):
    """Takes down each batch and the shared variables after it, and ends the run.

    Parameters
    ----------
    batches : int, optional
        End after so many.
    until : sequence of int, optional
        End when so many iterations and epochs are done.
    event : str, optional
        With ``until``: the event at which to end. A run that ended there is
        made to end. By default the first.

    Attributes
    ----------
    rows : list of dict
        ``iteration``; digests by source in ``batch``, by name in ``variable``.
    """

    def __init__(
        self, batches: int | None = None, until: Any = None, event: str | None = None
    ) -> None:
        super().__init__(**dict.fromkeys((*_BETWEEN, "on_interrupt", "after_training"), True))
        self.batches = batches
        self.until = None if until is None else list(until)
        self.event = event
        self.rows: list[dict[str, Any]] = []
        self._variables: dict[str, Any] = {}

    def join(self, main_loop: Any) -> None:
        """Become the last extension of a main loop, which no longer saves anything."""
        main_loop.extensions = _without_savers(main_loop.extensions)
        variables, names = loop_variables(main_loop)
        self._variables = {each.name: var for each, var in zip(names, variables)}
        self.main_loop = main_loop
        main_loop.extensions.append(self)

    def values(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the present values of the shared variables, by name."""
        found = {name: np.asarray(var.get_value()) for name, var in self._variables.items()}
        return {name: value for name, value in found.items() if not value.dtype.hasobject}

    def do(self, which_callback: Any, *args: Any) -> None:
        """Take down what there is; end the run if it is enough."""
        status, event = self.main_loop.status, str(which_callback)
        if event == "after_batch":
            self.rows.append(
                {
                    "iteration": status["iterations_done"],
                    "batch": {str(name): _digest(value) for name, value in args[0].items()},
                    "variable": {name: _digest(value) for name, value in self.values().items()},
                }
            )
        if self.until == [status["iterations_done"], status["epochs_done"]]:
            self._go_on_to_event(event)
        if self.batches is not None and len(self.rows) >= self.batches:
            raise Enough

    def _go_on_to_event(self, event: str) -> None:
        """End the run at the event that is meant; the counts are right by now."""
        is_after = event in _BETWEEN[:2]
        if is_after and self.event == "on_interrupt":
            self.main_loop.status["batch_interrupt_received"] = True
        elif is_after and self.event == "after_training":
            self.main_loop.log.current_row["training_finish_requested"] = True
        elif self.event not in _BETWEEN or event not in _BETWEEN[: _BETWEEN.index(self.event)]:
            raise Enough


def _without_savers(extensions: Any) -> list[Any]:
    kept = []
    for extension in extensions:
        if isinstance(extension, Checkpoint):
            continue
        parts = getattr(extension, "sub_extensions", None)
        if parts:
            extension.sub_extensions = _without_savers(parts)
        kept.append(extension)
    return kept
