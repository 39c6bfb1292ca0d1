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

__all__ = ["capture", "restore"]


def capture() -> bytes:
    """Write down the state of both generators without advancing them."""
    version, words, gauss = random.getstate()
    state = {
        "random": [version, list(words), gauss],
        "numpy.random": _to_json(np.random.get_state(legacy=False)),
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
        np.random.set_state(_from_json(state["numpy.random"]))
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedCheckpoint(
            f"this is not the state of random generators: {error}", member="random_state"
        ) from error


def _to_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _to_json(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return {"dtype": value.dtype.str, "values": value.tolist()}
    return value.item() if isinstance(value, np.generic) else value


def _from_json(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"dtype", "values"}:
            return np.array(value["values"], dtype=value["dtype"])
        return {key: _from_json(item) for key, item in value.items()}
    return value
