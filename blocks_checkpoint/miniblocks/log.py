"""The training log: what happened, iteration by iteration."""

from __future__ import annotations

from collections import defaultdict
from numbers import Integral
from typing import Any
from uuid import UUID, uuid4

__all__ = ["BACKENDS", "TrainingLog"]


class TrainingLog(defaultdict[int, dict[str, Any]]):
    """A dictionary of rows, one per iteration, with a status beside it.

    ``log[time][name]`` is the record ``name`` made after ``time`` batches.
    A row that is asked for and not there is made, empty.

    Parameters
    ----------
    uuid : uuid.UUID, optional
        Identity of the log; a random one by default.

    Attributes
    ----------
    status : dict
        What is true now and bound to no iteration: ``iterations_done``,
        ``epochs_done``, ``_epoch_ends`` (iterations at which epochs ended),
        ``resumed_from`` (hexadecimal UUID of the log that this one goes on
        from), and whatever the main loop and extensions add.
    uuid : uuid.UUID
        Another one after each resumption.
    """

    def __init__(self, uuid: UUID | None = None) -> None:
        super().__init__(dict)
        self.uuid = uuid or uuid4()
        self.status: dict[str, Any] = {
            "iterations_done": 0,
            "epochs_done": 0,
            "_epoch_ends": [],
            "resumed_from": None,
        }

    @property
    def h_uuid(self) -> str:
        """Hexadecimal form of the UUID."""
        return self.uuid.hex

    @property
    def current_row(self) -> dict[str, Any]:
        """Row of the batch processed last."""
        return self[self.status["iterations_done"]]

    @property
    def previous_row(self) -> dict[str, Any]:
        """Row of the batch before the last."""
        return self[self.status["iterations_done"] - 1]

    @property
    def last_epoch_row(self) -> dict[str, Any]:
        """Row at which the last whole epoch ended."""
        return self[self.status["_epoch_ends"][-1]]

    def resume(self) -> None:
        """Take a new identity, and remember the old one as the origin."""
        self.status["resumed_from"] = self.h_uuid
        self.uuid = uuid4()

    def __getitem__(self, time: int) -> dict[str, Any]:
        return super().__getitem__(_checked(time))

    def __setitem__(self, time: int, row: dict[str, Any]) -> None:
        super().__setitem__(_checked(time), row)

    def __reduce__(self) -> tuple[Any, ...]:
        # The constructor takes no factory, unlike that of a defaultdict.
        return type(self), (), self.__dict__, None, iter(self.items())


def _is_row(time: Any) -> bool:
    return isinstance(time, Integral) and int(time) >= 0


def _checked(time: int) -> int:
    if not _is_row(time):
        raise ValueError(f"a row of the log is a non-negative integer, not {time!r}")
    return time


#: Kinds of log by the name that ``config.log_backend`` gives them.
BACKENDS = {"python": TrainingLog}
