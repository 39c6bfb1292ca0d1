"""What there is to say about a checkpoint, before it is laid out as text.

A :class:`Summary` is made from the manifest alone: nothing is unpickled and no
engine is imported.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy

from ..errors import LoadError
from ..proving import proof_of

if TYPE_CHECKING:
    from ..checkpoint_file import CheckpointFile

__all__ = ["ArrayLine", "Summary", "summarize"]


@dataclass(frozen=True)
class ArrayLine:
    """One array of a checkpoint.

    Attributes
    ----------
    name : str
        As the model's ``get_parameter_dict`` gives it, for a parameter;
        otherwise as the manifest has it.
    kind : str
        ``parameter``, ``buffer``, ``shared`` or ``array``.
    shape : tuple
    dtype : str
    nbytes : int or None
        Size of the values in bytes; None where it cannot be found out.
    member : str
        Name in the zip file.
    """

    name: str
    kind: str
    shape: tuple[Any, ...]
    dtype: str
    nbytes: int | None
    member: str


@dataclass(frozen=True)
class Summary:
    """One checkpoint at a glance.

    Attributes
    ----------
    path : str
    file_bytes : int
        Size of the whole file, or of the files in a folder.
    format : str
        ``blocks_checkpoint``, or ``blocks`` for what Blocks wrote.
    format_version : int or None
        Of our own format.
    kind : str or None
        How Blocks wrote it.
    main_loop : str
        ``present`` or ``absent``.
    main_loop_error : str or None
        Why the main loop is absent.
    status : dict
        Iterations and epochs done, and whatever else the log's status has.
    saved : dict
        When, where and by which script.
    versions : dict
        Of Python and the packages that wrote the file.
    parameters, others : list of ArrayLine
    cost : dict of str to float
        Seconds that the steps of the save took, as far as they were over when
        the file was written.
    cost_of_save_before : dict of str to float
        Those of the save before, of the same process, all of them.
    pickles : list of str
        Names of the pickle members; loading them runs code.
    proof : dict or None
        Whether a fresh process has loaded the file completely, see
        ``Checkpoint(prove=True)``.
    """

    path: str
    file_bytes: int
    format: str
    format_version: int | None
    kind: str | None
    main_loop: str
    main_loop_error: str | None
    status: dict[str, Any]
    saved: dict[str, Any]
    versions: dict[str, Any]
    parameters: list[ArrayLine]
    others: list[ArrayLine]
    cost: dict[str, float]
    cost_of_save_before: dict[str, float]
    pickles: list[str]
    proof: dict[str, Any] | None

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON, with totals."""
        plain = asdict(self)
        plain["totals"] = {
            "parameters": total_bytes(self.parameters),
            "others": total_bytes(self.others),
        }
        return plain


def total_bytes(lines: list[ArrayLine]) -> int:
    """Add up the sizes that are known, in bytes."""
    return sum(line.nbytes or 0 for line in lines)


def summarize(checkpoint: CheckpointFile) -> Summary:
    """Collect what :class:`Summary` holds from an open checkpoint."""
    manifest = checkpoint.manifest
    lines = [_array_line(checkpoint, row) for row in manifest.get("arrays", ())]
    path = os.fspath(checkpoint.path or "")
    proof = proof_of(path) if path else None
    return Summary(
        path=path,
        file_bytes=_file_bytes(path),
        format=manifest["format"],
        format_version=manifest.get("format_version"),
        kind=manifest.get("kind"),
        main_loop=manifest.get("main_loop", "absent"),
        main_loop_error=manifest.get("main_loop_error"),
        status=dict(manifest.get("status", {})),
        saved=dict(manifest.get("saved", {})),
        versions=dict(manifest.get("versions", {})),
        parameters=[line for line in lines if line.kind == "parameter"],
        others=[line for line in lines if line.kind != "parameter"],
        cost=_cost(manifest.get("cost")),
        cost_of_save_before=_cost(manifest.get("cost_of_save_before")),
        pickles=sorted(manifest.get("pickles", {})),
        proof=None if proof is None else asdict(proof),
    )


def _cost(cost: Any) -> dict[str, float]:
    # Nobody but this reads it, so nobody has looked at it.
    pairs = cost.items() if isinstance(cost, dict) else ()
    return {step: float(taken) for step, taken in pairs if type(taken) in (int, float)}


def _file_bytes(path: str) -> int:
    # The first checkpoints of Blocks are folders.
    if os.path.isdir(path):
        return sum(entry.stat().st_size for entry in os.scandir(path) if entry.is_file())
    return os.path.getsize(path)


def _array_line(checkpoint: CheckpointFile, row: dict[str, Any]) -> ArrayLine:
    return ArrayLine(
        name=row.get("parameter_name") or row["name"],
        kind=row["kind"],
        shape=tuple(row["shape"]),
        dtype=str(row["dtype"]),
        nbytes=_nbytes(checkpoint, row),
        member=row["member"],
    )


def _nbytes(checkpoint: CheckpointFile, row: dict[str, Any]) -> int | None:
    try:
        itemsize = int(numpy.dtype(row["dtype"]).itemsize)
        return itemsize * prod(int(length) for length in row["shape"])
    except (TypeError, ValueError):
        # Structured, or a type that numpy lacks: its own header has the size.
        pass
    archive = getattr(checkpoint, "archive", None)
    try:
        return None if archive is None else int(archive.array_header(row["member"]).nbytes)
    except LoadError:
        return None
