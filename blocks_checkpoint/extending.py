"""A checkpoint with one more object in it.

The members that are there are taken over as they are; the new object's arrays
get numbers behind those that are in use.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .array_rows import Beside
from .contents import Contents
from .engines import stored_value
from .errors import NameConflict, SaveError
from .format import MANIFEST
from .naming import name_variables
from .snapshot import Snapshot, take_snapshot
from .zip_pickler import PicklerSettings

if TYPE_CHECKING:
    from .checkpoint_file import CheckpointFile

__all__ = ["extended"]


def extended(
    checkpoint: CheckpointFile,
    member: str,
    thing: Any,
    stored: Sequence[Any],
    settings: PicklerSettings,
) -> tuple[Snapshot, Snapshot]:
    """Take a snapshot of a checkpoint's content and one more object.

    Parameters
    ----------
    checkpoint : CheckpointFile
        Everything in it is read into memory.
    member : str
        For the new object.
    thing : object
    stored : sequence of shared variables
        Those whose values the checkpoint has, under the same names.
    settings : PicklerSettings

    Returns
    -------
    whole, new : Snapshot
        Of everything, and of the new object alone.

    Raises
    ------
    SaveError
        The file is not of this format.
    NameConflict
        The checkpoint has a member of that name, or does not have one of the
        variables.
    """
    if not hasattr(checkpoint, "archive"):
        raise SaveError(
            "this file was written by Blocks. Convert it first: blocks-checkpoint convert",
            path=checkpoint.path,
        )
    archive, manifest = checkpoint.archive, copy.deepcopy(checkpoint.manifest)
    if member in archive.members:
        raise NameConflict(f"there is a member {member!r} already", path=checkpoint.path)
    rows = manifest["arrays"]
    by_name = {row["name"]: row for row in rows}
    present = []
    for variable, each in zip(stored, name_variables(stored, parameters=stored)):
        row = by_name.get(each.name)
        if row is None or row["id"] is None:
            raise NameConflict(
                f"the variable {each.name!r} is not in the file. Leave it out of parameters to "
                "have it stored",
                path=checkpoint.path,
            )
        present.append((stored_value(variable), row["id"]))
    arrays = [(row["member"], checkpoint.read_row(row)) for row in rows]
    array_members = {row["member"] for row in rows}
    pickles = {
        name: [archive.read(name)]
        for name in archive.members
        if name not in array_members and name != MANIFEST
    }
    new = take_snapshot(
        Contents(further={member: thing}, root_name=member),
        settings=settings,
        beside=Beside(list(archive.members), rows, present),
    )
    # The model's parameters are those of the main object.
    kinds = {"parameter": "shared"}
    manifest["arrays"] += [
        {**row, "kind": kinds.get(row["kind"], row["kind"])} for row in new.manifest["arrays"]
    ]
    manifest["pickles"].update(new.manifest["pickles"])
    manifest["main_module"] = _both(manifest.get("main_module"), new.manifest["main_module"])
    pickles[member] = new.pickles[member]
    return Snapshot(pickles, arrays + new.arrays, manifest), new


def _both(
    present: Mapping[str, Any] | None, added: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """Put together what two pickles need of the main module."""
    if not present or not added:
        return dict(present or added or {}) or None
    return {**added, **present, "names": sorted({*present["names"], *added["names"]})}
