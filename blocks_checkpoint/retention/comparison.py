"""Whether one recorded value is better than another."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["as_number", "is_better", "require_mode", "require_record"]


def as_number(value: Any) -> float | None:
    """Return a recorded value as a number, or None if it is none to compare."""
    if value is None or isinstance(value, (str, bytes, complex)) or getattr(value, "ndim", None):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return None if math.isnan(number) else number


def is_better(new: Any, best: Any, mode: str = "min") -> bool:
    """Tell whether a value is better than the best one so far.

    Parameters
    ----------
    new : object
        NaN, and what is no number, is better than nothing.
    best : object
        None, NaN, or anything that is no number, if there is none yet.
    mode : {'min', 'max'}
        Whether lower or higher is better. An equal value is no better.
    """
    require_mode("is_better", mode)
    value, before = as_number(new), as_number(best)
    if value is None or before is None:
        return value is not None
    return value < before if mode == "min" else value > before


def require_mode(what: str, mode: Any) -> None:
    """Refuse a mode that is neither ``min`` nor ``max``."""
    if mode not in ("min", "max"):
        raise ValueError(f"{what}: mode is {mode!r}; use 'min' or 'max'")


def require_record(what: str, record: Any) -> None:
    """Refuse what cannot be the name of a record."""
    if not isinstance(record, str) or not record:
        raise ValueError(f"{what}: record is {record!r}; give the name of a record in the log")
