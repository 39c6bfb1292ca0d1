"""How much work a pickle may ask for, measured by its length.

Some of what a pickle can write in a few bytes is work: copying a list that is
already there, hashing a nested key. Repeated, a file of a megabyte keeps a
processor busy for days. What such work costs is taken from an allowance here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..errors import HostileCheckpoint

__all__ = ["MAX_PLAIN_INTEGER", "PLAIN_KEYS", "Allowance", "is_plain_key"]

#: Parts of one key that is a tuple or frozenset, those inside it included.
MAX_KEY_PARTS = 1000
#: Keys that are neither text nor plain numbers. Their hashes can be chosen to
#: collide, and a dictionary of colliding keys takes quadratic time.
MAX_UNUSUAL_KEYS = 10_000
#: Items and bytes copied, for each byte of the pickle, and beside that.
COPIES_PER_BYTE = 4
COPIES_ALWAYS = 1 << 16

#: Types of keys whose hashes cannot be made to collide in numbers ...
PLAIN_KEYS = frozenset((str, int, float, bool, bytes, type(None)))
#: ... as long as integers are not larger than this: then they have the hash
#: of smaller ones.
MAX_PLAIN_INTEGER = (1 << 61) - 2


def is_plain_key(key: Any) -> bool:
    """Tell whether a key is text or a number, of the kind whose hashes differ."""
    return type(key) in PLAIN_KEYS and not (type(key) is int and abs(key) > MAX_PLAIN_INTEGER)


class Allowance:
    """What one pickle may still spend."""

    def __init__(self) -> None:
        self._copies = COPIES_ALWAYS
        self._unusual_keys = MAX_UNUSUAL_KEYS

    def grant(self, size: int) -> None:
        """Allow what a pickle of that many bytes may ask for."""
        self._copies += COPIES_PER_BYTE * size

    def spend(self, count: int) -> None:
        """Pay for copying that many items or bytes.

        Raises
        ------
        HostileCheckpoint
            The allowance is used up.
        """
        self._copies -= count
        if self._copies < 0:
            raise HostileCheckpoint(
                f"the pickle has more than {COPIES_PER_BYTE} times its own length copied"
            )

    def key(self, key: Any) -> Any:
        """Pay for hashing an unusual key, and return it.

        Raises
        ------
        HostileCheckpoint
            There are too many of them, or it is nested beyond reason.
        """
        self._unusual_keys -= 1
        if self._unusual_keys < 0:
            raise HostileCheckpoint(
                f"more than {MAX_UNUSUAL_KEYS} keys are neither text nor plain numbers"
            )
        left = MAX_KEY_PARTS
        todo = [key]
        while todo:
            part = todo.pop()
            if isinstance(part, (tuple, frozenset)):
                left -= len(part)
                if left < 0:
                    raise HostileCheckpoint(f"a key is nested and has over {MAX_KEY_PARTS} parts")
                todo.extend(part)
            elif isinstance(part, slice):
                todo.append((part.start, part.stop, part.step))
        return key

    def keys(self, keys: Iterable[Any]) -> list[Any]:
        """Pay for hashing those keys that are unusual, and return all."""
        return [key if is_plain_key(key) else self.key(key) for key in keys]
