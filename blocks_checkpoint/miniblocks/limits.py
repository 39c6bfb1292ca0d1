"""When a run is to end, and whether one that has ended may go on.

An extension that can end a run says under which conditions through a method
``limits() -> list of Limit``. The limits in force when a run ended are kept in
its log, so that the next run can tell a loop that is merely started again
from one whose limit was raised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

__all__ = ["Limit", "Verdict", "decide", "describe", "limits_in_force"]


@dataclass(frozen=True)
class Limit:
    """One condition that ends a run.

    Attributes
    ----------
    description : str
        The same in every process that runs the same script.
    counter : {'epochs_done', 'iterations_done', None}
        What it counts; None for a condition that only its own code can judge.
    number : int
        The count at which it ends the run.
    """

    description: str
    counter: str | None = None
    number: int = 0

    def is_ahead(self, status: Mapping[str, Any]) -> bool:
        """Tell whether the count is still to be reached."""
        return self.counter is not None and status[self.counter] < self.number

    def is_reached(self, status: Mapping[str, Any]) -> bool:
        """Tell whether the count is reached here, no batch ago."""
        if self.counter is None or status[self.counter] != self.number:
            return False
        if self.counter == "iterations_done":
            return True
        # An epoch count stays the same all through the next epoch.
        return bool(status["_epoch_ends"][-1:] == [status["iterations_done"]])


class Verdict(Enum):
    """What a run that starts from a given state is to do."""

    TRAIN = "train"
    #: The limit is reached, and the extensions have not heard of it yet.
    FINISH = "finish"
    #: The run had ended before; nothing is left to do.
    FINISHED = "finished"


def decide(
    status: Mapping[str, Any],
    limits: Sequence[Limit],
    *,
    is_requested: bool,
    is_finished: bool,
    recorded: Sequence[str] | None,
) -> Verdict:
    """Decide whether a run that starts from this state may train.

    1. A finish that was requested stands while the limits are those it was
       requested under. Once they differ, the run goes on if a limit is still
       ahead, or if a limit was added that only its own code can judge. A
       request that was not carried out, because the process was killed
       first, is carried out now.
    2. Where the limits of the request are not known (the log was written by
       Blocks), it stands if one of the present limits is reached just here.
    3. Without a request, a limit that is reached just here ends the run: the
       state was saved after the batch, before the extension could ask. So
       does one that is passed, when no other is left.

    Parameters
    ----------
    status : mapping
        The log's status.
    limits : sequence of Limit
        Those now in force.
    is_requested : bool
        Whether a finish was requested after the last batch.
    is_finished : bool
        Whether the run has ended since, and the extensions have heard of it.
    recorded : sequence of str or None
        Descriptions of the limits in force when it was.
    """
    is_ahead = any(limit.is_ahead(status) for limit in limits)
    is_reached = any(limit.is_reached(status) for limit in limits)
    if is_requested:
        present = Counter(limit.description for limit in limits)
        if recorded is None:
            may_go_on = is_ahead and not is_reached
        else:
            added = present - Counter(recorded)
            may_go_on = present != Counter(recorded) and (
                is_ahead
                or any(limit.counter is None and limit.description in added for limit in limits)
            )
        if may_go_on:
            return Verdict.TRAIN
        return Verdict.FINISHED if is_finished else Verdict.FINISH
    is_open = is_ahead or any(limit.counter is None for limit in limits)
    if is_reached or (limits and not is_open):
        return Verdict.FINISH
    return Verdict.TRAIN


def describe(thing: Any) -> str:
    """Describe a predicate or an extension by what its script says of it.

    Modules are left out: the script is ``__main__`` in one process and an
    imported module in the next.
    """
    if isinstance(thing, partial):
        return describe(thing.func)
    if hasattr(thing, "__qualname__"):
        return str(thing.__qualname__)
    plain = {
        name: value
        for name, value in sorted(getattr(thing, "__dict__", {}).items())
        if isinstance(value, (str, int, float)) and not name.startswith("_")
    }
    settings = ", ".join(f"{name}={value!r}" for name, value in plain.items())
    return f"{type(thing).__qualname__}({settings})"


def limits_in_force(extensions: Iterable[Any]) -> list[Limit]:
    """Collect the limits of the extensions, those inside composites too."""
    found: list[Limit] = []
    for extension in extensions:
        if hasattr(type(extension), "limits"):
            found += extension.limits()
        found += limits_in_force(getattr(extension, "__dict__", {}).get("sub_extensions", ()))
    return found
