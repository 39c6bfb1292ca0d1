"""What extensions say that their state is, as plain values.

Who continues a run gets its extensions from the file, whatever they are made
of. Who resumes it in a newly built main loop has new ones, and settings such
as a patience are meant as the new script says. What of the rest is state only
the extension itself can tell: by ``state_dict()``, whose result goes into the
file, and ``load_state_dict(state)``, which gets it back.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..errors import LoadError
from ..state_methods import STATE_DICT, state_methods
from .exact_json import from_json, to_json

__all__ = ["has_state_dict", "named_extensions", "put_states", "states_of", "without_doubtful"]

logger = logging.getLogger(__name__)

#: Extensions that keep what they wait for, or have done, in attributes. One
#: that lacks the first of them has no state.
_KNOWN = {
    ("blocks.extensions.stopping", "FinishIfNoImprovementAfter"): (
        "last_best_iter",
        "last_best_epoch",
    ),
    ("blocks.extensions.monitoring", "TrainingDataMonitoring"): ("_last_time_called",),
    ("blocks_checkpoint.miniblocks.extensions.monitoring", "TrainingDataMonitoring"): (
        "_last_time_called",
    ),
    ("blocks_checkpoint.extensions.checkpoint", "Checkpoint"): ("counted_by_the_clock",),
}


def named_extensions(extensions: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Give each extension a name that it has in every main loop of the same script.

    It is made of its own name and class, and numbered where several have one.
    """
    counts: Counter[str] = Counter()
    for extension in extensions:
        own, cls = getattr(extension, "name", None), type(extension).__qualname__
        name = f"extension {own}" if own == cls else f"extension {own} ({cls})"
        counts[name] += 1
        yield (name if counts[name] == 1 else f"{name} {counts[name]}"), extension


def without_doubtful(present: Iterable[str], stored: Iterable[str]) -> set[str]:
    """Return the names that mean the same extension here and in a file.

    Where there are more of one name on one side, the numbers of several have
    moved. That is reported.

    Parameters
    ----------
    present, stored : iterable of str
        Names as :func:`named_extensions` gives them, of those that have a
        state.
    """
    present, stored = set(present), set(stored)
    here, there = (Counter(map(_unnumbered, names)) for names in (present, stored))
    doubtful = {name for name in here if here[name] != there[name] and there[name]}
    for name in sorted(doubtful):
        logger.warning(
            "%d of the %s are in the file, and %d here: which is which cannot be told, and they "
            "begin anew. Give each a name of its own, name='...', before a run that is to be "
            "resumed",
            there[name],
            name,
            here[name],
        )
    return {name for name in present | stored if _unnumbered(name) not in doubtful}


def _unnumbered(name: str) -> str:
    return re.sub(r" [0-9]+$", "", name)


def states_of(extensions: Iterable[Any]) -> dict[str, Any]:
    """Return what extensions say that their state is, by their names.

    They are written as :mod:`.exact_json` writes them. A state that is no plain
    value, or that cannot be had, is left out, and reported.
    """
    found = {}
    for name, extension in named_extensions(extensions):
        try:
            state = _state_of(extension)
            if state is None:
                continue
            found[name] = to_json(state)
        except Exception as error:
            # The save has all the rest of it, and is worth having.
            logger.error(
                "the state_dict() of the %s is no help to Resume, and is not saved: %s: %s",
                name,
                type(error).__name__,
                error,
            )
    return found


def _state_of(extension: Any) -> Any:
    if has_state_dict(extension):
        return extension.state_dict()
    names = _attributes(extension)
    return {name: getattr(extension, name) for name in names} if names else None


def has_state_dict(thing: Any) -> bool:
    """Tell whether this says what its state is."""
    return state_methods(type(thing)) == STATE_DICT


def _attributes(extension: Any) -> tuple[str, ...]:
    for cls in type(extension).__mro__:
        known = _KNOWN.get((cls.__module__, cls.__qualname__))
        if known and hasattr(extension, known[0]):
            return known
    return ()


def put_states(
    extensions: Iterable[Any], stored: Mapping[str, Any], *, strict: bool = True
) -> None:
    """Give extensions back the states that they had, as far as they are there.

    Parameters
    ----------
    extensions : iterable of TrainingExtension
    stored : mapping of str to object
        As :func:`states_of` returned it.
    strict : bool
        If false, an extension that does not take its state is reported, and
        begins anew.

    Raises
    ------
    LoadError
        An extension does not take its state.
    """
    present = dict(named_extensions(extensions))
    with_state = [name for name, each in present.items() if has_state_dict(each)]
    with_state += [name for name, each in present.items() if _attributes(each)]
    clear = without_doubtful(with_state, stored)
    for name, extension in present.items():
        if name in clear and name not in stored and has_state_dict(extension):
            logger.warning("the file has no state for the %s: it begins anew", name)
    for name, state in stored.items():
        if name not in clear:
            continue
        extension = present.get(name)
        if extension is None:
            logger.info("there is no %s here to be given its state", name)
            continue
        try:
            value = from_json(state)
            if has_state_dict(extension):
                extension.load_state_dict(value)
            else:
                for attribute in _attributes(extension):
                    setattr(extension, attribute, value[attribute])
        except Exception as error:
            message = (
                f"the {name} does not take the state that it had: {type(error).__name__}: {error}"
            )
            if strict:
                raise LoadError(message) from error
            logger.warning("%s. It begins anew", message)
