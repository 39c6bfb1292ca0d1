"""The collector of cyclic garbage, and how to keep it out of the way."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["no_garbage_collection"]

#: Python 3.12 freezes some hundred objects itself when it starts. Where more
#: are frozen, somebody meant it.
_FROZEN_BY_PYTHON = 1000
#: Fewer objects are not worth it: what was garbage already, and counts as old
#: afterwards, is found later.
_MANY = 1000


@contextmanager
def no_garbage_collection(objects: int = _MANY) -> Iterator[None]:
    """Build something large without looking for garbage meanwhile.

    Everything that is being built is alive. Looking through it for garbage,
    again and again while it grows, takes most of the time of unpickling.

    Parameters
    ----------
    objects : int
        How many there will be, if that is known; for few of them nothing is done.
    """
    if objects < _MANY or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
        if gc.get_freeze_count() <= _FROZEN_BY_PYTHON:
            # Counts what was built among the old objects. As new ones, the
            # collector would go through all of it at the next opportunity.
            gc.freeze()
            gc.unfreeze()
    finally:
        gc.enable()
