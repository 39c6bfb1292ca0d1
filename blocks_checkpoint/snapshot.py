"""Main loop to snapshot: everything that a checkpoint will contain.

The snapshot is the consistent cut. Once it is taken, the running loop may go
on; with ``copy=True`` also its arrays are no longer looked at.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

import numpy as np

from . import diagnosis, main_module, random_state
from .archive import ArchiveWriter
from .array_rows import Beside, name_arrays, name_values
from .array_table import ArrayTable
from .contents import Contents, known_variables
from .errors import UnpicklableError
from .format import FORMAT, FORMAT_VERSION, ITERATION_STATE, LOG, MAIN, MANIFEST, RANDOM_STATE
from .log_sharing import Part, shared_parts
from .provenance import plain_status, saved_where, versions
from .zip_pickler import PicklerSettings, ZipPickler, own_value, write_pickles

__all__ = ["Snapshot", "take_snapshot"]

logger = logging.getLogger(__name__)


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
    """

    pickles: dict[str, bytes]
    arrays: list[tuple[str, np.ndarray[Any, Any]]]
    manifest: dict[str, Any]
    failure: UnpicklableError | None = None

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
    copy: bool = False,
    partial: bool = False,
    beside: Beside | None = None,
) -> Snapshot:
    """Take the snapshot.

    Parameters
    ----------
    contents : Contents
    settings : PicklerSettings, optional
    copy : bool
        Copy the arrays, so that training may go on while they are written.
    partial : bool
        If ``contents.main`` cannot be pickled, take the snapshot without it.
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
    failure = None
    beside = beside or Beside()
    try:
        pickles = _pickle(contents, settings, beside)
    except UnpicklableError as error:
        if not partial or contents.main is None:
            raise
        failure = error
        pickles = _pickle_without_main(contents, settings)
    pickled = time.perf_counter()
    snapshot = _assemble(contents, pickles, settings, beside, failure)
    if copy:
        snapshot.arrays = [(member, array.copy(order="K")) for member, array in snapshot.arrays]
    snapshot.manifest["cost"] = {
        "pickle": pickled - start,
        "copy": time.perf_counter() - pickled,
    }
    return snapshot


def main_module_places(
    contents: Contents, settings: PicklerSettings | None = None
) -> dict[str, str]:
    """Find where in ``contents`` functions of the main module hang.

    Returns
    -------
    dict of str to str
        Name of the function or class to the attribute path of what needs it.
    """
    settings = settings or PicklerSettings()
    reducers = ZipPickler(ArrayTable(), settings).reducers
    root = contents.main if contents.main is not None else contents.further
    return diagnosis.find_globals(
        root, contents.root_name, reducers=reducers, protocol=settings.protocol
    )


@dataclass
class _Pickles:
    """The pickles of one save, before the arrays are named."""

    table: ArrayTable
    members: dict[str, bytes] = field(default_factory=dict)
    exports: list[Part] = field(default_factory=list)
    export_bytes: int = 0
    reducers: Mapping[type, Callable[[Any], Any]] = field(default_factory=dict)


def _pickle(
    contents: Contents, settings: PicklerSettings, beside: Beside | None = None
) -> _Pickles:
    current = contents.root_name, contents.main

    def write(deep: bool) -> _Pickles:
        nonlocal current
        made = _Pickles((beside or Beside()).new_table())
        table = made.table

        def dump(pickler: ZipPickler, member: str, thing: Any, name: str) -> None:
            nonlocal current
            current, table.pickle = (name, thing), member
            made.members[member] = pickler.dump(thing)

        root = contents.root_name
        by_reference = [] if contents.log is None else [(LOG, contents.log)]
        chain = ZipPickler(table, replace(settings, members=by_reference), deep=deep)
        made.reducers = chain.reducers
        if contents.iteration_state is not None:
            dump(chain, ITERATION_STATE, contents.iteration_state, f"{root}.iteration_state")
        if contents.main is not None:
            parts = shared_parts(contents.log)
            prologue = chain.note_exports([part for _, part in parts]) if parts else b""
            made.exports, made.export_bytes = [way for way, _ in parts], len(prologue)
            dump(chain, MAIN, contents.main, root)
            made.members[MAIN] = prologue + made.members[MAIN]
        if contents.log is not None:
            # After the others: an array that they have, too, stays one array.
            pickler = ZipPickler(table, settings, deep=deep, self_contained=True)
            dump(pickler, LOG, contents.log, f"{root}.log")
        for name, thing in contents.further.items():
            dump(ZipPickler(table, settings, deep=deep), name, thing, f"{root}.{name}")
        return made

    try:
        return write_pickles(write)
    except RecursionError as error:
        raise UnpicklableError(
            f"{current[0]} is nested too deeply to be pickled, or a class in it calls itself "
            f"without end when asked for its state ({error}). "
            f"{_listing(_offenders(current, settings))}"
        ) from error
    except MemoryError:
        raise
    except Exception as error:
        offenders = _offenders(current, settings)
        raise UnpicklableError(
            f"{current[0]} cannot be pickled: {error}. {_listing(offenders)}", offenders=offenders
        ) from error


def _offenders(
    place: tuple[str, Any], settings: PicklerSettings
) -> list[diagnosis.Offender]:
    name, thing = place
    reducers = ZipPickler(ArrayTable(), settings).reducers
    return diagnosis.find_offenders(
        thing, name, reducers=reducers, protocol=settings.protocol
    )


def _listing(offenders: Sequence[diagnosis.Offender]) -> str:
    if not offenders:
        return "No object in it fails by itself; the error above is all that is known"
    lines = "".join(f"\n  - {offender}" for offender in offenders)
    return f"What stands in the way:{lines}"


def _pickle_without_main(contents: Contents, settings: PicklerSettings) -> _Pickles:
    """Pickle what can be pickled of everything but the main loop."""
    kept = Contents(root_name=contents.root_name)
    for name in (LOG, ITERATION_STATE):
        thing = getattr(contents, name)
        if thing is None:
            continue
        try:
            _pickle(Contents(**{name: thing}, root_name=contents.root_name), settings)
        except UnpicklableError as error:
            logger.error("%s is not saved: %s", name, error)
        else:
            setattr(kept, name, thing)
    made = _pickle(kept, settings)
    made.table.pickle = ""
    for variable in known_variables(contents.main):
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
    for variable in [*contents.parameters, *contents.statistics]:
        own_value(table, variable)
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
    if MAIN in described:
        described[MAIN]["exports"] = pickles.exports
        described[MAIN]["export_bytes"] = pickles.export_bytes
        described[MAIN]["follows"] = [ITERATION_STATE] if ITERATION_STATE in described else []
    if contents.iteration_state is not None:
        members[RANDOM_STATE] = random_state.capture()
    needs = _main_needs(contents, pickles, settings)
    manifest = _manifest(rows, described, contents.status, needs)
    manifest["limits"] = list(contents.limits)
    if failure is not None:
        manifest["main_loop_error"] = str(failure)
    return Snapshot(members, arrays, manifest, failure)


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


def _main_needs(
    contents: Contents, pickles: _Pickles, settings: PicklerSettings
) -> dict[str, Any] | None:
    """Say what the pickles need of the main module, and where it hangs."""
    if not any(main_module.mentions_main_module(content) for content in pickles.members.values()):
        return None
    things = {
        LOG: contents.log,
        ITERATION_STATE: contents.iteration_state,
        MAIN: contents.main,
        **contents.further,
    }
    written = [things[member] for member in pickles.members]
    names = main_module.needs_of(written, pickles.reducers, settings.protocol)
    if not names:
        return None
    script = main_module.script_of_process() or {"script": None, "sha256": None}
    # Where they hang takes a walk through the graph, and is found out by
    # whoever warns about it, once.
    return {"names": names, **script}
