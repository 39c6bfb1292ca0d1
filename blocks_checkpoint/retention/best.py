"""Saving only what is better than everything before."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from ..checkpoint_file import CheckpointFile
from ..errors import CheckpointError, CheckpointNotFound
from .comparison import as_number, is_better, require_mode, require_record
from .records import current_value

__all__ = ["BestSoFar", "recorded_in"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class BestSoFar:
    """Decides whether the state of a main loop is the best so far.

    The best value lives in the status of the log, as ``best_checkpoint_NAME``,
    and so goes on when a run does. What a file holds already counts as well:
    a run that has another log does not replace a better file either.

    Only a value in the current row counts. An older one was that of other
    parameters.

    Parameters
    ----------
    record : str
        Name of the record.
    mode : {'min', 'max'}
        Whether lower or higher is better.
    """

    record: str
    mode: str = "min"

    def __post_init__(self) -> None:
        require_record("only_if_best", self.record)
        require_mode("only_if_best", self.mode)

    @classmethod
    def of(cls, spec: str | tuple[Any, ...] | BestSoFar) -> BestSoFar:
        """Understand ``'valid_error'`` and ``('accuracy', 'max')``."""
        if isinstance(spec, BestSoFar):
            return spec
        if isinstance(spec, tuple) and len(spec) == 2:
            return cls(*spec)
        if isinstance(spec, str):
            return cls(spec)
        raise ValueError(
            f"only_if_best is {spec!r}; use the name of a record, or a tuple such as "
            "('accuracy', 'max')"
        )

    @property
    def key(self) -> str:
        """Where in the status the best value is."""
        return f"best_checkpoint_{self.record}"

    def is_due(self, log: Any, path: str | os.PathLike[str]) -> bool:
        """Tell whether to save.

        Parameters
        ----------
        log : TrainingLog
        path : str or os.PathLike
            Where to; what is there is looked at, without unpickling anything.
        """
        value = current_value(log, self.record)
        if not is_better(value, log.status.get(self.key), self.mode):
            return False
        there = recorded_in(path, self.record)
        if is_better(value, there, self.mode):
            return True
        logger.info("%s has %s %r, and is not replaced by %r", path, self.record, there, value)
        return False

    def note(self, log: Any) -> tuple[Any, Any]:
        """Put the current value into the status, before the log is saved.

        Returns
        -------
        tuple
            What was there and what is there now, for :meth:`take_back`.
        """
        status: MutableMapping[str, Any] = log.status
        before = status.get(self.key)
        status[self.key] = as_number(current_value(log, self.record))
        return before, status[self.key]

    def take_back(self, log: Any, noted: tuple[Any, Any]) -> None:
        """Undo :meth:`note`, after a save that failed.

        Unless a later save has noted a better value meanwhile.
        """
        before, value = noted
        if log.status.get(self.key) == value:
            log.status[self.key] = before

    def complain(self, records: Mapping[str, Any]) -> None:
        """Log an error if the record was never made: then nothing was ever saved.

        Parameters
        ----------
        records : mapping
            All that were, as :meth:`.LastRecords.update` returns them.
        """
        if self.record not in records:
            logger.error(
                "only_if_best: %r was never recorded, and nothing was saved. There are: %s",
                self.record,
                ", ".join(sorted(records)) or "none",
            )


def recorded_in(path: str | os.PathLike[str], record: str) -> Any:
    """Return the value of a record that a checkpoint has in its manifest.

    None if there is no such file; also, with a warning in the log, if what is
    there does not say.
    """
    try:
        with CheckpointFile(path) as there:
            records = there.manifest.get("records")
    except CheckpointNotFound:
        return None
    except (CheckpointError, OSError) as error:
        logger.warning("what is there cannot be compared: %s", error)
        return None
    value = records.get(record) if isinstance(records, dict) else None
    if as_number(value) is None:
        logger.warning("%s has no value of %s to compare with", os.fspath(path), record)
        return None
    return value
