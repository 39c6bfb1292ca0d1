"""The saves that one ``Checkpoint`` makes in this process.

None of it is state of the training: what is under way, what went wrong, what it
took, and what can be used again by the next save.
"""

from __future__ import annotations

import logging
import os
from dataclasses import asdict, dataclass
from typing import Any

from ..background import BackgroundSaver
from ..cost import SaveCost
from ..errors import CheckpointError, SaveError
from ..main_module import script_of
from ..pickling.log_cache import LogCache
from ..proving import Prover
from ..retention.destination import Target
from ..saving import PreparedSave
from ..signals import seconds_since
from ..unpicklable import Searches
from ..zip_pickler import PicklerSettings
from .record import SaveRecord

__all__ = ["Save", "Saves", "log_failure"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Save:
    """A save that is prepared, and what becomes of it when it is written.

    Attributes
    ----------
    prepared : PreparedSave
    target : Target
        Where it goes; what is old there is removed afterwards.
    record : SaveRecord
    protected : list of str
        Paths of files that are not to be removed.
    signalled : float or None
        When a signal asked for it.
    may_fail : bool
        Training goes on if it fails.
    """

    prepared: PreparedSave
    target: Target
    record: SaveRecord
    protected: list[str]
    signalled: float | None
    may_fail: bool


class Saves:
    """Writes prepared saves, while training waits or beside it.

    Parameters
    ----------
    background : BackgroundSaver or None
    prover : Prover or None
    record_cost : bool
        Write what each save took into the log.
    """

    def __init__(
        self, background: BackgroundSaver | None, prover: Prover | None, record_cost: bool
    ) -> None:
        self._background = background
        self._prover = prover
        self._record_cost = record_cost
        # Of the log as it was saved last.
        self._log_cache = LogCache()
        self._searches = Searches()
        # The thread that writes adds to these, and training takes from them: it
        # alone changes the log.
        self._failed: list[tuple[Save, Exception]] = []
        self._costs: list[tuple[SaveRecord, SaveCost]] = []
        self._answered: list[tuple[SaveRecord, float]] = []
        self._to_raise: list[Exception] = []
        self._cost_before: SaveCost | None = None
        self._cost_now: SaveCost | None = None

    def settings(self, protocol: int) -> PicklerSettings:
        """Return how to pickle the next save, with what is left of those before it."""
        return PicklerSettings(protocol, log_cache=self._log_cache, searches=self._searches)

    def write(self, save: Save) -> None:
        """Write a save, or have it written.

        Raises
        ------
        SaveError
            It could not be written while training waited. What goes wrong
            beside it is logged at once, since nobody may ever ask, and raised
            by :meth:`raise_failure`, unless the save may fail.
        """
        self._cost_now = save.prepared.snapshot.cost
        if self._background is None:
            self._finish(save)
            return

        def job() -> None:
            try:
                self._finish(save)
            except Exception as error:
                log_failure(error, save.record.path, training_goes_on=save.may_fail)
                self._failed.append((save, error))

        if not self._background.submit(job, save.record.forget):
            save.record.forget()

    def _finish(self, save: Save) -> None:
        """Commit, and tidy up; on any thread."""
        prepared, target, protected = save.prepared, save.target, save.protected
        try:
            prepared.commit()
        except SaveError:
            if prepared.failure is not None and os.path.exists(prepared.path):
                target.done(saved_to=prepared.path, protected=protected)
            raise
        if save.signalled is not None:
            self._answered.append((save.record, seconds_since(save.signalled)))
        target.done(protected=protected, is_verified=prepared.verify)
        self._cost_before = prepared.snapshot.cost
        if self._record_cost:
            self._costs.append((save.record, prepared.snapshot.cost))
        if self._prover is not None:
            script = script_of("__main__") or {}
            self._prover.start(prepared.path, main=script.get("script"))

    def wait(self) -> None:
        """Wait until everything is written."""
        if self._background is not None:
            self._background.wait()

    def record_failures(self) -> None:
        """Write into the training log what went wrong beside the training."""
        while self._failed:
            save, error = self._failed.pop(0)
            save.record.fail(error)
            if not save.may_fail:
                self._to_raise.append(error)

    def raise_failure(self) -> None:
        """Raise what was recorded since the last call and training must not survive, the first."""
        errors, self._to_raise = self._to_raise, []
        if errors:
            raise errors[0]

    def training_waited(self, seconds: float) -> None:
        """Add to the cost of the save made last how long training waited for it."""
        if self._cost_now is not None:
            self._cost_now.stall, self._cost_now = seconds, None

    def record_costs(self) -> None:
        """Write into the log what the saves took that are done, and how soon they were."""
        while self._costs:
            record, cost = self._costs.pop(0)
            # Another one may have begun in the same row.
            for name, seconds in cost.as_records().items():
                record.row[name] = record.row.get(name, 0.0) + seconds
        while self._answered:
            record, seconds = self._answered.pop(0)
            record.row["signal_to_saved_seconds"] = seconds

    def cost_of_save_before(self) -> dict[str, Any]:
        """Return what a manifest says of the save before.

        It cannot say how long the disk will take for the file that it is in.
        """
        before = self._cost_before
        return {} if before is None else {"cost_of_save_before": asdict(before)}


def log_failure(error: Exception, path: str | None, *, training_goes_on: bool = True) -> None:
    """Say that a save failed, and whether training goes on."""
    if isinstance(error, CheckpointError):
        shown = str(error) if error.path else f"{path}: {error}"
    else:
        shown = f"{type(error).__name__}: {error}"
    logger.error(
        "%s is not saved%s: %s", path, ", and training goes on" if training_goes_on else "", shown
    )
