"""Saving after the last extension has seen the event.

Extensions are called in their order. One that stands behind ``Checkpoint``
has not yet heard of the event when ``Checkpoint`` is called, and its state
would be saved as it was before. So the save waits: an extension at the very
end of the list, which nobody stands behind, carries it out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .extension_base import SimpleExtension

__all__ = ["AfterAllExtensions", "after_all_extensions"]


class AfterAllExtensions(SimpleExtension):
    """Carries out what waits until every extension has seen an event."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[tuple[str, Callable[[], object]]] = []

    def __getstate__(self) -> dict[str, Any]:
        # What waits is about to be done, in this process, and not again.
        return {**self.__dict__, "_waiting": []}

    def wait(self, event: Any, action: Callable[[], object]) -> None:
        """Have ``action`` carried out at the end of this event."""
        self._waiting.append((str(event), action))

    def dispatch(self, callback_name: Any, *args: Any) -> None:
        """Carry out what waits for the end of this event.

        What waited for an event that ended in an error is forgotten.
        """
        waiting, self._waiting = self._waiting, []
        for event, action in waiting:
            if event == str(callback_name):
                action()

    def do(self, which_callback: Any, *args: Any) -> None:
        """Do nothing: this extension has no conditions."""


def after_all_extensions(
    main_loop: Any, extension: Any, event: Any, action: Callable[[], object]
) -> None:
    """Carry out ``action`` when the last extension has seen the event.

    Parameters
    ----------
    main_loop : MainLoop
        In the midst of an event.
    extension : TrainingExtension
        The one that is being called.
    event : str
    action : callable
        Carried out at once, if nobody that matters stands behind
        ``extension``.
    """
    behind = _behind(main_loop.extensions, extension)
    if all(isinstance(each, (type(extension), AfterAllExtensions)) for each in behind):
        action()
        return
    last = main_loop.extensions[-1]
    if not isinstance(last, AfterAllExtensions):
        last = AfterAllExtensions()
        last.main_loop = main_loop
        # The main loop is going through this very list, and comes to what is
        # appended to it. A list of another kind it would not see growing.
        if not isinstance(main_loop.extensions, list):
            action()
            return
        main_loop.extensions.append(last)
    last.wait(event, action)


def _behind(extensions: Any, extension: Any) -> list[Any]:
    """List the extensions that are called after one, which may be in a composite."""
    for index, each in enumerate(extensions):
        if each is extension:
            return list(extensions[index + 1 :])
        inner = getattr(each, "sub_extensions", ())
        if any(sub is extension for sub in inner):
            return _behind(inner, extension) + list(extensions[index + 1 :])
    return []
