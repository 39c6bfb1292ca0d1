"""The arrays of one save, by number.

While objects are pickled, every array met is given a number and nothing else
is decided (:meth:`ArrayTable.reference`), because an array is often reached
before the shared variable that owns it. When all pickles are written,
:meth:`ArrayTable.plan` looks at the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..engines import creation_number, identity
from .array_plan import Array, Entry, Plan, make_plan

__all__ = ["ArrayTable"]


class ArrayTable:
    """Numbers the arrays of one save.

    Parameters
    ----------
    chain : tuple of str
        Names of the pickles that are written, and read, one after another:
        what one of them has in its pool, those behind it may refer to.
        Every other pickle has to load by itself.
    first_number : int
        Where the numbers begin.

    Attributes
    ----------
    pickle : str
        Name of the pickle that is being written.
    others : list of shared variables
        Those that were met and whose value is no array: it is in the pickle.
    """

    def __init__(self, chain: tuple[str, ...] = (), first_number: int = 0) -> None:
        self.pickle = ""
        self.others: list[Any] = []
        self._chain = chain
        # The entries keep the arrays alive. Without that, a temporary made by
        # some ``__reduce__`` dies while pickling goes on, its id is given to
        # the next array, and the two become one.
        self._entries: dict[int, Entry] = {}
        self._next_number = first_number
        self._numbers: dict[int, int] = {}
        self._stored_before: dict[int, Array] = {}
        self._bases: set[int] = set()

    def reference(self, array: Any, convert: Callable[[Any], Array] | None = None) -> int:
        """Return the number of an array, giving it one at first sight.

        Parameters
        ----------
        array : numpy.ndarray or object
        convert : callable, optional
            Makes a NumPy array of an object that is none.
        """
        number = self._numbers.get(id(array))
        if number is not None and number in self._stored_before:
            return number
        if number is None:
            stored = array if convert is None else convert(array)
            number = self._numbers[id(array)] = self._add(
                Entry(stored, [self.pickle], source=array)
            )
        elif self._entries[number].pickles[-1] != self.pickle:
            self._entries[number].pickles.append(self.pickle)
        return number

    def own(self, array: Any, variable: Any, convert: Callable[[Any], Array] | None = None) -> int:
        """Note that ``array`` is the value of a shared variable."""
        number = self.reference(array, convert)
        if number in self._stored_before:
            return number
        variables = self._entries[number].variables
        for index, known in enumerate(variables):
            if identity(known) == identity(variable):
                # Of a variable and the copies in compiled graphs, the first.
                variables[index] = min(known, variable, key=creation_number)
                return number
        variables.append(variable)
        return number

    def set_stored(self, array: Array, number: int) -> None:
        """Say that an array is in the file already, under that number."""
        self._numbers[id(array)] = number
        self._stored_before[number] = array

    def knows(self, array: Array) -> bool:
        """Tell whether the array has a number, or one that it shares memory with."""
        base = array.base
        return (
            id(array) in self._numbers
            or id(array) in self._bases
            or (base is not None and (id(base) in self._numbers or id(base) in self._bases))
        )

    def _add(self, entry: Entry) -> int:
        number = self._next_number
        self._next_number += 1
        self._entries[number] = entry
        if entry.array.base is not None:
            self._bases.add(id(entry.array.base))
        return number

    def plan(self) -> Plan:
        """Decide what is stored and how, when all pickles are written."""
        return make_plan(self._entries, self._chain, self._next_number)
