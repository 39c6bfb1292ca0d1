"""Ending a run that no longer gets better."""

from __future__ import annotations

import logging
from typing import Any

from ..limits import Limit
from .finishing import FinishAfter
from .predicates import OnLogRecord
from .simple import CompositeExtension
from .training import TrackTheBest

__all__ = ["EarlyStopping", "FinishIfNoImprovementAfter"]

logger = logging.getLogger(__name__)

_EPOCH_TRIGGERS = ("after_epoch", "every_n_epochs", "after_n_epochs")


class FinishIfNoImprovementAfter(FinishAfter):
    """End the run when there was no new best for so long.

    When the last one was is kept in the log's status, so that patience
    goes on from where it was when a run is resumed.

    Parameters
    ----------
    notification_name : str
        Record that says that there is a new best; see :class:`.TrackTheBest`.
    iterations, epochs : int, optional
        How long to wait for the next one; one of the two.
    patience_log_record : str, optional
        Record of how long it still waits; by default
        ``<notification name>_patience_epochs`` or ``..._iterations``.
    **kwargs
        Triggers; after every epoch by default.
    """

    def __init__(
        self,
        notification_name: str,
        iterations: int | None = None,
        epochs: int | None = None,
        patience_log_record: str | None = None,
        **kwargs: Any,
    ) -> None:
        if (iterations is None) == (epochs is None):
            raise ValueError("give either iterations or epochs to wait for")
        kwargs.setdefault("after_epoch", True)
        super().__init__(**kwargs)
        self.notification_name = notification_name
        self.iterations = iterations
        self.epochs = epochs
        unit = "epochs" if iterations is None else "iterations"
        self.patience_log_record = patience_log_record or f"{notification_name}_patience_{unit}"

    def limits(self) -> list[Limit]:
        """Describe the one condition under which it ends a run."""
        wait = (
            f"epochs={self.epochs}" if self.iterations is None else f"iterations={self.iterations}"
        )
        return [Limit(f"{type(self).__qualname__}({self.notification_name}, {wait})")]

    def do(self, which_callback: str, *args: Any) -> None:
        """Record the patience that is left, and end the run when it is used up."""
        log = self.main_loop.log
        key = f"_last_{self.notification_name}"
        counts = {name: log.status[name] for name in ("iterations_done", "epochs_done")}
        if log.current_row.get(self.notification_name):
            log.status[key] = counts
        last = log.status.get(key)
        if last is None:
            return
        counter = "epochs_done" if self.iterations is None else "iterations_done"
        wait = self.iterations or self.epochs or 0
        patience = wait - (counts[counter] - last[counter])
        log.current_row[self.patience_log_record] = patience
        if patience <= 0:
            super().do(which_callback, *args)


class EarlyStopping(CompositeExtension):
    """Follow a record, and end the run when it no longer gets better.

    Parameters
    ----------
    record_name : str
        The record to follow.
    checkpoint_extension : Checkpoint, optional
        Is told to save each new best as well. If the main loop does not have
        it, it becomes a part of this extension.
    checkpoint_filename : str, optional
        Where the best goes; needed with ``checkpoint_extension``.
    notification_name, choose_best : optional
        As for :class:`.TrackTheBest`.
    iterations, epochs : int, optional
        As for :class:`FinishIfNoImprovementAfter`.
    **kwargs
        Triggers of both parts; after every epoch by default.
    """

    def __init__(
        self,
        record_name: str,
        checkpoint_extension: Any = None,
        checkpoint_filename: str | None = None,
        notification_name: str | None = None,
        choose_best: Any = min,
        iterations: int | None = None,
        epochs: int | None = None,
        **kwargs: Any,
    ) -> None:
        if (checkpoint_extension is None) != (checkpoint_filename is None):
            raise ValueError("give both checkpoint_extension and checkpoint_filename, or neither")
        kwargs.setdefault("after_epoch", True)
        own = {"name": kwargs.pop("name")} if "name" in kwargs else {}
        tracking = TrackTheBest(record_name, notification_name, choose_best, **kwargs)
        stopping = FinishIfNoImprovementAfter(
            tracking.notification_name, iterations=iterations, epochs=epochs, **kwargs
        )
        super().__init__([tracking, stopping], before_training=True, **own)
        self.checkpoint_extension = checkpoint_extension
        if checkpoint_extension is not None:
            is_best = OnLogRecord(tracking.notification_name)
            # The record is made at the event at which the value is looked at;
            # a batch's is still there when the epoch ends.
            if any(kwargs.get(trigger) for trigger in _EPOCH_TRIGGERS):
                checkpoint_extension.add_condition(["after_epoch"], is_best, (checkpoint_filename,))
            checkpoint_extension.add_condition(["after_batch"], is_best, (checkpoint_filename,))

    def do(self, which_callback: str, *args: Any) -> None:
        """See to it that the checkpoint extension is called, and after this one."""
        checkpoint = self.checkpoint_extension
        if checkpoint is None:
            return
        extensions = list(self.main_loop.extensions)
        if checkpoint not in extensions:
            checkpoint.main_loop = self.main_loop
            self.sub_extensions.append(checkpoint)
        elif extensions.index(checkpoint) < extensions.index(self):
            logger.warning(
                "put %s behind %s in the list of extensions: now it is called before a new "
                "best is known, and will not save it",
                checkpoint.name,
                self.name,
            )
