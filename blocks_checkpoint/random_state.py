"""The global generators of ``random`` and ``numpy.random``, as JSON.

JSON rather than a pickle: this member can be read from a file one does not
trust.
"""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np

from .errors import DamagedCheckpoint

__all__ = ["capture", "from_json", "restore", "to_json"]

#: What the states of NumPy's bit generators are made of.
_WORDS = ("<u4", "<u8", ">u4", ">u8")
#: How far the positions in them go. NumPy reads wherever a state says.
_LAST_POSITIONS = {"pos": 624, "buffer_pos": 4}


def capture() -> bytes:
    """Write down the state of both generators without advancing them."""
    version, words, gauss = random.getstate()
    state = {
        "random": [version, list(words), gauss],
        "numpy.random": to_json(np.random.get_state(legacy=False)),
    }
    return json.dumps(state).encode()


def restore(encoded: bytes) -> None:
    """Put both generators into a state that :func:`capture` wrote down.

    Raises
    ------
    DamagedCheckpoint
        It is not such a state. Neither generator has changed then, or only
        the first.
    """
    try:
        state = json.loads(encoded)
        version, words, gauss = state["random"]
        random.setstate((version, tuple(words), gauss))
        np.random.set_state(from_json(state["numpy.random"]))
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError) as error:
        raise DamagedCheckpoint(
            f"this is not the state of random generators: {error}", member="random_state"
        ) from error


def to_json(value: Any) -> Any:
    """Return the state of a bit generator as JSON can hold it."""
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return {"dtype": value.dtype.str, "values": value.tolist()}
    return value.item() if isinstance(value, np.generic) else value


def from_json(value: Any) -> Any:
    """Return the state of a bit generator that :func:`to_json` made JSON of."""
    if isinstance(value, dict):
        if set(value) == {"dtype", "values"}:
            if value["dtype"] not in _WORDS:
                raise ValueError(f"its words are not of the dtype {value['dtype']!r:.20}")
            return np.array(value["values"], dtype=value["dtype"])
        for name, last in _LAST_POSITIONS.items():
            if name in value and not 0 <= value[name] <= last:
                raise ValueError(f"its position {value[name]} is beyond the state")
        return {key: from_json(item) for key, item in value.items()}
    return value
