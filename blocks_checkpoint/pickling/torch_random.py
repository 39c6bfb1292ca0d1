"""The random generators of PyTorch, where a program has imported it.

Data loaders of PyTorch draw the order of the data from them. This package does
not import PyTorch itself.
"""

from __future__ import annotations

import base64
import sys
from typing import Any

__all__ = ["default_generator", "generator_class", "new_generator", "put_state", "state_of"]


def _torch() -> Any:
    return sys.modules.get("torch")


def generator_class() -> type | None:
    """Return the class of PyTorch's generators, if there can be one in this process."""
    cls = getattr(_torch(), "Generator", None)
    return cls if isinstance(cls, type) else None


def default_generator() -> Any:
    """Return the generator of PyTorch's own functions; None where there is none."""
    return getattr(_torch(), "default_generator", None)


def new_generator(device: str) -> Any:
    """Make a generator of whatever seed."""
    return _torch().Generator(device)


def state_of(generator: Any) -> str:
    """Return the state of a generator as text. Nothing is drawn."""
    return base64.b64encode(generator.get_state().numpy().tobytes()).decode("ascii")


def put_state(generator: Any, text: str) -> None:
    """Put a generator into a state that :func:`state_of` returned.

    Raises
    ------
    ValueError
        It is none.
    """
    torch = _torch()
    # PyTorch looks at the words before it believes them.
    words = bytearray(base64.b64decode(text.encode("ascii"), validate=True))
    try:
        generator.set_state(torch.frombuffer(words, dtype=torch.uint8))
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"PyTorch does not take it: {error}") from error
