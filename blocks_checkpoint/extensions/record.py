"""What the log says of a save."""

from __future__ import annotations

from typing import Any

from ..retention.destination import Target

__all__ = ["SAVED_TO", "SAVE_ERROR", "SaveRecord"]

SAVED_TO = "saved_to"
SAVE_ERROR = "save_error"


class SaveRecord:
    """The record of one save in the row in which it began.

    Parameters
    ----------
    log : TrainingLog
    path : str or None

    Attributes
    ----------
    row : dict
    path : str or None
    """

    def __init__(self, log: Any, path: str | None) -> None:
        self.row = log.current_row
        self.path = path
        self._before: tuple[str | None, ...] = tuple(self.row.get(SAVED_TO, ()))
        self._target: Target | None = None

    def begin(self, target: Target) -> None:
        """Say where the state is going to be saved."""
        self._target = target
        target.begin()
        self.set_path(target.path)

    def set_path(self, path: str) -> None:
        """Say that it is saved there after all."""
        self.path = path
        self._set(path)

    def fail(self, error: BaseException) -> None:
        """Say that it was not saved, and why."""
        if self._target is not None:
            self._target.failed()
        self._set(None)
        self.row[SAVE_ERROR] = f"{type(error).__name__}: {error}"

    def forget(self) -> None:
        """Say nothing: the save was skipped."""
        if self._target is not None:
            self._target.failed()
        if self._before:
            self.row[SAVED_TO] = self._before
        else:
            self.row.pop(SAVED_TO, None)

    def _set(self, path: str | None) -> None:
        # Behind what other saves have recorded meanwhile, if any did.
        present = tuple(self.row.get(SAVED_TO, ()))
        place = len(self._before)
        self.row[SAVED_TO] = (*present[:place], path, *present[place + 1 :])
