"""The global generators of ``random``, ``numpy.random`` and PyTorch, as JSON.

JSON rather than a pickle: this member can be read from a file one does not
trust.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import DamagedCheckpoint
from . import torch_random

__all__ = ["beside", "capture", "from_json", "restore", "to_json"]

#: What the states of NumPy's bit generators are made of.
_WORDS = ("<u4", "<u8", ">u4", ">u8")
_SOURCES = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
#: How far the positions in them go. NumPy reads wherever a state says.
_LAST_POSITIONS = {"pos": 624, "buffer_pos": 4}


def capture(
    variables: Mapping[str, Any] | None = None, held: Sequence[Mapping[str, Any]] = ()
) -> bytes:
    """Write down the states of the generators without advancing them.

    PyTorch's is among them where the program has imported it.

    Parameters
    ----------
    variables : mapping of str to dict, optional
        States of the generators that shared variables have for a value.
    held : sequence of dict
        Places and states of those that a main loop has apart from its data
        stream. Both are written down beside.
    """
    version, words, gauss = random.getstate()
    state: dict[str, Any] = {
        "random": [version, list(words), gauss],
        "numpy.random": to_json(np.random.get_state(legacy=False)),
    }
    of_torch = torch_random.default_generator()
    if of_torch is not None:
        state["torch"] = torch_random.state_of(of_torch)
    if variables:
        state["variables"] = dict(variables)
    if held:
        state["held"] = list(held)
    return json.dumps(state).encode()


def beside(encoded: bytes) -> tuple[dict[str, Any], list[Any]]:
    """Return what :func:`capture` wrote down beside the global generators.

    Raises
    ------
    DamagedCheckpoint
        It is not of the kind that is written there.
    """
    try:
        state = json.loads(encoded)
        return dict(state.get("variables", {})), list(state.get("held", ()))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedCheckpoint(
            f"this is not the state of random generators: {error}", member="random_state"
        ) from error


def restore(encoded: bytes) -> None:
    """Put the generators into a state that :func:`capture` wrote down.

    PyTorch's is left alone in a process that has not imported it.

    Raises
    ------
    DamagedCheckpoint
        It is not such a state. No generator has changed then, or only the
        first ones.
    """
    try:
        state = json.loads(encoded)
        version, words, gauss = state["random"]
        random.setstate((version, tuple(words), gauss))
        _restore_numpy(from_json(state["numpy.random"]))
        of_torch = torch_random.default_generator()
        if "torch" in state and of_torch is not None:
            torch_random.put_state(of_torch, state["torch"])
    except (
        *(ValueError, TypeError, LookupError, OverflowError),
        *(RecursionError, AttributeError),
    ) as error:
        raise DamagedCheckpoint(
            f"this is not the state of random generators: {error}", member="random_state"
        ) from error


def _restore_numpy(state: dict[str, Any]) -> None:
    name = state["bit_generator"]
    present = np.random.get_state(legacy=False)["bit_generator"]
    # From NumPy 1.24 on, a program can have the global functions draw from
    # another source.
    if name != present and name in _SOURCES and hasattr(np.random, "set_bit_generator"):
        source: Any = np.random
        before = source.get_bit_generator()
        source.set_bit_generator(getattr(source, name)(0))
        try:
            np.random.set_state(state)
        except BaseException:
            source.set_bit_generator(before)
            raise
    else:
        np.random.set_state(state)


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
