"""The methods by which objects give and take their state, where they have any."""

from __future__ import annotations

from typing import Any

__all__ = ["STATE_DICT", "state_methods"]

#: Pairs of names: the first returns the state, the second takes it.
STATE_DICT = ("state_dict", "load_state_dict")
_PAIRS = (STATE_DICT, ("get_state", "set_state"))


def state_methods(thing: Any) -> tuple[str, str] | None:
    """Name the methods by which an object gives and takes its state, if it does.

    Give the class to leave out what hangs in the object alone.
    """
    for pair in _PAIRS:
        if all(callable(getattr(thing, name, None)) for name in pair):
            return pair
    return None
