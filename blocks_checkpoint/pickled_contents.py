"""Contents to pickles: the first half of taking a snapshot.

The pickles of one save share a table, which numbers the arrays that were
taken out of them. What the arrays are called is decided afterwards.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from . import diagnosis, main_module
from .array_rows import Beside
from .contents import Contents
from .format import CHAIN, ITERATION_STATE, LOG, MAIN
from .pickling.array_table import ArrayTable
from .pickling.log_sharing import shared_parts
from .pickling.reachable import reachable_variables, variables_without_arrays
from .pickling.stateful import find_stateful
from .zip_pickler import (
    AlreadyPickled,
    PicklerSettings,
    ZipPickler,
    own_value,
    write_pickles,
)

__all__ = ["PickledContents", "main_module_places", "pickle_contents", "pickle_without_main"]

logger = logging.getLogger(__name__)


@dataclass
class PickledContents:
    """The pickles of one save, before the arrays are named.

    Attributes
    ----------
    table : ArrayTable
        The arrays that are not in the pickles.
    members : dict of str to list of bytes
        Member name to content, in pieces.
    exports : dict of str to (int, int)
        Member whose pickle begins with references into the log, to how many
        they are and how many bytes they take.
    anew : dict of str to list of bytes
        Of members of which parts were carried over from an earlier save: what
        was not.
    """

    table: ArrayTable
    members: dict[str, list[bytes]] = field(default_factory=dict)
    exports: dict[str, tuple[int, int]] = field(default_factory=dict)
    anew: dict[str, list[bytes]] = field(default_factory=dict)

    def needed_of_main_module(self) -> dict[str, str]:
        """List what the pickles need of the main module; see :func:`.names_needed`."""
        chain = [piece for name in CHAIN for piece in self.members.get(name, ())]
        # What is carried over names nothing of the user's.
        alone = [
            content
            for name, content in self.members.items()
            if name not in CHAIN and main_module.may_be_named_in(*self.anew.get(name, content))
        ]
        return main_module.names_needed([chain, *alone])


def main_module_places(
    contents: Contents, names: Iterable[str], settings: PicklerSettings | None = None
) -> dict[str, str]:
    """Find where in ``contents`` the named functions of the main module hang.

    Returns
    -------
    dict of str to str
        Name of the function or class to the attribute path of what needs it.
    """
    return diagnosis.find_globals(
        _roots(contents),
        names,
        main_module.is_main_module,
        _walker(settings or PicklerSettings()),
    )


def _roots(contents: Contents) -> list[tuple[str, Any]]:
    """List what a search in ``contents`` begins from, and what to call it."""
    root = contents.root_name
    if contents.main is not None:
        return [(root, contents.main), *_further(contents)]
    parts = [(LOG, contents.log), (ITERATION_STATE, contents.iteration_state)]
    return [(f"{root}.{name}", part) for name, part in parts if part is not None] + [
        *_further(contents)
    ]


def _further(contents: Contents) -> list[tuple[str, Any]]:
    root = contents.root_name
    return [
        (root if name == root else f"{root}.{name}", thing)
        for name, thing in contents.further.items()
    ]


def _walker(settings: PicklerSettings) -> diagnosis.Walker:
    reducers = ZipPickler(ArrayTable(), settings).reducers
    return diagnosis.Walker(reducers, settings.protocol, settings.persistent_id)


@dataclass
class _At:
    """What is being pickled, by name."""

    name: str


def _write(
    contents: Contents,
    settings: PicklerSettings,
    beside: Beside,
    at: _At,
    deep: bool,
    *,
    export_first: bool = False,
) -> PickledContents:
    made = PickledContents(beside.new_table())
    table = made.table

    def dump(pickler: ZipPickler, member: str, thing: Any, name: str) -> None:
        at.name, table.pickle = name, member
        made.members[member] = [pickler.dump(thing)]

    def dump_in_chain(member: str, thing: Any, name: str) -> None:
        prologue = []
        if parts and not made.exports and (export_first or member == MAIN):
            prologue = [chain.note_exports(parts)]
            made.exports[member] = len(parts), len(prologue[0])
        dump(chain, member, thing, name)
        made.members[member] = prologue + made.members[member]

    def dump_log(log: Any, name: str) -> None:
        at.name, table.pickle = name, LOG
        pickler = ZipPickler(table, settings, deep=deep, self_contained=True)
        if cache is None:
            made.members[LOG] = [pickler.dump(log)]
        else:
            pickled = cache.dump(log, pickler)
            made.members[LOG], made.anew[LOG] = pickled.pieces, [pickled.not_final]

    root = contents.root_name
    # A persistent id of the user's wants to be asked about every object.
    cache = None if settings.persistent_id else settings.log_cache
    by_reference = [] if contents.log is None else [(LOG, contents.log)]
    chain = ZipPickler(table, replace(settings, members=by_reference), deep=deep)
    parts = shared_parts(contents.log, None if cache is None else cache.changeable(contents.log))
    if contents.iteration_state is not None:
        dump_in_chain(ITERATION_STATE, contents.iteration_state, f"{root}.iteration_state")
    if contents.main is not None:
        dump_in_chain(MAIN, contents.main, root)
    if contents.log is not None:
        # After the others: an array that they have, too, stays one array.
        dump_log(contents.log, f"{root}.log")
    for name, (shown, thing) in zip(contents.further, _further(contents)):
        dump(ZipPickler(table, settings, deep=deep), name, thing, shown)
    return made


def pickle_contents(
    contents: Contents, settings: PicklerSettings, beside: Beside | None = None
) -> PickledContents:
    """Pickle the contents.

    Raises
    ------
    UnpicklableError
        Something cannot be pickled. The error lists everything that cannot.
    """
    settings, at = _with_states(contents, settings), _At(contents.root_name)
    try:
        return _pickle(contents, settings, beside, at)
    except MemoryError:
        raise
    except Exception as error:
        walker = _walker(settings)
        raise settings.searches.explain(error, at.name, _roots(contents), walker) from error


def _with_states(contents: Contents, settings: PicklerSettings) -> PicklerSettings:
    """Ask for their states what is saved by them."""
    stateful = find_stateful(contents.stream_parts)
    stateful.take_states()
    return replace(
        settings,
        # Whoever has the iteration state has the state of the global generators.
        global_generators_apart=contents.iteration_state is not None,
        stateful=stateful,
    )


def _pickle(
    contents: Contents, settings: PicklerSettings, beside: Beside | None, at: _At
) -> PickledContents:
    try:
        return _pickle_as_set(contents, settings, beside, at)
    except MemoryError:
        raise
    except Exception:
        if contents.main is not None or not settings.stateful.parts:
            raise
        # A main loop has to hold what its parts are made of, to go on without
        # its script. Without one, their states are enough.
        by_state = replace(settings, stateful=replace(settings.stateful, only_by_state=True))
        try:
            return _pickle_as_set(contents, by_state, beside, _At(""))
        except MemoryError:
            raise
        except Exception as error:
            logger.debug("%s", error)
        raise


def _pickle_as_set(
    contents: Contents, settings: PicklerSettings, beside: Beside | None, at: _At
) -> PickledContents:
    def write(deep: bool) -> PickledContents:
        try:
            return _write(contents, settings, beside or Beside(), at, deep)
        except AlreadyPickled:
            # The data stream holds a part of the log, which nearly none does:
            # then its state cannot be loaded without the log.
            return _write(contents, settings, beside or Beside(), at, deep, export_first=True)

    return write_pickles(write)


def pickle_without_main(contents: Contents, settings: PicklerSettings) -> PickledContents:
    """Pickle what can be pickled of everything but the main loop."""
    kept = Contents(root_name=contents.root_name)

    def can_be_pickled(name: str, **alone: Any) -> bool:
        part = Contents(root_name=contents.root_name, **alone)
        try:
            _pickle(part, _with_states(part, settings), None, _At(name))
        except MemoryError:
            raise
        except Exception as error:
            # What stands in the way, the error says that has led here.
            logger.error("%s.%s cannot be saved either: %s", contents.root_name, name, error)
            return False
        return True

    for name in (LOG, ITERATION_STATE):
        thing = getattr(contents, name)
        if thing is not None and can_be_pickled(name, **{name: thing}):
            setattr(kept, name, thing)
    for name, thing in contents.further.items():
        if can_be_pickled(name, further={name: thing}):
            kept.further[name] = thing
    made = pickle_contents(kept, settings)
    made.table.pickle = ""
    for variable in reachable_variables(contents.main):
        own_value(made.table, variable)
    # Random streams, whose states go on in whichever main loop resumes.
    made.table.others += variables_without_arrays(contents.main)
    return made
