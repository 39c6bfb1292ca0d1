"""How much of a checkpoint a new main loop can take: all, the state, the parameters.

Pure: which tier comes next, and what is lost by each step down.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .errors import CheckpointError

__all__ = ["TIERS", "Descent", "Tier", "descend"]


@dataclass(frozen=True)
class Tier:
    """How much is taken.

    Attributes
    ----------
    name : {'everything', 'state', 'parameters'}
    load_log, load_iteration_state, load_buffers : bool
        What is taken beside the parameters.
    loses : str
        What a run that goes on from here does not have, compared with the
        tier above.
    """

    name: str
    load_log: bool
    load_iteration_state: bool
    load_buffers: bool
    loses: str


#: From the most to the least.
TIERS = (
    Tier("everything", True, True, True, ""),
    Tier(
        "state",
        True,
        False,
        True,
        "the place in the data and the random generators: the present epoch begins anew, with "
        "other random numbers",
    ),
    Tier(
        "parameters",
        False,
        False,
        False,
        "the log, the counts of epochs and iterations, and the optimiser's buffers: training "
        "begins anew from these parameters",
    ),
)


@dataclass
class Descent:
    """Which tier was reached, and why none above it.

    Attributes
    ----------
    tier : Tier
    refused : list of (Tier, CheckpointError)
        Those above, each with the reason.
    """

    tier: Tier
    refused: list[tuple[Tier, CheckpointError]] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether nothing was lost."""
        return not self.refused

    def describe(self) -> str:
        """Say which tier was reached, and what was lost at each step down."""
        lines = [f"loaded the tier {self.tier.name!r}"]
        below = list(TIERS[1 : 1 + len(self.refused)])
        for (tier, error), lower in zip(self.refused, below):
            lines.append(f"not {tier.name!r}, because {error}; lost is {lower.loses}")
        return "".join(f"\n  - {line}" if number else line for number, line in enumerate(lines))


def descend(attempt: Callable[[Tier], Any]) -> tuple[Any, Descent]:
    """Try one tier after another until one can be had.

    Parameters
    ----------
    attempt : callable
        Takes a tier, and changes nothing if it raises an error.

    Returns
    -------
    object
        What the attempt returned that was successful.
    Descent

    Raises
    ------
    CheckpointError
        That of the last attempt, if none was.
    """
    refused: list[tuple[Tier, CheckpointError]] = []
    for tier in TIERS[:-1]:
        try:
            return attempt(tier), Descent(tier, refused)
        except CheckpointError as error:
            refused.append((tier, error))
    return attempt(TIERS[-1]), Descent(TIERS[-1], refused)
