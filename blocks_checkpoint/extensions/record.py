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
        Where it was to be saved.
    """

    def __init__(self, log: Any, path: str | None) -> None:
        self.row = log.current_row
        self.path = path
        self._place = len(self.row.get(SAVED_TO, ()))
        self._is_set = False
        self._target: Target | None = None

    def begin(self, target: Target) -> None:
        """Say where the state is going to be saved."""
        self._target = target
        target.begin()
        self.path = target.path
        self._set(target.path)

    def set_path(self, path: str) -> None:
        """Say that it is saved there after all."""
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
        present, place = self._present()
        left = (*present[:place], *present[place + 1 :])
        if left:
            self.row[SAVED_TO] = left
        else:
            self.row.pop(SAVED_TO, None)

    def _set(self, path: str | None) -> None:
        present, place = self._present()
        self.row[SAVED_TO] = (*present[:place], path, *present[place + 1 :])
        self._is_set = True

    def _present(self) -> tuple[tuple[str | None, ...], int]:
        """Return what saves have recorded, and which place among them is that of this one.

        Others may have recorded something behind it meanwhile, and those before
        it may have been forgotten.
        """
        present = tuple(self.row.get(SAVED_TO, ()))
        return present, min(self._place, len(present) - 1) if self._is_set else len(present)
