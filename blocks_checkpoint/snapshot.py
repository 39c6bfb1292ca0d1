"""Main loop to snapshot: everything that a checkpoint will contain.

The snapshot is the consistent cut. Once it is taken, the running loop may go
on; if its arrays were copied into an arena, they are no longer looked at.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np

from . import main_module
from .archive import ArchiveWriter
from .arena import Arena, Copies
from .array_rows import Beside, name_arrays, name_values
from .contents import Contents
from .cost import SaveCost
from .engines import stored_value, variables_made
from .errors import CheckpointWarning, SaveError, UnpicklableError
from .fast_json import rows_to_json
from .format import (
    EXTENSION_STATES,
    FORMAT,
    FORMAT_VERSION,
    ITERATION_STATE,
    MAIN,
    MANIFEST,
    RANDOM_STATE,
)
from .garbage import no_garbage_collection
from .pickled_contents import PickledContents, pickle_contents, pickle_without_main
from .pickling import random_state
from .pickling.generator_variables import describe_values
from .provenance import plain_status, saved_where, versions
from .zip_pickler import (
    PicklerSettings,
    own_value,
)

__all__ = ["Snapshot", "take_snapshot"]


@dataclass
class Snapshot:
    """What goes into a checkpoint, cut loose from the running loop.

    Attributes
    ----------
    pickles : dict of str to list of bytes
        Member name to content, in pieces.
    arrays : list of (str, numpy.ndarray)
        Member name and values.
    manifest : dict
        Without the cost.
    cost : SaveCost
        What was spent on it so far.
    failure : UnpicklableError or None
        Why the main loop is not part of it, if it should have been.
    copies : Copies or None
        The memory of the arrays, if they are copies.
    crcs : dict of str to int
        Member name to the CRC-32 of the array's bytes, where it is known.
    """

    pickles: dict[str, list[bytes]]
    arrays: list[tuple[str, np.ndarray[Any, Any]]]
    manifest: dict[str, Any]
    cost: SaveCost = field(default_factory=SaveCost)
    failure: UnpicklableError | None = None
    copies: Copies | None = field(default=None, repr=False)
    crcs: dict[str, int] = field(default_factory=dict, repr=False)

    @classmethod
    def of_arrays(cls, named: Sequence[tuple[str, np.ndarray[Any, Any]]]) -> Snapshot:
        """Make a snapshot of arrays alone.

        Parameters
        ----------
        named : sequence of (str, numpy.ndarray)
            Parameter names, all different, and values.
        """
        with no_garbage_collection(len(named)):
            rows, arrays = name_values(named)
        manifest = _manifest(rows, {}, {}, None)
        return cls({}, arrays, manifest)

    def copy_into(self, arena: Arena) -> None:
        """Copy the arrays, so that the originals may change."""
        members = [member for member, _ in self.arrays]
        self.copies = arena.copy(array for _, array in self.arrays)
        self.arrays = list(zip(members, self.copies.arrays))
        self.crcs = {
            member: crc for member, crc in zip(members, self.copies.crcs) if crc is not None
        }

    def release(self) -> None:
        """Give back the memory of the copies; nothing can be written then."""
        if self.copies is not None:
            self.arrays = []
            self.copies.release()

    @property
    def nbytes(self) -> int:
        """Size of the content in bytes; the file is a little larger."""
        arrays = sum(array.nbytes for _, array in self.arrays)
        return arrays + sum(len(piece) for content in self.pickles.values() for piece in content)

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
            archive.add_arrays(self.arrays, self.crcs)
            self.cost.write = time.perf_counter() - start
            self.cost.checksum = archive.checksum_seconds
            # The last member: a reader gets it and the directory behind it
            # with one read from the end of the file.
            cost = self.cost.known_before_the_end()
            archive.add_bytes(MANIFEST, _to_json({**self.manifest, "cost": cost}))


def _to_json(manifest: Mapping[str, Any]) -> bytes:
    rows = manifest["arrays"]
    rest = {key: value for key, value in manifest.items() if key != "arrays"}
    # Nothing in it holds itself: states of extensions were JSON before.
    text = json.dumps(rest, default=_plain, check_circular=False).encode()
    with no_garbage_collection(len(rows)):
        return b'%s, "arrays": %s}' % (text[:-1], rows_to_json(rows))


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
        pickled = pickle_contents(contents, settings, beside)
    else:
        pickled = pickle_without_main(contents, settings)
    snapshot = _assemble(contents, pickled, settings, beside, without_main)
    end = time.perf_counter()
    snapshot.cost.pickle = end - start
    if arena is not None:
        snapshot.copy_into(arena)
        snapshot.cost.copy = time.perf_counter() - end
    return snapshot


def _assemble(
    contents: Contents,
    pickled: PickledContents,
    settings: PicklerSettings,
    beside: Beside,
    failure: UnpicklableError | None,
) -> Snapshot:
    table = pickled.table
    table.pickle = MAIN if MAIN in pickled.members else ""
    owned = [*contents.parameters, *contents.statistics]
    _report_unstored(
        [variable for variable in owned if not own_value(table, variable)],
        elsewhere=MAIN in pickled.members or failure is not None,
    )
    plan = table.plan()
    rows, arrays = name_arrays(contents, plan, beside)
    members = dict(pickled.members)
    described: dict[str, Any] = {}
    for member, content in members.items():
        pool = plan.pickled_pool(member, settings.protocol)
        nbytes = sum(map(len, content))
        described[member] = {"protocol": settings.protocol, "bytes": nbytes}
        if pool:
            members[member] = [*content, pool]
            described[member]["pool"] = True
        if member in pickled.exports:
            exports, export_bytes = pickled.exports[member]
            described[member].update(exports=exports, export_bytes=export_bytes)
    if MAIN in described:
        described[MAIN]["follows"] = [ITERATION_STATE] if ITERATION_STATE in described else []
    if contents.iteration_state is not None:
        members[RANDOM_STATE] = [
            random_state.capture(describe_values(table.others), contents.generators)
        ]
    if any(contents.states.values()):
        members[EXTENSION_STATES] = [json.dumps(contents.states).encode()]
    needs = _main_needs(pickled)
    manifest = _manifest(rows, described, contents.status, needs)
    manifest["limits"] = list(contents.limits)
    manifest["variables_made"] = variables_made()
    if contents.reads_ahead:
        manifest["reads_ahead"] = list(contents.reads_ahead)
    if failure is not None:
        manifest["main_loop_error"] = str(failure)
    return Snapshot(members, arrays, manifest, failure=failure)


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


def _main_needs(pickled: PickledContents) -> dict[str, Any] | None:
    """Say what the pickles need of the main module, and which script that is."""
    needed = pickled.needed_of_main_module()
    if not needed:
        return None
    modules = sorted(set(needed.values()))
    script = main_module.script_of(modules[-1]) or {"script": None, "sha256": None}
    # Where they hang takes a walk through the graph, and is found out by
    # whoever warns about it, once.
    return {"names": sorted(needed), **script}
