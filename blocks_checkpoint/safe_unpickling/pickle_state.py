"""Where a running pickle stands: its bytes, its stack, its memo."""

from __future__ import annotations

import struct
from typing import Any

from ..errors import DamagedCheckpoint, HostileCheckpoint
from .allowance import MAX_PLAIN_INTEGER, PLAIN_KEYS, is_plain_key
from .vocabulary import Vocabulary

__all__ = ["PickleState"]

#: A set takes two hundred bytes of memory, and one in a pickle if it is empty.
#: There may be so many in any pickle, and one more for so many bytes.
SETS_ALWAYS = 10_000
BYTES_PER_SET = 8


class PickleState:
    """What the opcodes of a pickle work on.

    Parameters
    ----------
    data : bytes
    vocabulary : Vocabulary

    Attributes
    ----------
    position : int
        Of the next byte to be read.
    stack : list
    marks : list of int
        Heights of the stack at which marks were set.
    memo : dict
        What the pickle refers back to.
    """

    def __init__(self, data: bytes, vocabulary: Vocabulary) -> None:
        self.data = data
        self.size = len(data)
        self.position = 0
        self.vocabulary = vocabulary
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self._places: dict[int, int] = {}
        self._long_integers = False
        self._sets_left = SETS_ALWAYS + len(data) // BYTES_PER_SET

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        end = self.position + count
        if not 0 <= count <= self.size - self.position:
            raise DamagedCheckpoint(
                f"the pickle promises {count} bytes at byte {self.position}, and "
                f"{self.size - self.position} are left"
            )
        taken = self.data[self.position : end]
        self.position = end
        return taken

    def take_counted(self, width: struct.Struct) -> bytes:
        """Return as many bytes as the number before them says."""
        (count,) = width.unpack(self.take(width.size))
        return self.take(count)

    def line(self) -> bytes:
        """Return the next bytes up to a line feed."""
        end = self.data.find(b"\n", self.position)
        if end < 0:
            raise DamagedCheckpoint("the pickle ends in the middle of a line")
        line = self.data[self.position : end]
        self.position = end + 1
        return line

    def pop_to_mark(self) -> list[Any]:
        """Take everything above the latest mark off the stack."""
        mark = self.marks.pop()
        items = self.stack[mark:]
        del self.stack[mark:]
        return items

    def memoize(self, index: int) -> None:
        """Remember the object on top of the stack."""
        thing = self.stack[-1]
        if isinstance(thing, self.vocabulary.replaced):
            self._places[id(thing)] = index
        self.memo[index] = thing

    def set_items(self, thing: Any, items: list[Any]) -> None:
        """Set alternating keys and values."""
        if len(items) & 1:
            raise ValueError("a key has no value")
        keys = items[::2]
        if self._long_integers or not PLAIN_KEYS.issuperset(map(type, keys)):
            keys = self.checked(keys)
        if type(thing) is dict:
            thing.update(zip(keys, items[1::2]))
        else:
            self.vocabulary.update(thing, zip(keys, items[1::2]))

    def checked(self, keys: list[Any]) -> list[Any]:
        """Return the keys, with the unusual ones as the vocabulary wants them."""
        return [key if is_plain_key(key) else self.vocabulary.key(key) for key in keys]

    def replace(self, thing: Any, other: Any) -> None:
        """Put ``other`` where ``thing`` is: on top of the stack, and in the memo."""
        self.stack[-1] = other
        place = self._places.pop(id(thing), None)
        if place is not None:
            self.memo[place] = other

    def push_set(self, made: set[Any] | frozenset[Any]) -> None:
        """Push a set, unless there are more than any pickle of this length has."""
        self._sets_left -= 1
        if self._sets_left < 0:
            raise HostileCheckpoint("the pickle has more sets than bytes to fill them")
        self.stack.append(made)

    def push_integer(self, number: int) -> None:
        """Push an integer that may be a long one."""
        if abs(number) > MAX_PLAIN_INTEGER:
            self._long_integers = True
        self.stack.append(number)
