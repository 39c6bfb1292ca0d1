"""Which checkpoints there are in a folder, by what their manifests say."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from ..candidates import candidate_paths
from ..checkpoint_file import CheckpointFile, open_checkpoint
from ..errors import CheckpointError, CheckpointNotFound
from ..format import FORMAT
from . import Policy, Saved
from .policy_forms import from_plain

__all__ = ["Entry", "Survey", "by_iteration", "is_whole", "read_entry", "survey", "targets_of"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Entry:
    """A checkpoint in a folder, by its manifest.

    Attributes
    ----------
    path : str
    file_bytes : int
    format : str
        ``blocks_checkpoint``, or ``blocks`` for what Blocks wrote.
    iteration, epoch : int or None
        How many were done; None if the file does not say.
    time : float or None
        When it was saved, in seconds since 1970.
    records : dict of str to object
        The values recorded last.
    is_complete : bool
        False if the main loop had to be left out.
    series : str or None
        The series that it belongs to, if any.
    number : int or None
        Its number in the series.
    policy : Policy or None
        What the series was kept by when it was saved.
    """

    path: str
    file_bytes: int
    format: str = FORMAT
    iteration: int | None = None
    epoch: int | None = None
    time: float | None = None
    records: dict[str, Any] = field(default_factory=dict)
    is_complete: bool = True
    series: str | None = None
    number: int | None = None
    policy: Policy | None = None

    def as_saved(self, verified: bool | None = None) -> Saved:
        """Return what policies see of it."""
        return Saved(
            path=self.path,
            iteration=self.iteration or 0,
            epoch=self.epoch or 0,
            time=self.time,
            records=self.records,
            verified=verified,
            is_complete=self.is_complete,
        )


def read_entry(path: str | os.PathLike[str], *, old_ones: bool = False) -> Entry:
    """Read what a checkpoint says of itself. Nothing is unpickled.

    Parameters
    ----------
    path : str or os.PathLike
    old_ones : bool
        Read also what Blocks wrote.

    Raises
    ------
    LoadError
        It cannot be read, or is no checkpoint.
    OSError
        From the file system.
    """
    path = os.fspath(path)
    with open_checkpoint(path) if old_ones else CheckpointFile(path) as checkpoint:
        manifest = checkpoint.manifest
    status = manifest.get("status") or {}
    series = _dict(manifest.get("series"))
    return Entry(
        path=path,
        file_bytes=_size(path),
        format=manifest["format"],
        iteration=_count(status.get("iterations_done")),
        epoch=_count(status.get("epochs_done")),
        time=_seconds(_dict(manifest.get("saved")).get("time")),
        records=_dict(manifest.get("records")),
        is_complete=not manifest.get("main_loop_error"),
        series=series["id"] if isinstance(series.get("id"), str) else None,
        number=_count(series.get("number")),
        policy=from_plain(series.get("keep")),
    )


def _size(path: str) -> int:
    if os.path.isdir(path):
        return sum(entry.stat().st_size for entry in os.scandir(path) if entry.is_file())
    return os.path.getsize(path)


# The manifest may be a stranger's: what is not of the kind it should be is
# as good as not there.


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _seconds(value: Any) -> float | None:
    try:
        return datetime.fromisoformat(value).timestamp()
    except (OverflowError, TypeError, ValueError):
        return None


@dataclass(frozen=True)
class Survey:
    """What there is in a folder.

    Attributes
    ----------
    entries : list of Entry
        The oldest first, by iteration; those without come before all.
    unreadable : list of (str, str)
        Path and reason of what seems to be a checkpoint and cannot be read.
    linked : set of str
        What symbolic links in the folder point to.
    """

    entries: list[Entry]
    unreadable: list[tuple[str, str]]
    linked: set[str]

    def by_series(self) -> dict[str | None, list[Entry]]:
        """Return the entries of each series; None has those that belong to none."""
        groups: dict[str | None, list[Entry]] = {}
        for entry in self.entries:
            series = None if entry.iteration is None else entry.series
            groups.setdefault(series, []).append(entry)
        return groups


def survey(folder: str | os.PathLike[str]) -> Survey:
    """Look at every checkpoint in a folder, whoever wrote it.

    What a symbolic link points to is listed once. One that points out of the
    folder is listed as well, as belonging to no series.

    Raises
    ------
    OSError
        The folder cannot be read.
    """
    with os.scandir(folder) as listed:
        links = [item.path for item in listed if item.is_symlink()]
    paths = candidate_paths(folder)
    entries, unreadable = [], []
    # None: the folder is itself a checkpoint, as the first Blocks made them.
    for path in [os.fspath(folder)] if paths is None else paths:
        try:
            entry = read_entry(path, old_ones=True)
        except CheckpointNotFound:
            logger.info("%s is gone already", path)
        except (CheckpointError, OSError) as error:
            unreadable.append((path, getattr(error, "message", str(error))))
        else:
            entries.append(replace(entry, series=None) if os.path.islink(path) else entry)
    return Survey(sorted(entries, key=by_iteration), unreadable, targets_of(links))


def by_iteration(entry: Entry) -> tuple[Any, ...]:
    """Sort entries by this: the newest comes last."""

    def known(value: float | None) -> float:
        return -1 if value is None else value

    return known(entry.iteration), known(entry.epoch), known(entry.time), entry.path


def targets_of(links: Iterable[str]) -> set[str]:
    """Return what symbolic links point to in the end."""
    return {os.path.realpath(link) for link in links}


def is_whole(path: str | os.PathLike[str]) -> bool:
    """Tell whether every byte of a checkpoint is as it was written."""
    try:
        with open_checkpoint(path) as checkpoint:
            return not checkpoint.verify()
    except (CheckpointError, OSError):
        return False
