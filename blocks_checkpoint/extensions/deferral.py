"""Saving after the last extension has seen the event.

Extensions are called in their order. One that stands behind ``Checkpoint``
has not yet heard of the event when ``Checkpoint`` is called, and its state
would be saved as it was before. So the save waits: an extension that is put
at the very end of the list for the rest of the event carries it out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ..main_module import refuse_while_imported
from .base import SimpleExtension

__all__ = ["AfterAllExtensions", "Deferring", "after_all_extensions"]

logger = logging.getLogger(__name__)

#: Here a save does not wait: every extension has seen all of the training,
#: and whoever stands behind and fails must not cost the state it has led to.
AT_ONCE = frozenset(["on_interrupt", "on_error"])


class Deferring(SimpleExtension):
    """Base of the extensions that have something done when all others are.

    A Blocks loop keeps its extensions in what it was given. In a tuple none
    could be put at the end.
    """

    @property
    def main_loop(self) -> Any:
        """The main loop that this extension belongs to."""
        return super().main_loop

    @main_loop.setter
    def main_loop(self, value: Any) -> None:
        self._main_loop = value
        if isinstance(getattr(value, "extensions", None), tuple):
            value.extensions = list(value.extensions)


class AfterAllExtensions(SimpleExtension):
    """Carries out what waits until every extension has seen an event.

    It is among the extensions of a main loop from the moment when something
    begins to wait until the end of that event; when the action is carried
    out, it is there no longer.
    """

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
        self._leave()
        waiting, self._waiting = self._waiting, []
        for event, action in waiting:
            if event == str(callback_name):
                action()
            else:
                logger.warning(
                    "an extension failed at %s: what was to be saved then was not", event
                )

    def do(self, which_callback: Any, *args: Any) -> None:
        """Do nothing: this extension has no conditions."""

    def _leave(self) -> None:
        main_loop = self.main_loop
        extensions = main_loop.extensions
        if extensions[-1] is self:
            extensions.pop()
        else:
            # Whoever goes through the list would miss the one behind.
            main_loop.extensions = [each for each in extensions if each is not self]


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
        ``extension``, or if the event is the end of an interrupted or failed
        run.

    Raises
    ------
    LoadError
        The main loop runs because a script is imported for its functions.
    """
    refuse_while_imported()
    behind = _behind(main_loop.extensions, extension)
    is_last = all(isinstance(each, (type(extension), AfterAllExtensions)) for each in behind)
    # The main loop is going through this very list, and comes to what is
    # appended to it. One of another kind it would not see growing.
    if is_last or str(event) in AT_ONCE or not isinstance(main_loop.extensions, list):
        action()
        return
    last = main_loop.extensions[-1]
    if not isinstance(last, AfterAllExtensions):
        last = AfterAllExtensions()
        last.main_loop = main_loop
        main_loop.extensions.append(last)
    last.wait(event, action)


def _behind(extensions: Any, extension: Any) -> list[Any]:
    """List the extensions that are called after one, which may be in a composite."""
    for index, each in enumerate(extensions):
        if each is extension:
            return list(extensions[index + 1 :])
        inner = getattr(each, "sub_extensions", ())
        if _contains(inner, extension):
            return _behind(inner, extension) + list(extensions[index + 1 :])
    return []


def _contains(extensions: Any, extension: Any) -> bool:
    return any(
        each is extension or _contains(getattr(each, "sub_extensions", ()), extension)
        for each in extensions
    )
