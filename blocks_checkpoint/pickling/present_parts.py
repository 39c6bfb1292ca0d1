"""Objects of a newly built main loop, given the states that were saved without them."""

from __future__ import annotations

from typing import Any

from ..errors import LoadError
from .generator_places import Path, part_of, spelled, take_step
from .stateful import put_saved, saved_state, stateful_part

__all__ = ["PresentParts"]


class PresentParts:
    """Finds what was saved by its state alone in a main loop of the same script.

    Parameters
    ----------
    main_loop : MainLoop
    """

    def __init__(self, main_loop: Any) -> None:
        self._main_loop = main_loop
        self._before: list[tuple[Any, dict[str, Any]]] = []

    def stateful_part(self, path: Path, kind: str, make: Any, args: Any) -> Any:
        """Make an object, or find the one that is to have its state.

        Raises
        ------
        LoadError
            There is none, or one of another class.
        """
        if make is not None:
            return stateful_part(path, kind, make, args)
        where = f"main_loop.{spelled(path)}"
        try:
            thing = part_of(self._main_loop, path[0])
            for step in path[1:]:
                thing = take_step(thing, step)
        except (StopIteration, AttributeError, LookupError, TypeError):
            thing = None
        if type(thing).__qualname__ != kind:
            raise LoadError(
                f"{where} was a {kind} that was saved by its state alone, and here is "
                f"{'none' if thing is None else f'a {type(thing).__qualname__}'}. Build the main "
                "loop as it was; or make the object one that can be pickled, and save again"
            )
        self._before.append((thing, saved_state(thing)))
        return thing

    def give_back(self) -> None:
        """Let everything have the state that it had before."""
        while self._before:
            put_saved(*self._before.pop())
