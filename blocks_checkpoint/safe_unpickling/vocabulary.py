"""What a pickle's names mean, and what may be done with its objects."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from typing import Any, Protocol

__all__ = ["Vocabulary", "shortened"]


class _Short(reprlib.Repr):
    """Writes a few words on an object, whatever the object.

    The ``repr`` of a tuple that holds another one twice, which holds a third
    one twice, and so on, is longer than any memory.
    """

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 2
        self.maxtuple = self.maxlist = self.maxdict = self.maxset = self.maxfrozenset = 4
        self.maxstring = 60

    def repr_int(self, x: int, level: int) -> str:
        return repr(x) if x.bit_length() <= 128 else f"<an integer of {x.bit_length()} bits>"

    def repr_instance(self, x: Any, level: int) -> str:
        # Classes and functions write their names, ours likewise.
        has_name = isinstance(x, type) or type(x).__module__.startswith(_OURS)
        return repr(x)[:80] if has_name else f"<{type(x).__name__}>"


_OURS = (
    "blocks_checkpoint.safe_unpickling.plain_values",
    "blocks_checkpoint.safe_unpickling.inert_unpickler",
)
_SHORT = _Short()


def shortened(thing: object, limit: int = 60) -> str:
    """Return a ``repr`` that is bounded in length, and in the time it takes."""
    text = _SHORT.repr(thing)
    return text if len(text) <= limit else text[: limit - 3] + "..."


class Vocabulary(Protocol):
    """What the names in a pickle mean, and what may be done with the objects.

    Attributes
    ----------
    replaced : tuple of types
        Objects that :meth:`build` may answer with another object. The machine
        then puts that one in the first one's place, in its memo too.
    """

    replaced: tuple[type, ...]

    def begin(self, size: int) -> None:
        """Take notice of a pickle of that many bytes."""

    def find(self, module: str, name: str) -> Any:
        """Return what a global name stands for."""

    def call(self, function: Any, args: tuple[Any, ...]) -> Any:
        """Call what :meth:`find` returned."""

    def new(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make an instance without initialising it."""

    def build(self, thing: Any, state: Any) -> Any:
        """Give an object its state; return it, or what takes its place."""

    def extend(self, thing: Any, items: list[Any]) -> None:
        """Append items to something that is no plain list."""

    def update(self, thing: Any, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Set items of something that is no plain dictionary."""

    def add(self, thing: Any, items: list[Any]) -> None:
        """Add items to something that is no plain set."""

    def key(self, key: Any) -> Any:
        """Return what is used for a key that is neither text nor a small number."""

    def persistent(self, identity: Any) -> Any:
        """Return the object of a persistent id."""
