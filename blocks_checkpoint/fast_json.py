"""JSON of many rows, by the fastest library that is installed.

The manifest has a row for each array. Of ten thousand, the ``json`` of Python
makes the text in 14 ms and parses it in 9; ``orjson`` takes 1 and 4. It is used
if it can be imported, and left where the two would not do the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

orjson: Any
try:
    import orjson
except ImportError:  # It is for CPython only.
    orjson = None

__all__ = ["loads", "rows_to_json"]

# Of a number that 64 bits may not hold, orjson makes a float.
_LONG = b"0" * 19
_DIGITS_TO_ZERO = bytes(ord("0") if chr(code) in "0123456789" else code for code in range(256))


def loads(encoded: bytes) -> Any:
    """Parse JSON as ``json.loads`` does.

    Raises
    ------
    ValueError, RecursionError
        As from there.
    """
    if orjson is not None and _LONG not in encoded.translate(_DIGITS_TO_ZERO):
        try:
            return orjson.loads(encoded)
        except ValueError:
            # There is a NaN in it, or an infinite number, a lone half of a
            # surrogate; or it is no JSON, and the other one says why in words
            # that do not depend on what is installed.
            pass
    return json.loads(encoded)


def rows_to_json(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Make JSON of rows in which there are no floats."""
    if orjson is not None:
        try:
            return bytes(orjson.dumps(rows))
        except TypeError:
            # A lone half of a surrogate, which UTF-8 cannot write; JSON can.
            pass
    return json.dumps(rows, check_circular=False).encode()
