"""How long training and reading take."""

from __future__ import annotations

from typing import Any

from .simple import SimpleExtension

__all__ = ["Timing"]

_COUNTERS = {"after_batch": ("batch", "iterations_done"), "after_epoch": ("epoch", "epochs_done")}


class Timing(SimpleExtension):
    """Write the seconds spent on training and on reading data into the log.

    Records ``time_initialization`` once, and per batch or epoch, whichever it
    is triggered by, ``time_train_this_epoch`` (the mean since the last time),
    ``time_train_total``, and the same for ``read_data``. Put it before the
    extensions that print.

    Parameters
    ----------
    prefix : str, optional
        Comes before the names of the records, with an underscore.
    **kwargs
        Triggers; before the first epoch and after every epoch by default.
    """

    def __init__(self, prefix: str = "", **kwargs: Any) -> None:
        kwargs.setdefault("before_first_epoch", True)
        kwargs.setdefault("after_epoch", True)
        super().__init__(**kwargs)
        self.prefix = f"{prefix}_" if prefix else ""
        #: By level, the count and the seconds per action when it last ran.
        self.previous: dict[str, tuple[int, dict[str, float]]] = {}
        self.add_condition(["on_resumption"])

    def do(self, which_callback: str, *args: Any) -> None:
        """Write the records of this batch or epoch."""
        log = self.main_loop.log
        total = self.main_loop.profile.total
        if which_callback == "before_epoch":
            log.current_row["time_initialization"] = total["initialization",]
            return
        if which_callback == "on_resumption":
            self._resume()
            return
        if which_callback not in _COUNTERS:
            raise ValueError(f"Timing can be triggered by batches and epochs, not {which_callback}")
        level, counter = _COUNTERS[str(which_callback)]
        seconds = self._seconds()
        count = log.status[counter]
        previous_count, previous_seconds = self.previous.get(
            level, (0, dict.fromkeys(seconds, 0.0))
        )
        if count == previous_count:
            # Two conditions were met at one event.
            return
        self.previous[level] = count, seconds
        for action, now in seconds.items():
            mean = (now - previous_seconds[action]) / (count - previous_count)
            log.current_row[f"{self.prefix}time_{action}_this_{level}"] = mean
            log.current_row[f"{self.prefix}time_{action}_total"] = now

    def _seconds(self) -> dict[str, float]:
        total = self.main_loop.profile.total
        return {action: total["training", "epoch", action] for action in ("train", "read_data")}

    def _resume(self) -> None:
        # In a newly built main loop the clock starts anew where the counters
        # do not; a mean over both would be too small.
        status = self.main_loop.log.status
        for level, counter in _COUNTERS.values():
            self.previous.setdefault(level, (status[counter], self._seconds()))
