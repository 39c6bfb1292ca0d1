"""Values as text that a terminal can be trusted with."""

from __future__ import annotations

from typing import Any

import numpy

__all__ = ["one_line", "printable", "readable_bytes", "readable_dtype", "readable_shape"]


def printable(text: str) -> str:
    r"""Escape what would steer a terminal: names come from strangers' files.

    Examples
    --------
    >>> print(printable("W\x1b[2J"))
    W\x1b[2J
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def one_line(text: str) -> str:
    """Return text as one printable line."""
    return printable(" ".join(text.split()))


def readable_bytes(number: int | None) -> str:
    """Write a size with a unit that leaves one to four digits.

    Examples
    --------
    >>> readable_bytes(999), readable_bytes(52_480), readable_bytes(None)
    ('999 B', '52.5 kB', '?')
    """
    if number is None:
        return "?"
    if number < 1000:
        return f"{number} B"
    size = float(number)
    for unit in ("kB", "MB", "GB"):
        size /= 1000
        if size < 999.95:
            return f"{size:.1f} {unit}"
    return f"{size / 1000:.1f} TB"


def readable_shape(shape: tuple[Any, ...]) -> str:
    """Write a shape as ``100 × 10``, and that of a single number as such."""
    return " × ".join(map(str, shape)) if shape else "scalar"


def readable_dtype(dtype: str) -> str:
    """Write a type of this machine's byte order as numpy calls it.

    Examples
    --------
    >>> readable_dtype("<f8"), readable_dtype(">f8"), readable_dtype("bfloat16")
    ('float64', '>f8', 'bfloat16')
    """
    try:
        found = numpy.dtype(dtype)
    except TypeError:
        return dtype
    return found.name if found.isnative and found.kind in "biufc" else dtype
