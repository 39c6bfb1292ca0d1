"""Ending a run."""

from __future__ import annotations

from typing import Any

from ..limits import Limit, describe, limits_in_force
from .simple import Predicate, SimpleExtension

__all__ = ["FinishAfter", "request_finish"]


def request_finish(main_loop: Any) -> None:
    """Ask the main loop to end the run, and note under which limits.

    The note goes into the status under ``_finish``: the iteration, and the
    descriptions of the limits in force. See :mod:`~..limits`.
    """
    log = main_loop.log
    log.current_row["training_finish_requested"] = True
    log.status["_finish"] = (
        log.status["iterations_done"],
        [limit.description for limit in limits_in_force(main_loop.extensions)],
    )


class FinishAfter(SimpleExtension):
    """End the run when one of the conditions holds.

    A run that has ended trains nothing when it is started again, unless its
    limits were changed and one of them is still ahead.
    """

    def do(self, which_callback: str, *args: Any) -> None:
        """Request the end of the run."""
        request_finish(self.main_loop)

    def limits(self) -> list[Limit]:
        """List the conditions under which this extension ends a run."""
        if type(self).do is not FinishAfter.do:
            # A subclass with a judgement of its own: its triggers only say
            # when it looks.
            return [Limit(type(self).__qualname__)]
        return [_limit(event, predicate) for event, predicate, _ in self._conditions]


def _limit(event: str, predicate: Any) -> Limit:
    if isinstance(predicate, Predicate) and predicate.condition.startswith("after"):
        is_epochs = predicate.condition == "after_n_epochs"
        return Limit(
            f"{predicate.condition}={predicate.num}",
            "epochs_done" if is_epochs else "iterations_done",
            int(predicate.num),
        )
    return Limit(f"{event}: {describe(predicate)}")
