"""Which of several files to go on from: the newest good one.

A place is a file, a folder, or a pattern such as ``runs/*.zip``. A single file
is taken as it is. Of several, the newest good one is taken: newest by the
iteration that is recorded in it, since names and file times say what somebody
did with the files since; good if every byte of it is as it was written. Each
file that is passed over for a reason is reported with it, and stays where it
is.
"""

from __future__ import annotations

import glob
import logging
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Union

from .archive import ArchiveReader
from .checkpoint_file import open_checkpoint
from .errors import CheckpointError, CheckpointNotFound, NoGoodCheckpoint
from .format import LOG, MAIN, MANIFEST

__all__ = ["Candidate", "candidate_paths", "newest_first", "open_newest"]

logger = logging.getLogger(__name__)

Place = Union[str, "os.PathLike[str]"]

#: How files are called that are checkpoints, whatever has become of their content.
_SUFFIXES = (".zip", ".tar")
_PARTIAL_SUFFIX = ".partial"
_HEAD_BYTES = 512
#: A zip archive ends with this and 18 bytes more, when it has no comment.
_END_MARK, _END_BYTES = b"PK\x05\x06", 22


@dataclass(frozen=True)
class Candidate:
    """What decides between two files.

    Attributes
    ----------
    path : str
    iterations_done : int
        As recorded in it; -1 where nothing is.
    has_main_loop : bool
    saved_at : str
        Time in ISO 8601, as recorded in it.
    why_no_main_loop : str
        As recorded in it; empty where nothing is.
    """

    path: str
    iterations_done: int = -1
    has_main_loop: bool = False
    saved_at: str = ""
    why_no_main_loop: str = ""


def newest_first(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Put candidates into the order in which to try them.

    Of two of the same iteration the one that has a main loop comes first,
    then the one that was saved later.
    """
    return sorted(
        candidates,
        key=lambda each: (each.iterations_done, each.has_main_loop, each.saved_at, each.path),
        reverse=True,
    )


def candidate_paths(place: Place) -> list[str] | None:
    """List the files that a folder or a pattern stands for.

    Parameters
    ----------
    place : str or os.PathLike

    Returns
    -------
    list of str or None
        None if ``place`` is the path of a single file, there or not.
    """
    place = os.fsdecode(place)
    if os.path.isdir(place):
        return None if _is_old_dump(place) else _in_folder(place)
    # A file may well be called ``run[1].zip``.
    if os.path.lexists(place) or not glob.has_magic(place):
        return None
    return _without_twins(
        path
        for path in glob.glob(place, recursive=True)
        if not path.endswith(_PARTIAL_SUFFIX) and (not os.path.isdir(path) or _is_old_dump(path))
    )


def open_newest(
    place: Place, *, needs_main_loop: bool = False, missing_ok: bool = False
) -> Any | None:
    """Open the file at ``place``, or the newest good one there.

    Parameters
    ----------
    place : str or os.PathLike
        A file, a folder or a pattern.
    needs_main_loop : bool
        Pass over files without a main loop.
    missing_ok : bool
        Return None if there is nothing at all at ``place``.

    Returns
    -------
    CheckpointFile or None
        To be closed.

    Raises
    ------
    CheckpointNotFound
        There is nothing.
    NoGoodCheckpoint
        There are several files, and none is good. The error lists them all.
    LoadError
        There is one file, and it cannot be read.
    """
    place = os.fsdecode(place)
    paths = candidate_paths(place)
    if missing_ok and (not paths if paths is not None else not os.path.lexists(place)):
        logger.warning("there is no checkpoint %s; training starts afresh", place)
        return None
    if paths is None:
        return open_checkpoint(place)
    if not paths:
        what = "folder" if os.path.isdir(place) else "place; no file matches the pattern"
        raise CheckpointNotFound(f"there is no checkpoint in this {what}", path=place)
    return _open_best(place, paths, needs_main_loop)


def _open_best(place: str, paths: Sequence[str], needs_main_loop: bool) -> Any:
    rejected: list[tuple[str, str]] = []

    def reject(path: str, reason: str) -> None:
        logger.warning("%s is passed over: %s", path, reason)
        rejected.append((path, reason))

    candidates = []
    for path in paths:
        try:
            candidate = _looked_at(path)
        except (CheckpointError, OSError) as error:
            reject(path, _reason(error))
            continue
        if needs_main_loop and not candidate.has_main_loop:
            reject(path, _without_main_loop(candidate))
        else:
            candidates.append(candidate)
    for candidate in newest_first(candidates):
        try:
            return _verified(candidate.path)
        except (CheckpointError, OSError) as error:
            reject(candidate.path, _reason(error))
    listed = "".join(f"\n  - {path}: {reason}" for path, reason in rejected)
    raise NoGoodCheckpoint(
        f"none of the {len(rejected)} files there can be used:{listed}",
        rejected=rejected,
        path=place,
    )


def _without_main_loop(candidate: Candidate) -> str:
    why = candidate.why_no_main_loop
    said = "it has no main loop; Resume(path) in a script can use it"
    return f"{said}. Why was noted on saving: {why}" if why else said


def _looked_at(path: str) -> Candidate:
    with open_checkpoint(path) as checkpoint:
        manifest = checkpoint.manifest
        done = manifest["status"].get("iterations_done")
        saved = manifest.get("saved")
        return Candidate(
            path,
            done if isinstance(done, int) else -1,
            manifest.get("main_loop") == "present" and MAIN in manifest["pickles"],
            str(saved.get("time", "")) if isinstance(saved, dict) else "",
            str(manifest.get("main_loop_error") or ""),
        )


def _verified(path: str) -> Any:
    """Open a checkpoint of which every byte is as it was written."""
    checkpoint = open_checkpoint(path)
    try:
        for damage in checkpoint.verify():
            raise CheckpointError(damage.reason, path=path, member=damage.member)
    except BaseException:
        checkpoint.close()
        raise
    return checkpoint


def _reason(error: CheckpointError | OSError) -> str:
    if not isinstance(error, CheckpointError):
        return error.strerror or type(error).__name__
    return f"member {error.member!r}: {error.message}" if error.member else error.message


# Folders


def _in_folder(folder: str) -> list[str]:
    """List the files of a folder that are checkpoints, or were.

    The other files of a folder are nobody's candidates: a script that lies
    there must not keep a first run from starting.
    """
    paths = [
        os.path.join(folder, name)
        for name in sorted(os.listdir(folder))
        if not name.startswith(".") and not name.endswith(_PARTIAL_SUFFIX)
    ]
    kinds = {path: _kind(path) for path in paths}
    suffixes = {
        *_SUFFIXES,
        *(os.path.splitext(path)[1] for path, kind in kinds.items() if kind == "checkpoint"),
    } - {""}
    return _without_twins(
        path
        for path, kind in kinds.items()
        if kind in ("checkpoint", "damaged")
        or (kind == "unknown" and os.path.splitext(path)[1] in suffixes)
    )


def _kind(path: str) -> str:
    """Say what a file in a folder is: 'checkpoint', 'damaged', 'unknown' or 'other'."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return "other"
        with open(path, "rb") as file:
            head = file.read(_HEAD_BYTES)
            file.seek(max(0, os.fstat(file.fileno()).st_size - _END_BYTES))
            tail = file.read(_END_BYTES)
    except OSError:
        # It cannot be looked into; whether that matters, its name says.
        return "unknown"
    if head.startswith(b"PK\x03\x04"):
        return _kind_of_zip(path)
    if head[257:262] == b"ustar" or (head[:1] == b"\x80" and b"blocks." in head[:200]):
        return "checkpoint"
    if tail.startswith(_END_MARK) or (head and not head.strip(b"\x00")):
        return "damaged"
    return "unknown"


def _kind_of_zip(path: str) -> str:
    try:
        archive = ArchiveReader(path)
    except (CheckpointError, OSError):
        return "damaged"
    try:
        # An archive of something else: a data set, a wheel.
        is_ours = not archive.members.keys().isdisjoint((MANIFEST, MAIN, LOG))
    finally:
        archive.close()
    return "checkpoint" if is_ours else "other"


def _is_old_dump(folder: str) -> bool:
    """Tell whether a folder is itself a checkpoint, as the first Blocks made them."""
    from .legacy import open_legacy

    try:
        found = open_legacy(folder)
    except CheckpointError:
        return True
    if found is None:
        return False
    found.close()
    return True


def _without_twins(paths: Iterable[str]) -> list[str]:
    """Leave out links to files that are there under their own name, too."""
    by_file: dict[str, str] = {}
    for path in sorted(paths, key=lambda path: (os.path.islink(path), path)):
        by_file.setdefault(os.path.realpath(path), path)
    return sorted(by_file.values())
