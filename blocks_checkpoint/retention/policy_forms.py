"""Policies in other forms: the shorthands of arguments, and plain values in a manifest."""

from __future__ import annotations

from typing import Any

from . import KeepAll, KeepAny, KeepBest, KeepEvery, KeepFor, KeepLast, Policy

__all__ = ["from_plain", "policy_of", "to_plain"]


def policy_of(
    keep: Policy | None = None,
    keep_last: int | None = None,
    keep_best: str | tuple[Any, ...] | KeepBest | None = None,
) -> Policy | None:
    """Join a policy and its shorthands.

    Parameters
    ----------
    keep : Policy, optional
    keep_last : int, optional
        Short for ``KeepLast(keep_last)``.
    keep_best : str, tuple or KeepBest, optional
        ``'valid_error'`` is short for ``KeepBest(1, 'valid_error')``; a tuple
        has the arguments of :class:`KeepBest`.

    Returns
    -------
    Policy or None
        None if nothing is given: then nothing is ever deleted.

    Raises
    ------
    ValueError
        One of them is of the wrong kind.
    """
    rules: list[Policy] = []
    if keep is not None:
        if not isinstance(keep, Policy):
            raise ValueError(f"keep is {keep!r}; use KeepLast(3), KeepBest(...) and their like")
        rules.append(keep)
    if keep_last is not None:
        rules.append(KeepLast(keep_last))
    if keep_best is not None:
        rules.append(_best_of(keep_best))
    if not rules:
        return None
    return rules[0] if len(rules) == 1 else KeepAny(tuple(rules))


def _best_of(spec: Any) -> KeepBest:
    if isinstance(spec, KeepBest):
        return spec
    if isinstance(spec, str):
        return KeepBest(1, spec)
    if isinstance(spec, tuple) and 2 <= len(spec) <= 3:
        return KeepBest(*spec)
    raise ValueError(
        f"keep_best is {spec!r}; use the name of a record, or a tuple such as "
        "(2, 'valid_error', 'min')"
    )


_RULES: dict[str, type[Policy]] = {
    rule.__name__: rule for rule in (KeepAll, KeepBest, KeepEvery, KeepFor, KeepLast)
}


def to_plain(policy: Policy | None) -> list[dict[str, Any]]:
    """Write a policy as plain values, for a manifest. Rules of a user's own are left out."""
    return [
        {"rule": type(rule).__name__, **vars(rule)}
        for rule in (policy.rules() if policy else ())
        if _RULES.get(type(rule).__name__) is type(rule)
    ]


def from_plain(plain: Any) -> Policy | None:
    """Read back what :func:`to_plain` wrote; None if it is anything else."""
    try:
        rules = []
        for row in plain:
            arguments = dict(row)
            rules.append(_RULES[arguments.pop("rule")](**arguments))
        return KeepAny(tuple(rules)) if len(rules) > 1 else rules[0]
    except (KeyError, IndexError, TypeError, ValueError):
        return None
