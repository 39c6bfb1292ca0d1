"""Which shared variables a main loop holds, in the order in which a save meets them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container
from typing import Any

from .. import diagnosis
from ..engines import identity
from ..zip_pickler import PicklerSettings, ZipPickler, write_pickles
from .array_table import ArrayTable
from .stateful import find_stateful

__all__ = [
    "known_variables",
    "reachable_variables",
    "variables_of_model",
    "variables_without_arrays",
]

logger = logging.getLogger(__name__)


def reachable_variables(main_loop: Any) -> list[Any]:
    """List the shared variables of a main loop, also of one that cannot be pickled.

    Names are numbered in this order: it has to be that of a save.
    """
    table = _table_of(main_loop)
    stored = [] if table is None else table.plan().stored
    found = [variable for each in stored for variable in each.variables]
    variables = {identity(variable): variable for variable in found}
    for variable in known_variables(main_loop):
        variables.setdefault(identity(variable), variable)
    return list(variables.values())


def variables_without_arrays(main_loop: Any) -> list[Any]:
    """List the shared variables of a main loop whose values are no arrays.

    Also of one that cannot be pickled: random streams are among them.
    """
    table = _table_of(main_loop)
    return [] if table is None else table.others


def known_variables(main_loop: Any) -> list[Any]:
    """List the shared variables that can be had without walking the graph."""
    algorithm = getattr(main_loop, "algorithm", None)
    updated = [pair[0] for pair in getattr(algorithm, "updates", ()) or ()]
    return [
        *variables_of_model(main_loop),
        *[each for each in updated if hasattr(each, "container")],
    ]


def variables_of_model(main_loop: Any) -> list[Any]:
    """List the shared variables of a model, in an order that training does not change.

    What the algorithm updates becomes more when training begins.
    """
    in_model = getattr(getattr(main_loop, "model", None), "shared_variables", ()) or ()
    return [variable for variable in in_model if hasattr(variable, "container")]


def _table_of(main_loop: Any) -> ArrayTable | None:
    """Enter all that a main loop holds, or all around what cannot be pickled, into a table."""
    try:
        return _filled_by_pickling(main_loop, None)
    except Exception as error:
        logger.debug("the main loop cannot be pickled: %s", error)
    try:
        return _filled_around_obstacles(main_loop)
    except Exception as error:
        # To complain about that is for a save.
        logger.debug("the main loop cannot be pickled in part either: %s", error)
        return None


def _filled_by_pickling(main_loop: Any, persistent_id: Callable[[Any], Any] | None) -> ArrayTable:
    def write(deep: bool) -> ArrayTable:
        table = ArrayTable()
        ZipPickler(table, settings, deep=deep).dump(main_loop)
        return table

    stateful = find_stateful(getattr(main_loop, "iteration_state", None))
    settings = PicklerSettings(persistent_id=persistent_id, stateful=stateful)
    try:
        return write_pickles(write)
    except Exception:
        # A data stream that can be saved by its state alone is no obstacle.
        if not stateful.parts:
            raise
        stateful.only_by_state = True
        return write_pickles(write)


def _filled_around_obstacles(main_loop: Any) -> ArrayTable:
    walker = diagnosis.Walker(ZipPickler(ArrayTable(), PicklerSettings()).reducers)
    obstacles = [
        place.thing for place, error in walker.walk([("main_loop", main_loop)]) if error is not None
    ]
    ids: Container[int] = {id(thing) for thing in obstacles}
    return _filled_by_pickling(main_loop, lambda thing: 0 if id(thing) in ids else None)
