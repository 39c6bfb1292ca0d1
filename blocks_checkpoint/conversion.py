"""From what Blocks wrote to a checkpoint of today, and from any to other files.

A converted checkpoint has the parameters, the other arrays, the log and the
status. It has no main loop: that would take the Blocks, the Theano and the
script that made it. What stayed behind is listed, and noted in the manifest.
"""

from __future__ import annotations

import importlib
import os
import pickle
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .array_rows import Beside
from .checkpoint_file import open_checkpoint
from .commit import replacing
from .contents import Contents
from .errors import CheckpointError, LoadError, RefusedClass, SaveError
from .format import ITERATION_STATE, LOG, MAIN
from .legacy import LegacyCheckpoint, open_legacy
from .safe_unpickling.log_unpickler import load_log_pickle
from .safe_unpickling.vocabulary import shortened
from .snapshot import Snapshot, take_snapshot

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]
    Path = str | os.PathLike[str]

__all__ = ["convert", "export_npz", "export_safetensors", "require_npz"]

_PROTOCOL = 5
#: What safetensors has a word for.
_SAFETENSORS_KINDS = "biuf"


def convert(old: Path, new: Path, *, force: bool = False) -> dict[str, Any]:
    """Write a checkpoint from one that Blocks wrote, or from an npz.

    Parameters
    ----------
    old : str or os.PathLike
        A checkpoint of any Blocks, the folder of a dump, or an npz whose
        arrays are called as parameters are.
    new : str or os.PathLike
        Where to.
    force : bool
        Replace a file that is there.

    Returns
    -------
    dict
        ``source``, ``target``, ``kind``; ``parameters`` and ``arrays``, the
        names in the new file; ``log`` and ``status``; ``not_carried_over``, a
        list of sentences.

    Raises
    ------
    SaveError
        There is a file at ``new``, or it cannot be written.
    LoadError
        ``old`` is nothing that Blocks wrote, or cannot be read.
    """
    refuse_to_replace(new, force)
    with _open_old(old) as checkpoint:
        _refuse_the_same(old, new)
        left_behind = _what_stays(checkpoint)
        log = _log_of(checkpoint, left_behind)
        snapshot = _snapshot(checkpoint, log)
        manifest = checkpoint.manifest
        snapshot.manifest["converted"] = {
            "from": os.path.basename(os.path.normpath(os.fspath(old))),
            "kind": checkpoint.kind,
            "written_by": manifest["versions"]["blocks"],
            "saved": manifest["saved"]["time"],
            "not_carried_over": left_behind,
        }
        snapshot.manifest["main_loop_error"] = "this checkpoint was converted from one of Blocks"
    _write(snapshot.write, new, force, expected_bytes=snapshot.nbytes)
    rows = snapshot.manifest["arrays"]
    return {
        "source": os.fspath(old),
        "target": os.fspath(new),
        "kind": checkpoint.kind,
        "parameters": [row["parameter_name"] for row in rows if row["kind"] == "parameter"],
        "arrays": [row["name"] for row in rows if row["kind"] != "parameter"],
        "log": log is not None,
        "status": snapshot.manifest["status"],
        "not_carried_over": left_behind,
    }


def export_npz(source: Path, target: Path, *, force: bool = False) -> list[str]:
    """Write the parameters of any checkpoint to an npz.

    Parameters
    ----------
    source, target : str or os.PathLike
    force : bool
        Replace a file that is there.

    Returns
    -------
    list of str
        The names, as a model's ``get_parameter_dict`` has them.
    """
    refuse_to_replace(target, force)
    parameters = _parameters_of(source)

    def write(file: Any) -> None:
        # Not by numpy.savez, whose arrays come as keywords: one called
        # ``file`` could not be among them.
        with zipfile.ZipFile(file, "w") as archive:
            for name, array in parameters.items():
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)

    _write(write, target, force, expected_bytes=sum(a.nbytes for a in parameters.values()))
    return list(parameters)


def export_safetensors(source: Path, target: Path, *, force: bool = False) -> list[str]:
    """Write the parameters of any checkpoint to a safetensors file.

    Needs the package ``safetensors``.

    Parameters
    ----------
    source, target : str or os.PathLike
    force : bool
        Replace a file that is there.

    Returns
    -------
    list of str
        The names, as a model's ``get_parameter_dict`` has them.

    Raises
    ------
    SaveError
        The package is not installed, or an array is of a type for which the
        format has no word.
    """
    try:
        save = importlib.import_module("safetensors.numpy").save
    except ImportError as error:
        raise SaveError("this needs the package safetensors: pip install safetensors") from error
    refuse_to_replace(target, force)
    parameters = _parameters_of(source)
    strange = sorted(
        name
        for name, array in parameters.items()
        if array.dtype.kind not in _SAFETENSORS_KINDS or array.dtype.itemsize > 8
    )
    if strange:
        raise SaveError(
            f"safetensors has no type for {', '.join(strange)} "
            f"({parameters[strange[0]].dtype}); export to npz instead"
        )
    # It writes the memory as it lies, whatever the strides and byte order say.
    plain = {
        name: np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(array.shape)
        for name, array in parameters.items()
    }
    content: bytes = save(plain)
    _write(lambda file: file.write(content), target, force, expected_bytes=len(content))
    return list(parameters)


def require_npz(path: Path) -> None:
    """Raise if a file is no npz."""
    checkpoint = open_legacy(path)
    if checkpoint is None:
        raise LoadError("it is no npz", path=path)
    with checkpoint:
        if checkpoint.kind != "npz":
            written_by = checkpoint.manifest["versions"]["blocks"]
            raise LoadError(f"it is no npz; it was written by {written_by}", path=path)


def refuse_to_replace(path: Path, force: bool) -> None:
    """Raise if there is something at a path, and it is not to be replaced."""
    if os.path.lexists(path) and not force:
        raise SaveError("there is a file of that name. force=True (--force) replaces it", path=path)


def _refuse_the_same(old: Path, new: Path) -> None:
    if os.path.exists(new) and os.path.samefile(old, new):
        raise SaveError(
            "the new file would replace the old one, which has more in it than is carried over. "
            "Choose another name",
            path=new,
        )


def _write(write: Callable[[Any], Any], path: Path, force: bool, *, expected_bytes: int) -> None:
    # Looked at again when all is written: others may have been quicker.
    with replacing(
        path,
        expected_bytes=expected_bytes,
        check=lambda partial: refuse_to_replace(path, force),
    ) as file:
        write(file)


def _open_old(old: Path) -> LegacyCheckpoint:
    checkpoint = open_legacy(old)
    if checkpoint is not None:
        return checkpoint
    try:
        open_checkpoint(old).close()
    except CheckpointError as error:
        raise LoadError(
            f"it is nothing that Blocks wrote, and no npz: {error.message}", path=old
        ) from error
    raise LoadError(
        "it is a checkpoint of this package already. Its parameters can be exported "
        "(--to npz, --to safetensors)",
        path=old,
    )


def _parameters_of(source: Path) -> dict[str, Array]:
    with open_checkpoint(source) as checkpoint:
        rows = [row for row in checkpoint.manifest["arrays"] if row["kind"] == "parameter"]
        arrays = checkpoint.read_rows(rows)
    if not rows:
        raise LoadError("there are no parameters in it", path=source)
    return {row["parameter_name"]: array for row, array in zip(rows, arrays)}


def _what_stays(checkpoint: LegacyCheckpoint) -> list[str]:
    """Say in sentences what of an old checkpoint has no place in a new one."""
    left = []
    for member in checkpoint.manifest["pickles"]:
        if member == MAIN:
            left.append("the main loop (model, algorithm, extensions): it is a pickle of Blocks")
        elif member == ITERATION_STATE:
            left.append("the iteration state (place in the data): it is a pickle of Blocks")
        elif member != LOG:
            left.append(f"{member!r}, which was saved separately: it is a pickle of Blocks")
    if checkpoint.doubtful_names:
        left += [
            f"certainty about the name {name!r}: it may have been {other!r}"
            for name, other in checkpoint.doubtful_names.items()
        ]
    return left


def _log_of(checkpoint: LegacyCheckpoint, left_behind: list[str]) -> Any:
    """Read the log, without what a new one may not hold; None if there is none."""
    if not {LOG, MAIN}.intersection(checkpoint.manifest["pickles"]):
        return None
    try:
        log = checkpoint.log()
    except LoadError as error:
        left_behind.append(f"the log: {error.message}")
        return None
    if not _is_readable(log):
        for time in list(log):
            for name, value in list(log[time].items()):
                if not _is_readable(value):
                    del log[time][name]
                    left_behind.append(
                        f"the record {shortened(name)} of iteration {time}: "
                        f"it is {shortened(value)}"
                    )
    return log


def _is_readable(thing: Any) -> bool:
    """Tell whether the unpickler of logs will read a thing."""
    try:
        load_log_pickle(pickle.dumps(thing, _PROTOCOL))
    except (RefusedClass, LoadError, pickle.PicklingError, TypeError, AttributeError):
        return False
    return True


def _snapshot(checkpoint: LegacyCheckpoint, log: Any) -> Snapshot:
    old_rows: Sequence[Mapping[str, Any]] = checkpoint.manifest["arrays"]
    values = checkpoint.read_rows(old_rows)
    named = [(row["parameter_name"], value) for row, value in zip(old_rows, values)]
    arrays = Snapshot.of_arrays(named)
    rows = arrays.manifest["arrays"]
    for row, old_row in zip(rows, old_rows):
        row["kind"] = old_row["kind"]
    if log is None:
        return arrays
    members = [member for member, _ in arrays.arrays]
    snapshot = take_snapshot(
        Contents(log=log, status=log.status, root_name="log"), beside=Beside(members, rows)
    )
    snapshot.arrays = arrays.arrays + snapshot.arrays
    snapshot.manifest["arrays"] = rows + snapshot.manifest["arrays"]
    return snapshot
