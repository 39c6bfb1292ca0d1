"""Whether a number at the end of a name means the same variable here and in a file.

Variables of one name are numbered in the order in which they were made. A
script that makes one more, or one less, gives other numbers to the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .naming import VariableNames

__all__ = ["Doubt", "Traits", "doubts", "dtype_family"]

#: What is to be the same of two variables that have the same number: kind,
#: family of the dtype, and shape or, where training may change it, how many
#: dimensions it has.
Traits = tuple[str, str, object]


@dataclass(frozen=True)
class Doubt:
    """A name whose numbers mean one thing here and another in the file.

    Attributes
    ----------
    name : str
        Without a number.
    here, stored : sequence of Traits
        Of the variables of that name, in the order of their numbers.
    """

    name: str
    here: Sequence[Traits]
    stored: Sequence[Traits]

    def __str__(self) -> str:
        if len(self.here) != len(self.stored):
            what = f"{len(self.here)} here and {len(self.stored)} in the file"
        else:
            what = "of other shapes or dtypes, or in another order, than in the file"
        return f"those called {self.name!r} are {what}"


def dtype_family(dtype: Any) -> str:
    """Return the kind of a dtype: scripts may change the number of its bits."""
    try:
        return str(np.dtype(dtype).kind)
    except TypeError:
        # A type that NumPy does not bring itself (bfloat16), in a file.
        return str(dtype)


def doubts(
    here: Iterable[tuple[VariableNames, Traits]],
    stored: Iterable[tuple[Mapping[str, Any], Traits]],
) -> dict[str, Doubt]:
    """Find the names of which nobody can tell which number is which variable.

    Parameters
    ----------
    here : iterable of (VariableNames, Traits)
        In the order of their numbers.
    stored : iterable of (dict, Traits)
        Rows of a manifest.

    Returns
    -------
    dict of str to Doubt
        By the name without a number.
    """
    groups_here: dict[str, list[tuple[str, Traits]]] = {}
    for names, traits in here:
        name = names.unnumbered or names.name
        groups_here.setdefault(name, []).append((names.name, traits))
    groups_stored: dict[str, list[tuple[str, Traits]]] = {}
    for row, traits in stored:
        name = row.get("unnumbered") or row["name"]
        groups_stored.setdefault(name, []).append((row["name"], traits))
    found = {}
    for name in groups_here.keys() & groups_stored.keys():
        one, other = dict(groups_here[name]), dict(groups_stored[name])
        # A single variable on both sides has the name to itself.
        if len(one) == len(other) == 1 or one == other:
            continue
        found[name] = Doubt(name, list(one.values()), list(other.values()))
    return found
