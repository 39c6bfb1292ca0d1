"""Main loop to snapshot: everything that a checkpoint will contain.

The snapshot is the consistent cut. Once it is taken, the running loop may go
on; if its arrays were copied into an arena, they are no longer looked at.
"""

from __future__ import annotations

import json
import logging
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

import numpy as np

from . import diagnosis, main_module
from .archive import ArchiveWriter
from .arena import Arena, Copies
from .array_rows import Beside, name_arrays, name_values
from .contents import Contents
from .engines import stored_value
from .errors import CheckpointWarning, SaveError, UnpicklableError
from .format import (
    CHAIN,
    FORMAT,
    FORMAT_VERSION,
    ITERATION_STATE,
    LOG,
    MAIN,
    MANIFEST,
    RANDOM_STATE,
)
from .pickling import random_state
from .pickling.array_table import ArrayTable
from .pickling.generator_variables import describe_values
from .pickling.log_sharing import shared_parts
from .pickling.reachable import reachable_variables
from .provenance import plain_status, saved_where, versions
from .zip_pickler import (
    AlreadyPickled,
    PicklerSettings,
    ZipPickler,
    own_value,
    write_pickles,
)

__all__ = ["Snapshot", "take_snapshot"]

logger = logging.getLogger(__name__)

#: Offenders that a message lists; the error has all of them.
LISTED_OFFENDERS = 20


@dataclass
class Snapshot:
    """What goes into a checkpoint, cut loose from the running loop.

    Attributes
    ----------
    pickles : dict of str to bytes
        Member name to content.
    arrays : list of (str, numpy.ndarray)
        Member name and values.
    manifest : dict
        Without the cost of writing.
    failure : UnpicklableError or None
        Why the main loop is not part of it, if it should have been.
    copies : Copies or None
        The memory of the arrays, if they are copies.
    """

    pickles: dict[str, bytes]
    arrays: list[tuple[str, np.ndarray[Any, Any]]]
    manifest: dict[str, Any]
    failure: UnpicklableError | None = None
    copies: Copies | None = field(default=None, repr=False)

    @classmethod
    def of_arrays(cls, named: Sequence[tuple[str, np.ndarray[Any, Any]]]) -> Snapshot:
        """Make a snapshot of arrays alone.

        Parameters
        ----------
        named : sequence of (str, numpy.ndarray)
            Parameter names, all different, and values.
        """
        rows, arrays = name_values(named)
        manifest = _manifest(rows, {}, {}, None)
        return cls({}, arrays, {**manifest, "cost": {}})

    def copy_into(self, arena: Arena) -> None:
        """Copy the arrays, so that the originals may change."""
        members = [member for member, _ in self.arrays]
        self.copies = arena.copy(array for _, array in self.arrays)
        self.arrays = list(zip(members, self.copies.arrays))

    def release(self) -> None:
        """Give back the memory of the copies; nothing can be written then."""
        if self.copies is not None:
            self.arrays = []
            self.copies.release()

    @property
    def nbytes(self) -> int:
        """Size of the content in bytes; the file is a little larger."""
        arrays = sum(array.nbytes for _, array in self.arrays)
        return arrays + sum(len(content) for content in self.pickles.values())

    def write(self, file: BinaryIO) -> None:
        """Write the snapshot as an archive.

        Parameters
        ----------
        file : binary file
            Open for writing, at its beginning.
        """
        start = time.perf_counter()
        with ArchiveWriter(file) as archive:
            for member, content in self.pickles.items():
                archive.add_bytes(member, content)
            for member, array in self.arrays:
                archive.add_array(member, array)
            # The last member: a reader gets it and the directory behind it
            # with one read from the end of the file.
            cost = {**self.manifest["cost"], "write": time.perf_counter() - start}
            archive.add_bytes(MANIFEST, _to_json({**self.manifest, "cost": cost}))


def _to_json(manifest: Mapping[str, Any]) -> bytes:
    return json.dumps(manifest, default=_plain).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    return str(value)


def take_snapshot(
    contents: Contents,
    *,
    settings: PicklerSettings | None = None,
    arena: Arena | None = None,
    without_main: UnpicklableError | None = None,
    beside: Beside | None = None,
) -> Snapshot:
    """Take the snapshot.

    Parameters
    ----------
    contents : Contents
    settings : PicklerSettings, optional
    arena : Arena, optional
        Copy the arrays into it, so that training may go on while they are
        written.
    without_main : UnpicklableError, optional
        Why ``contents.main`` cannot be pickled: take the snapshot without it,
        and without whatever else cannot be.
    beside : Beside, optional
        What is in the file that the snapshot is going to be added to.

    Returns
    -------
    Snapshot

    Raises
    ------
    UnpicklableError
        Something cannot be pickled. The error lists everything that cannot.
    """
    settings = settings or PicklerSettings()
    start = time.perf_counter()
    beside = beside or Beside()
    if without_main is None:
        pickles = _pickle(contents, settings, beside)
    else:
        pickles = _pickle_without_main(contents, settings)
    pickled = time.perf_counter()
    snapshot = _assemble(contents, pickles, settings, beside, without_main)
    if arena is not None:
        snapshot.copy_into(arena)
    snapshot.manifest["cost"] = {
        "pickle": pickled - start,
        "copy": time.perf_counter() - pickled,
    }
    return snapshot


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
class _Pickles:
    """The pickles of one save, before the arrays are named."""

    table: ArrayTable
    members: dict[str, bytes] = field(default_factory=dict)
    exports: dict[str, tuple[int, int]] = field(default_factory=dict)


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
) -> _Pickles:
    made = _Pickles(beside.new_table())
    table = made.table

    def dump(pickler: ZipPickler, member: str, thing: Any, name: str) -> None:
        at.name, table.pickle = name, member
        made.members[member] = pickler.dump(thing)

    def dump_in_chain(member: str, thing: Any, name: str) -> None:
        prologue = b""
        if parts and not made.exports and (export_first or member == MAIN):
            prologue = chain.note_exports(parts)
            made.exports[member] = len(parts), len(prologue)
        dump(chain, member, thing, name)
        made.members[member] = prologue + made.members[member]

    root = contents.root_name
    by_reference = [] if contents.log is None else [(LOG, contents.log)]
    chain = ZipPickler(table, replace(settings, members=by_reference), deep=deep)
    parts = shared_parts(contents.log)
    if contents.iteration_state is not None:
        dump_in_chain(ITERATION_STATE, contents.iteration_state, f"{root}.iteration_state")
    if contents.main is not None:
        dump_in_chain(MAIN, contents.main, root)
    if contents.log is not None:
        # After the others: an array that they have, too, stays one array.
        pickler = ZipPickler(table, settings, deep=deep, self_contained=True)
        dump(pickler, LOG, contents.log, f"{root}.log")
    for name, (shown, thing) in zip(contents.further, _further(contents)):
        dump(ZipPickler(table, settings, deep=deep), name, thing, shown)
    return made


def _pickle(
    contents: Contents, settings: PicklerSettings, beside: Beside | None = None
) -> _Pickles:
    at = _At(contents.root_name)
    # Whoever has the iteration state has the state of the global generators.
    settings = replace(settings, global_generators_apart=contents.iteration_state is not None)

    def write(deep: bool) -> _Pickles:
        try:
            return _write(contents, settings, beside or Beside(), at, deep)
        except AlreadyPickled:
            # The data stream holds a part of the log, which nearly none does:
            # then its state cannot be loaded without the log.
            return _write(contents, settings, beside or Beside(), at, deep, export_first=True)

    try:
        return write_pickles(write)
    except MemoryError:
        raise
    except Exception as error:
        reason = str(error) or type(error).__name__
        if isinstance(error, RecursionError):
            reason = (
                "it is nested too deeply, or a class in it calls itself without end when asked "
                f"for its state ({error})"
            )
        findings = diagnosis.find_offenders(_roots(contents), _walker(settings))
        raise UnpicklableError(
            f"{at.name} cannot be pickled: {reason.rstrip('.')}. "
            f"{_listing(findings, isinstance(error, RecursionError))}",
            offenders=findings.offenders,
        ) from error


def _listing(findings: diagnosis.Findings, is_too_deep: bool) -> str:
    offenders = findings.offenders
    lines = [str(offender) for offender in offenders[:LISTED_OFFENDERS]]
    if len(offenders) > LISTED_OFFENDERS:
        lines.append(f"and {len(offenders) - LISTED_OFFENDERS} more (see error.offenders)")
    if not findings.is_complete:
        lines.append("and perhaps more: the search was given up, the graph is too large or endless")
    if not lines and is_too_deep:
        return (
            "No object in it fails by itself. Break the chain: keep its objects in a list beside "
            "each other, or give their class a __getstate__ that does without the links"
        )
    if not lines:
        return "No object in it fails by itself; the error above is all that is known"
    return "What stands in the way:" + "".join(f"\n  - {line}" for line in lines)


def _pickle_without_main(contents: Contents, settings: PicklerSettings) -> _Pickles:
    """Pickle what can be pickled of everything but the main loop."""
    kept = Contents(root_name=contents.root_name)

    def can_be_pickled(name: str, **alone: Any) -> bool:
        try:
            _pickle(Contents(root_name=contents.root_name, **alone), settings)
        except UnpicklableError:
            # Why, the error says that has led here.
            logger.error("%s.%s cannot be saved either", contents.root_name, name)
            return False
        return True

    for name in (LOG, ITERATION_STATE):
        thing = getattr(contents, name)
        if thing is not None and can_be_pickled(name, **{name: thing}):
            setattr(kept, name, thing)
    for name, thing in contents.further.items():
        if can_be_pickled(name, further={name: thing}):
            kept.further[name] = thing
    made = _pickle(kept, settings)
    made.table.pickle = ""
    for variable in reachable_variables(contents.main):
        own_value(made.table, variable)
    return made


def _assemble(
    contents: Contents,
    pickles: _Pickles,
    settings: PicklerSettings,
    beside: Beside,
    failure: UnpicklableError | None,
) -> Snapshot:
    table = pickles.table
    table.pickle = MAIN if MAIN in pickles.members else ""
    owned = [*contents.parameters, *contents.statistics]
    _report_unstored(
        [variable for variable in owned if not own_value(table, variable)],
        elsewhere=MAIN in pickles.members or failure is not None,
    )
    plan = table.plan()
    rows, arrays = name_arrays(contents, plan, beside)
    members = dict(pickles.members)
    described: dict[str, Any] = {}
    for member, content in members.items():
        pool = plan.pickled_pool(member, settings.protocol)
        described[member] = {"protocol": settings.protocol, "bytes": len(content)}
        if pool:
            members[member] = content + pool
            described[member]["pool"] = True
        if member in pickles.exports:
            exports, export_bytes = pickles.exports[member]
            described[member].update(exports=exports, export_bytes=export_bytes)
    if MAIN in described:
        described[MAIN]["follows"] = [ITERATION_STATE] if ITERATION_STATE in described else []
    if contents.iteration_state is not None:
        members[RANDOM_STATE] = random_state.capture(
            describe_values(table.others), contents.generators
        )
    needs = _main_needs(contents, pickles.members)
    manifest = _manifest(rows, described, contents.status, needs)
    manifest["limits"] = list(contents.limits)
    manifest["extensions"] = dict(contents.extensions)
    if failure is not None:
        manifest["main_loop_error"] = str(failure)
    return Snapshot(members, arrays, manifest, failure)


def _report_unstored(parameters: Sequence[Any], elsewhere: bool) -> None:
    """Say of which parameters the values are no plain arrays."""
    if not parameters:
        return
    listed = ", ".join(
        f"{parameter.name or 'without a name'} ({type(stored_value(parameter)).__name__})"
        for parameter in parameters
    )
    if elsewhere:
        warnings.warn(
            f"the values of these parameters are no plain arrays: {listed}. They are saved in "
            "the pickle of the main loop only, where LoadParameters does not find them",
            CheckpointWarning,
            stacklevel=4,
        )
    else:
        raise SaveError(
            f"the values of these parameters are no plain arrays: {listed}. They can be saved "
            "within a main loop only; or make plain arrays of them, set_value(numpy.array(...))"
        )


def _manifest(
    rows: list[dict[str, Any]],
    pickles: dict[str, Any],
    status: Mapping[str, Any],
    needs: dict[str, Any] | None,
) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "saved": saved_where(),
        "versions": versions(),
        "status": plain_status(status),
        "arrays": rows,
        "pickles": pickles,
        "main_loop": "present" if MAIN in pickles else "absent",
        "main_module": needs,
    }


def _main_needs(contents: Contents, members: Mapping[str, bytes]) -> dict[str, Any] | None:
    """Say what the pickles need of the main module, and which script that is."""
    chain = [members[name] for name in CHAIN if name in members]
    alone = [[content] for name, content in members.items() if name not in CHAIN]
    needed = main_module.names_needed([chain, *alone])
    if not needed:
        return None
    modules = sorted(set(needed.values()))
    script = main_module.script_of(modules[-1]) or {"script": None, "sha256": None}
    # Where they hang takes a walk through the graph, and is found out by
    # whoever warns about it, once.
    return {"names": sorted(needed), **script}
