"""Which checkpoints of a run to keep: decisions over a list, and nothing else.

No file is touched and no clock is read here. A policy says what it keeps;
:func:`why_kept` adds what must never go, whatever the policy; what is left
over is :func:`to_delete`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .comparison import as_number, require_mode, require_record

__all__ = [
    "KeepAll",
    "KeepAny",
    "KeepBest",
    "KeepEvery",
    "KeepFor",
    "KeepLast",
    "Policy",
    "Saved",
    "in_order",
    "to_delete",
    "why_kept",
]


@dataclass(frozen=True)
class Saved:
    """One checkpoint of a series, as policies see it.

    Attributes
    ----------
    path : str
        Compared letter by letter with the other paths that are given.
    iteration, epoch : int
        How many were done when it was saved.
    time : float or None
        When it was saved, in seconds since 1970; None if unknown.
    records : mapping of str to object
        The values recorded last.
    verified : bool or None
        True if every byte of it was checked, False if it is damaged, None if
        nobody looked.
    is_complete : bool
        False if the main loop had to be left out.
    """

    path: str
    iteration: int
    epoch: int = 0
    time: float | None = None
    records: Mapping[str, Any] = field(default_factory=dict)
    verified: bool | None = None
    is_complete: bool = True


def in_order(saves: Iterable[Saved]) -> list[Saved]:
    """Sort by recorded iteration, the oldest first.

    Those of one iteration are sorted by time, and in the end by path, so that
    the order never depends on the one they come in.
    """

    def key(save: Saved) -> tuple[Any, ...]:
        time = -math.inf if save.time is None else save.time
        return save.iteration, save.epoch, time, save.path

    return sorted(saves, key=key)


def _require_count(what: str, count: Any) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ValueError(f"{what} is {count!r}; use a whole number, 1 or more")


class Policy:
    """A rule that says which checkpoints of a series are kept.

    Rules are joined by ``|``: what any of them keeps is kept. ``str`` gives a
    rule in words.
    """

    def select(self, saves: Sequence[Saved], now: float) -> Iterable[Saved]:
        """Return what the rule keeps of ``saves``, which has the oldest first."""
        raise NotImplementedError

    def keep(self, saves: Iterable[Saved], now: float) -> set[str]:
        """Return the paths of what the rule keeps.

        Parameters
        ----------
        saves : iterable of Saved
            In any order.
        now : float
            Seconds since 1970.
        """
        return {save.path for save in self.select(in_order(saves), now)}

    def rules(self) -> tuple[Policy, ...]:
        """Return the single rules it is joined from."""
        return (self,)

    def reasons(self, saves: Iterable[Saved], now: float) -> dict[str, list[str]]:
        """Return which rules, in words, keep each path that is kept."""
        listed = list(saves)
        found: dict[str, list[str]] = {}
        for rule in self.rules():
            for path in sorted(rule.keep(listed, now)):
                found.setdefault(path, []).append(str(rule))
        return found

    def __or__(self, other: object) -> KeepAny:
        if not isinstance(other, Policy):
            return NotImplemented
        return KeepAny((*self.rules(), *other.rules()))


@dataclass(frozen=True)
class KeepAny(Policy):
    """Keep what any of several rules keeps; made by ``|``.

    Parameters
    ----------
    policies : tuple of Policy
    """

    policies: tuple[Policy, ...]

    def __post_init__(self) -> None:
        policies = tuple(self.policies)
        if not policies or not all(isinstance(policy, Policy) for policy in policies):
            raise ValueError(f"KeepAny: policies are {self.policies!r}; give one rule or more")
        object.__setattr__(self, "policies", policies)

    def rules(self) -> tuple[Policy, ...]:
        """Return the single rules it is joined from."""
        return tuple(rule for policy in self.policies for rule in policy.rules())

    def select(self, saves: Sequence[Saved], now: float) -> Iterable[Saved]:
        """Return what any of them keeps."""
        return [save for rule in self.policies for save in rule.select(saves, now)]

    def __str__(self) -> str:
        return " or ".join(map(str, self.policies))


@dataclass(frozen=True)
class KeepAll(Policy):
    """Keep everything."""

    def select(self, saves: Sequence[Saved], now: float) -> Iterable[Saved]:
        """Return all."""
        return saves

    def __str__(self) -> str:
        return "all"


@dataclass(frozen=True)
class KeepLast(Policy):
    """Keep the last ones, by iteration.

    Parameters
    ----------
    n : int
        How many. Those known to be damaged do not count.
    """

    n: int

    def __post_init__(self) -> None:
        _require_count("KeepLast: n", self.n)

    def select(self, saves: Sequence[Saved], now: float) -> Iterable[Saved]:
        """Return the last ``n``."""
        return _not_damaged(saves)[-self.n :]

    def __str__(self) -> str:
        return f"last {self.n}"


@dataclass(frozen=True)
class KeepBest(Policy):
    """Keep those with the best value of a record.

    Of equal values the one that was reached first is the best. NaN, and a
    checkpoint without the record, is never among them.

    Parameters
    ----------
    n : int
        How many. Those known to be damaged do not count.
    record : str
        Name of the record in the log.
    mode : {'min', 'max'}
        Whether lower or higher is better.
    """

    n: int
    record: str
    mode: str = "min"

    def __post_init__(self) -> None:
        _require_count("KeepBest: n", self.n)
        require_record("KeepBest", self.record)
        require_mode("KeepBest", self.mode)

    def select(self, saves: Sequence[Saved], now: float) -> Iterable[Saved]:
        """Return the best ``n``."""
        sign = 1 if self.mode == "min" else -1
        ranked = []
        for place, save in enumerate(_not_damaged(saves)):
            value = as_number(save.records.get(self.record))
            if value is not None:
                ranked.append((sign * value, place, save))
        return [save for _, _, save in sorted(ranked, key=lambda entry: entry[:2])[: self.n]]

    def __str__(self) -> str:
        return f"best {self.n} by {'lowest' if self.mode == 'min' else 'highest'} {self.record}"


@dataclass(frozen=True)
class KeepEvery(Policy):
    """Keep one in so many epochs, or iterations.

    It is the first one at, or after, each multiple: saves that come at other
    times, or more often, need no common measure with it.

    Parameters
    ----------
    epochs, iterations : int
        One of the two.
    """

    epochs: int | None = None
    iterations: int | None = None

    def __post_init__(self) -> None:
        if (self.epochs is None) is (self.iterations is None):
            raise ValueError("KeepEvery: give either epochs or iterations")
        unit, count = self._unit_and_count()
        _require_count(f"KeepEvery: {unit}", count)

    def _unit_and_count(self) -> tuple[str, Any]:
        if self.epochs is not None:
            return "epochs", self.epochs
        return "iterations", self.iterations

    def select(self, saves: Sequence[Saved], now: float) -> Iterable[Saved]:
        """Return the first of each stretch but that before the first multiple."""
        unit, count = self._unit_and_count()
        firsts: dict[int, Saved] = {}
        for save in _not_damaged(saves):
            done = save.epoch if unit == "epochs" else save.iteration
            if done >= count:
                firsts.setdefault(done // count, save)
        return firsts.values()

    def __str__(self) -> str:
        unit, count = self._unit_and_count()
        return f"every {count} {unit}"


@dataclass(frozen=True)
class KeepFor(Policy):
    """Keep what was saved not long ago.

    Parameters
    ----------
    hours : float
        For how long. One that was saved at an unknown time, or in what the
        clock says is the future, is kept.
    """

    hours: float

    def __post_init__(self) -> None:
        hours: Any = self.hours
        is_number = isinstance(hours, (int, float)) and not isinstance(hours, bool)
        if not is_number or not 0 < hours < math.inf:
            raise ValueError(f"KeepFor: hours is {self.hours!r}; use a number above 0")

    def select(self, saves: Sequence[Saved], now: float) -> Iterable[Saved]:
        """Return those that are younger."""
        oldest = now - self.hours * 3600
        return [save for save in saves if save.time is None or save.time >= oldest]

    def __str__(self) -> str:
        return f"for {self.hours:g} hours"


def _not_damaged(saves: Sequence[Saved]) -> list[Saved]:
    return [save for save in saves if save.verified is not False]


def why_kept(
    saves: Iterable[Saved],
    policy: Policy,
    now: float,
    *,
    protected: Collection[str] = (),
) -> dict[str, list[str]]:
    """Say of each checkpoint that is kept, why.

    Parameters
    ----------
    saves : iterable of Saved
        All that the series wrote, and nothing else, in any order.
    policy : Policy
    now : float
        Seconds since 1970.
    protected : collection of str
        Paths that are kept whatever the policy says.

    Returns
    -------
    dict of str to list of str
        The rules that keep a path, in words; then, whatever the rules say:
        ``newest``; ``last good`` (the newest that is not known to be damaged
        and has its main loop), if it is another one; ``last verified``, if
        it is yet another one; ``in use`` (protected); ``damaged`` (left to
        be looked at).
    """
    ordered = in_order(saves)
    good = [save for save in _not_damaged(ordered) if save.is_complete]
    newest, last_good = ordered[-1:], good[-1:]
    last_verified = [save for save in good if save.verified][-1:]
    always = {
        "newest": newest,
        "last good": [save for save in last_good if save not in newest],
        "last verified": [save for save in last_verified if save not in last_good],
        "in use": [save for save in ordered if save.path in protected],
        "damaged": [save for save in ordered if save.verified is False],
    }
    found = policy.reasons(ordered, now)
    for reason, kept in always.items():
        for save in kept:
            found.setdefault(save.path, []).append(reason)
    return found


def to_delete(
    saves: Iterable[Saved],
    policy: Policy,
    now: float,
    *,
    protected: Collection[str] = (),
) -> list[str]:
    """Return the paths of what may go, the oldest first.

    Takes what :func:`why_kept` takes. What is not in ``saves`` is never in
    the result; nor is the newest, the last good one, the last that was
    verified, one that is damaged, or one that is protected.
    """
    ordered = in_order(saves)
    kept = why_kept(ordered, policy, now, protected=protected)
    return [save.path for save in ordered if save.path not in kept]
