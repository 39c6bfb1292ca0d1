"""The random generators in a checkpoint that are for a newly built main loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .generator_places import check_described, put_generators
from .generator_variables import prepare_values, put_values
from .reachable import variables_without_arrays

__all__ = ["StoredGenerators"]


@dataclass
class StoredGenerators:
    """Generators that are read and checked, and not put anywhere yet.

    Attributes
    ----------
    values : sequence of (shared variable, generator)
        Those of the engine's random streams, and what they are for.
    held : sequence of dict
        Those that hang elsewhere in the main loop.
    """

    values: Sequence[tuple[Any, Any]]
    held: Sequence[Any]

    @classmethod
    def of(cls, checkpoint: Any, main_loop: Any) -> StoredGenerators:
        """Read them.

        Raises
        ------
        LoadError
            They are damaged.
        """
        # A file that Blocks wrote has none.
        read = getattr(checkpoint, "generators", None)
        values, held = read() if read else ({}, [])
        check_described(held, checkpoint.path)
        if not values:
            return cls([], held)
        return cls(prepare_values(variables_without_arrays(main_loop), values), held)

    def put(self, main_loop: Any) -> None:
        """Put them into a main loop that has the data stream of the checkpoint."""
        put_values(self.values)
        put_generators(main_loop, self.held)
