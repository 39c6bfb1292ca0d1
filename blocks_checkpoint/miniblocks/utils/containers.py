"""Helpers for arguments that are one thing or several."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

__all__ = ["change_recursion_limit", "dict_subset", "pack", "unpack"]


def pack(arg: Any) -> list[Any]:
    """Return a list or tuple as a list, and anything else as a list of one."""
    return list(arg) if isinstance(arg, (list, tuple)) else [arg]


def unpack(arg: Any, singleton: bool = False) -> Any:
    """Return the only element of a list or tuple; anything else as it is.

    Parameters
    ----------
    arg : object
    singleton : bool, optional
        Refuse a list or tuple of any other length than one.

    Raises
    ------
    ValueError
        ``singleton`` is set and there is not exactly one element.
    """
    if not isinstance(arg, (list, tuple)):
        return arg
    if len(arg) == 1:
        return arg[0]
    if singleton:
        raise ValueError(f"expected one element, got {len(arg)}: {list(arg)!r}")
    return list(arg)


def dict_subset(mapping: Mapping[Any, Any], keys: Sequence[Any]) -> dict[Any, Any]:
    """Return the items with these keys, in the order of the keys.

    Raises
    ------
    KeyError
        A key is missing.
    """
    return {key: mapping[key] for key in keys}


@contextmanager
def change_recursion_limit(limit: int) -> Iterator[None]:
    """Let Python recurse at least so deep; never lowers a higher limit."""
    old_limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(old_limit, limit))
    try:
        yield
    finally:
        sys.setrecursionlimit(old_limit)
