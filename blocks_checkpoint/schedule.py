"""When to save: decisions by the clock, without a clock.

A schedule is told the time, as a monotonic clock shows it, and says whether a
save is due. What it remembers are lengths of time, never readings of a clock:
it pickles, and goes on counting in another process where it left off.

::

    if schedule.is_due(now()):
        schedule.begin(now())
        ...                      # whatever keeps training waiting
        schedule.end(now())

Between ``begin`` and ``end`` it is as if the save were done already, so that
the schedule in the file is not due at once when it is loaded.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from numbers import Real
from typing import Any

__all__ = ["EveryNSeconds", "Overhead", "schedule_of"]

#: The next stall is expected to be the median of so many of the last: one
#: save on a busy disk is no reason to save rarely from now on.
_REMEMBERED = 3
#: Credit grows to so many times the expected stall.
_CARRIED = 1.5


class _Schedule:
    """Counts the seconds of training since the last save began."""

    def __init__(self) -> None:
        self.trained_seconds = 0.0
        self._seen: float | None = None
        self._began: float | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Another process has another clock.
        return {**self.__dict__, "_seen": None, "_began": None}

    def counted(self) -> dict[str, Any]:
        """Return what was counted, for a schedule of the same kind in another process."""
        return {"trained_seconds": self.trained_seconds}

    def go_on_from(self, counted: Mapping[str, Any]) -> None:
        """Go on counting from what another one has counted, as far as that means the same here."""
        self.trained_seconds = float(counted["trained_seconds"])

    def start(self, now: float) -> None:
        """Take note that training begins, if nothing was counted in this process yet."""
        if self._seen is None:
            self._seen = now

    def advance(self, now: float) -> float:
        """Take note of the time, and return the seconds since it was told last."""
        passed = 0.0 if self._seen is None else max(0.0, now - self._seen)
        self._seen = now
        self.trained_seconds += passed
        return passed

    def begin(self, now: float) -> None:
        """Take note that a save begins."""
        self.advance(now)
        self.trained_seconds = 0.0
        self._began = now

    def end(self, now: float) -> float:
        """Take note that training goes on, and return how long it was kept waiting.

        The seconds of the save itself are no training.
        """
        stall = 0.0 if self._began is None else max(0.0, now - self._began)
        self._seen, self._began = now, None
        return stall


class EveryNSeconds(_Schedule):
    """Save so many seconds of training after the last save began.

    Parameters
    ----------
    seconds : float
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = _positive("every_n_seconds", seconds)

    def is_due(self, now: float) -> bool:
        """Tell whether to save, now."""
        self.advance(now)
        return self.trained_seconds >= self.seconds


class Overhead(_Schedule):
    """Save as often as a share of the training time allows.

    Training time earns credit, stalls use it up. A save is due as soon as the
    credit pays for the stall that is to be expected; the very first at once,
    for its cost has to be found out. A stall that turns out longer than
    expected leaves a debt, and puts the next save off. Saves that come for
    other reasons are paid for in the same way, but leave no more of a debt
    than one stall.

    Parameters
    ----------
    max_overhead : float
        Share of training time that may be spent waiting for saves: 0.01 for a
        hundredth.
    at_least_every : float, optional
        Seconds of training after which to save whatever it costs.

    Attributes
    ----------
    credit_seconds : float
        What may be spent now; negative for a debt.
    expected_stall_seconds : float
        The median of the last three stalls.
    """

    def __init__(self, max_overhead: float, at_least_every: float | None = None) -> None:
        super().__init__()
        self.max_overhead = _positive("max_overhead", max_overhead)
        if self.max_overhead >= 1:
            raise ValueError(
                f"max_overhead is {max_overhead!r}; give a share below 1, 0.01 for a hundredth"
            )
        self.at_least_every = (
            None if at_least_every is None else _positive("at_least_every", at_least_every)
        )
        self.credit_seconds = 0.0
        self._stalls: list[float] = []
        self._charged = 0.0

    def counted(self) -> dict[str, Any]:
        """Return what was counted; the waiting for saves, too."""
        waiting = {"credit_seconds": self.credit_seconds, "stalls": self._stalls}
        return {**super().counted(), **waiting}

    def go_on_from(self, counted: Mapping[str, Any]) -> None:
        """Go on counting from what another one has counted, as far as that means the same here."""
        super().go_on_from(counted)
        self.credit_seconds = float(counted.get("credit_seconds", 0.0))
        self._stalls = [float(stall) for stall in counted.get("stalls", ())][-_REMEMBERED:]

    @property
    def expected_stall_seconds(self) -> float:
        """How long the next save is expected to keep training waiting."""
        return statistics.median_low(self._stalls) if self._stalls else 0.0

    @property
    def interval_seconds(self) -> float:
        """How much training lies before the next save, from now on."""
        missing = max(0.0, self.expected_stall_seconds - self.credit_seconds)
        interval = missing / self.max_overhead
        if self.at_least_every is not None:
            interval = min(interval, max(0.0, self.at_least_every - self.trained_seconds))
        return interval

    def advance(self, now: float) -> float:
        """Take note of the time; what has passed earns credit."""
        passed = super().advance(now)
        # What is left over counts for the next save, but not much of it: after
        # a long time without any, they would come one on the heels of another.
        earned = self.credit_seconds + self.max_overhead * passed
        most = _CARRIED * self.expected_stall_seconds
        self.credit_seconds = min(earned, max(self.credit_seconds, most))
        return passed

    def is_due(self, now: float) -> bool:
        """Tell whether to save, now."""
        self.advance(now)
        if self.at_least_every is not None and self.trained_seconds >= self.at_least_every:
            return True
        return self.credit_seconds >= self.expected_stall_seconds

    def begin(self, now: float) -> None:
        """Take note that a save begins, and charge what it is expected to cost."""
        super().begin(now)
        self._charged = self.expected_stall_seconds
        self.credit_seconds -= self._charged

    def end(self, now: float) -> float:
        """Take note of what it did cost."""
        was_begun = self._began is not None
        stall = super().end(now)
        if was_begun:
            self.credit_seconds -= stall - self._charged
            self._stalls = [*self._stalls, stall][-_REMEMBERED:]
            # A save that was cheaper than expected leaves credit, but not enough
            # for the next to come on its heels.
            most = (_CARRIED - 1) * self.expected_stall_seconds
            self.credit_seconds = min(max(self.credit_seconds, -max(self._stalls)), most)
        return stall

    def as_records(self) -> dict[str, float]:
        """Return what the next decision will rest on, as records of a log.

        Numbers, each by itself: a row with a dictionary in it would be pickled
        anew at each save.
        """
        return {
            "save_expected_stall_seconds": self.expected_stall_seconds,
            "save_credit_seconds": self.credit_seconds,
            "save_interval_seconds": self.interval_seconds,
        }


def _positive(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not float(value) > 0:
        raise ValueError(f"{name} is {value!r}; give a number above 0")
    return float(value)


def schedule_of(
    every_n_seconds: float | None, max_overhead: float | None, at_least_every: float | None
) -> EveryNSeconds | Overhead | None:
    """Return the schedule that these options of ``Checkpoint`` ask for.

    Raises
    ------
    ValueError
        They do not go together.
    """
    if every_n_seconds is not None and max_overhead is not None:
        raise ValueError("Checkpoint: give every_n_seconds or max_overhead, not both")
    if max_overhead is not None:
        return Overhead(max_overhead, at_least_every)
    if at_least_every is not None:
        raise ValueError("Checkpoint: at_least_every goes with max_overhead; see every_n_seconds")
    return None if every_n_seconds is None else EveryNSeconds(every_n_seconds)
