"""Predicates for :meth:`.SimpleExtension.add_condition`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..log import TrainingLog

__all__ = ["OnLogRecord"]


class OnLogRecord:
    """Hold when the current row has a record of that name, and it is true.

    Parameters
    ----------
    record_name : str
    """

    def __init__(self, record_name: str) -> None:
        self.record_name = record_name

    def __call__(self, log: TrainingLog) -> bool:
        """Look at the current row."""
        return bool(log.current_row.get(self.record_name, False))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OnLogRecord) and other.record_name == self.record_name

    def __hash__(self) -> int:
        return hash(self.record_name)
