"""Main loop to snapshot: everything that a checkpoint will contain.

The snapshot is the consistent cut. Once it is taken, the running loop may go
on; with ``copy=True`` also its arrays are no longer looked at.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import socket
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, BinaryIO

import numpy as np

from . import diagnosis, main_module, random_state
from .archive import ArchiveWriter
from .array_table import ArrayTable, Plan, StoredArray, View
from .engines import loaded_versions
from .errors import SaveError, UnpicklableError
from .format import (
    CHAIN,
    FORMAT,
    FORMAT_VERSION,
    ITERATION_STATE,
    LOG,
    MAIN,
    MANIFEST,
    RANDOM_STATE,
    RESERVED,
)
from .log_sharing import Part, shared_parts
from .naming import (
    VariableNames,
    anonymous_member_names,
    member_names,
    name_variables,
    numbered,
    true_name,
)
from .resumption import limits_of
from .version import __version__
from .zip_pickler import PicklerSettings, ZipPickler, own_value, write_pickles

__all__ = ["Contents", "Snapshot", "take_snapshot"]

logger = logging.getLogger(__name__)

@dataclass
class Contents:
    """What is to be saved.

    Attributes
    ----------
    main : object
        The main loop, or whatever goes into ``pkl``; None to leave it out.
    log : object
        Pickled by itself, and referred to by ``main``; None to leave it out.
    iteration_state : object
        Likewise.
    further : dict of str to object
        More members; each is a copy that loads by itself.
    parameters : sequence of shared variables
        Those of the model, in its order. They are stored also where no
        pickle reaches them.
    given_names : mapping of str to shared variable
        What the model's ``get_parameter_dict`` returns.
    status : mapping
        Of the training, for the manifest.
    limits : sequence of str
        Descriptions of what will end the run, for the manifest.
    root_name : str
        What paths in messages begin with.
    """

    main: Any = None
    log: Any = None
    iteration_state: Any = None
    further: dict[str, Any] = field(default_factory=dict)
    parameters: Sequence[Any] = ()
    given_names: Mapping[str, Any] = field(default_factory=dict)
    status: Mapping[str, Any] = field(default_factory=dict)
    limits: Sequence[str] = ()
    root_name: str = "main_loop"

    @classmethod
    def of_main_loop(
        cls,
        main_loop: Any,
        *,
        parameters: Iterable[Any] | None = None,
        separately: Iterable[str] = (LOG, ITERATION_STATE),
        with_main_loop: bool = True,
    ) -> Contents:
        """Say what to save of a main loop.

        Parameters
        ----------
        main_loop : MainLoop
        parameters : iterable of shared variables, optional
            By default those of the main loop's model, or else those that its
            algorithm trains.
        separately : iterable of str
            Attributes of the main loop to save as members.
        with_main_loop : bool
            If true, the main loop is saved, its log and iteration state as
            members.

        Raises
        ------
        AttributeError
            The main loop has no attribute of a name in ``separately``.
        """
        model = getattr(main_loop, "model", None)
        algorithm = getattr(main_loop, "algorithm", None)
        if parameters is None:
            parameters = getattr(model, "parameters", None) or getattr(algorithm, "parameters", ())
        names = dict.fromkeys(separately)
        attributes = {name: getattr(main_loop, name) for name in names}
        if with_main_loop:
            attributes.setdefault(LOG, main_loop.log)
            attributes.setdefault(ITERATION_STATE, main_loop.iteration_state)
        get_names = getattr(model, "get_parameter_dict", None)
        return cls(
            main=main_loop if with_main_loop else None,
            log=attributes.pop(LOG, None),
            iteration_state=attributes.pop(ITERATION_STATE, None),
            further=attributes,
            parameters=list(parameters),
            given_names=get_names() if get_names else {},
            status=main_loop.log.status,
            limits=[limit.description for limit in limits_of(main_loop.extensions)],
        )


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
        names = [true_name(parameter_name) for parameter_name, _ in named]
        members = member_names(numbered(names))
        stored = [StoredArray(number, array) for number, (_, array) in enumerate(named)]
        rows = [
            array_row(each, member, name, parameter_name, "parameter")
            for each, member, name, (parameter_name, _) in zip(
                stored, members, numbered(names), named
            )
        ]
        arrays = [(member, each.array) for member, each in zip(members, stored)]
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


@dataclass
class Beside:
    """What a file has already that a snapshot is added to.

    Attributes
    ----------
    members : sequence of str
        Its members.
    rows : sequence of dict
        The manifest's rows of its arrays.
    stored : sequence of (numpy.ndarray, int)
        Live arrays whose values it has, and their numbers.
    """

    members: Sequence[str] = ()
    rows: Sequence[Mapping[str, Any]] = ()
    stored: Sequence[tuple[np.ndarray[Any, Any], int]] = ()

    def new_table(self) -> ArrayTable:
        numbers = [row["id"] for row in self.rows if row["id"] is not None]
        table = ArrayTable(CHAIN, first_number=max(numbers, default=-1) + 1)
        for array, number in self.stored:
            table.set_stored(array, number)
        return table

    def renumbered(self, names: list[VariableNames]) -> list[VariableNames]:
        """Number the names that the file has already."""
        count = len(self.rows)
        free = numbered([row["name"] for row in self.rows] + [each.name for each in names])
        free_parameter_names = numbered(
            [row["parameter_name"] for row in self.rows] + [each.parameter_name for each in names]
        )
        return [
            VariableNames(name, parameter_name, each.kind)
            for name, parameter_name, each in zip(
                free[count:], free_parameter_names[count:], names
            )
        ]


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
    made.table.pickle = MAIN
    for variable in known_variables(contents.main):
        own_value(made.table, variable)
    return made


def known_variables(main_loop: Any) -> list[Any]:
    """List the shared variables that can be had without walking the graph."""
    algorithm = getattr(main_loop, "algorithm", None)
    updated = [pair[0] for pair in getattr(algorithm, "updates", ()) or ()]
    in_model = list(getattr(getattr(main_loop, "model", None), "shared_variables", ()) or ())
    return [variable for variable in [*in_model, *updated] if hasattr(variable, "container")]


def _assemble(
    contents: Contents,
    pickles: _Pickles,
    settings: PicklerSettings,
    beside: Beside,
    failure: UnpicklableError | None,
) -> Snapshot:
    table = pickles.table
    table.pickle = MAIN
    for parameter in contents.parameters:
        own_value(table, parameter)
    plan = table.plan()
    rows, arrays = _name_arrays(contents, plan, beside)
    members = dict(pickles.members)
    described: dict[str, Any] = {}
    for member, content in members.items():
        pool = plan.pools.get(member)
        described[member] = {"protocol": settings.protocol, "bytes": len(content)}
        if pool:
            members[member] = content + pickle_pool(pool, settings.protocol)
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
        "saved": _saved_where(),
        "versions": _versions(),
        "status": _status(status),
        "arrays": rows,
        "pickles": pickles,
        "main_loop": "present" if MAIN in pickles else "absent",
        "main_module": needs,
    }


def pickle_pool(pool: Mapping[int, Any], protocol: int) -> bytes:
    entries = {
        number: entry.as_tuple() if isinstance(entry, View) else entry
        for number, entry in pool.items()
    }
    return pickle.dumps(entries, protocol)


def _name_arrays(
    contents: Contents, plan: Plan, beside: Beside
) -> tuple[list[dict[str, Any]], list[tuple[str, np.ndarray[Any, Any]]]]:
    """Name every stored array, and describe it for the manifest."""
    owned = [(stored, variable) for stored in plan.stored for variable in stored.variables]
    variables = [variable for _, variable in owned]
    names = name_variables(variables, parameters=contents.parameters, given=contents.given_names)
    names = beside.renumbered(names)
    members = member_names(
        [each.name for each in names],
        reserved=[*RESERVED, *contents.further, *beside.members],
    )
    anonymous = [stored for stored in plan.stored if not stored.variables]
    free = anonymous_member_names(len(anonymous), [*members, *beside.members])

    rows, arrays = [], []
    seen: set[int] = set()
    for (stored, _), each, member in zip(owned, names, members):
        row = array_row(stored, member, each.name, each.parameter_name, each.kind)
        if stored.number in seen:
            # Two variables of one array: each has a member to be read by, and
            # the number belongs to the first.
            row["id"] = None
        seen.add(stored.number)
        rows.append(row)
        arrays.append((member, stored.array))
    for stored, member in zip(anonymous, free):
        name = member[: -len(".npy")]
        rows.append(array_row(stored, member, name, name, "array"))
        arrays.append((member, stored.array))
    return rows, arrays


def array_row(
    stored: StoredArray, member: str, name: str, parameter_name: str, kind: str
) -> dict[str, Any]:
    array = stored.array
    row = {
        "name": name,
        "parameter_name": parameter_name,
        "member": member,
        "dtype": _dtype_name(array.dtype),
        "shape": list(array.shape),
        "order": "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C",
        "kind": kind,
        "id": stored.number,
    }
    if stored.view is not None:
        row["view_of"] = stored.view.of
    return row


def _dtype_name(dtype: np.dtype[Any]) -> str:
    # Types that numpy has no letter for (bfloat16) call themselves void.
    if dtype.kind == "V" and dtype.names is None and dtype.name.partition("[")[0] not in (
        "void",
        f"void{dtype.itemsize * 8}",
    ):
        return dtype.name
    return str(dtype.descr) if dtype.names else dtype.str


def _saved_where() -> dict[str, Any]:
    return {
        "time": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "script": getattr(sys.modules.get("__main__"), "__file__", None),
    }


def _versions() -> dict[str, str]:
    versions = {
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        "blocks_checkpoint": __version__,
        **loaded_versions(),
    }
    for name in ("blocks", "fuel", "h5py", "scipy"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if isinstance(version, str):
            versions[name] = version
    return versions


def _status(status: Mapping[str, Any]) -> dict[str, Any]:
    plain = (bool, int, float, str, type(None), np.generic)
    return {
        str(key): value
        for key, value in dict(status).items()
        if isinstance(value, plain) or key == "_epoch_ends"
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
