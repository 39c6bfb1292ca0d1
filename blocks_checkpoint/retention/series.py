"""The files that belong together: what one run saved under one template.

A checkpoint says in its manifest which series it belongs to. The identifier
of a series is made from one that is in the status of the log, and from the
name of the template: whoever goes on with the log goes on with the series,
wherever the folder is by then, and a run with a log of its own has a series
of its own. What another series wrote is never deleted.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, MutableMapping
from typing import Any

from ..errors import CheckpointError
from . import Policy, Saved, to_delete
from .path_template import PathTemplate
from .policy_forms import to_plain
from .survey import Entry, by_iteration, read_entry, targets_of

__all__ = ["PROOF_SUFFIX", "Series", "apply", "series_id"]

logger = logging.getLogger(__name__)

#: Where the status of a log has what the identifiers of series are made from.
STATUS_KEY = "checkpoint_series"


def series_id(status: MutableMapping[str, Any], name: str) -> str:
    """Return the identifier of a run's series.

    Parameters
    ----------
    status : mapping
        Of the log. Gets an entry if it has none.
    name : str
        What tells the series from the others of the run: the last part of
        its path, with fields.
    """
    try:
        root = uuid.UUID(status.get(STATUS_KEY))
    except (AttributeError, TypeError, ValueError):
        root = uuid.uuid4()
        status[STATUS_KEY] = root.hex
    return uuid.uuid5(root, name).hex


#: Follows the name of a checkpoint in that of its proof (see :mod:`..proving`).
PROOF_SUFFIX = ".proof.json"


def apply(paths: Iterable[str]) -> list[str]:
    """Delete files, and their proofs.

    What cannot be deleted is logged and left: a file that somebody else has
    removed, or one in a folder that is read-only, is no reason to stop.

    Returns
    -------
    list of str
        Those that were deleted.
    """
    deleted = []
    for path in paths:
        try:
            os.unlink(path)
        except FileNotFoundError:
            logger.info("%s is gone already", path)
        except OSError as error:
            logger.warning("%s was to be deleted, and cannot be: %s", path, error)
        else:
            deleted.append(path)
            with contextlib.suppress(OSError):
                os.unlink(f"{path}{PROOF_SUFFIX}")
    return deleted


#: Tells whether a file is the one that was read: device, number, size, time.
_Signature = tuple[int, int, int, int]


class Series:
    """The files of one run under one template, known from their manifests.

    Each file is opened once, unless it changes. A pickle takes identifier and
    template along, and nothing of what was found.

    Parameters
    ----------
    identifier : str
        See :func:`series_id`.
    template : PathTemplate
        Files that it cannot have named are none of the series.
    """

    def __init__(self, identifier: str, template: PathTemplate) -> None:
        self.identifier = identifier
        self.template = template
        # None stands for a file that is none of ours, or cannot be read.
        self._known: dict[str, tuple[_Signature, Entry | None]] = {}
        self._verified: set[tuple[str, _Signature]] = set()
        self._last_number: int | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.identifier, self.template)

    def entries(self) -> list[Entry]:
        """List the files that are there now, the oldest first.

        Their paths are absolute, and without symbolic links.
        """
        known = {}
        for path in map(os.path.realpath, self.template.find()):
            try:
                signature = _signature(path)
            except OSError as error:
                logger.info("%s is left out: %s", path, error)
                continue
            before = self._known.get(path)
            if before is not None and before[0] == signature:
                known[path] = before
            else:
                known[path] = signature, self._read(path)
        self._known = known
        return sorted((entry for _, entry in known.values() if entry is not None), key=by_iteration)

    def _read(self, path: str) -> Entry | None:
        try:
            entry = read_entry(path)
        except (CheckpointError, OSError) as error:
            logger.warning("left as it is, because it cannot be read: %s", error)
            return None
        return entry if entry.series == self.identifier else None

    def manifest_entry(self, policy: Policy | None = None) -> dict[str, Any]:
        """Return what the manifest of the next file says of the series."""
        if self._last_number is None:
            self._last_number = max((entry.number or 0 for entry in self.entries()), default=0)
        self._last_number += 1
        return {
            "id": self.identifier,
            "number": self._last_number,
            "template": self.template.name,
            "keep": to_plain(policy),
        }

    def release(
        self,
        policy: Policy,
        written: str | os.PathLike[str],
        *,
        protected: Collection[str | os.PathLike[str]] = (),
        is_verified: bool = False,
        now: float | None = None,
    ) -> list[str]:
        """Delete what the policy no longer keeps. Nothing is ever raised.

        Parameters
        ----------
        policy : Policy
        written : str or os.PathLike
            The file written last. It has to be durable by now. Files of later
            iterations, which a run that went back has left ahead of itself,
            are neither counted nor deleted.
        protected : collection of str or os.PathLike
            Further files to keep: the one this run was resumed from. What
            symbolic links beside the file point to is kept as well.
        is_verified : bool
            Whether the file written last was read back.
        now : float, optional
            Seconds since 1970; by default what the clock says.

        Returns
        -------
        list of str
            The paths that were deleted.
        """
        try:
            written = os.path.realpath(written)
            if is_verified:
                self._verified.add((written, _signature(written)))
            kept = {written, *map(os.path.realpath, protected), *_links_beside(written)}
            saves = list(self._saves_up_to(written))
            when = time.time() if now is None else now
            return apply(to_delete(saves, policy, when, protected=kept))
        except Exception:
            # Training is worth more than a tidy folder, whatever went wrong.
            logger.exception("nothing was deleted beside %s", os.fspath(written))
            return []

    def _saves_up_to(self, written: str) -> Iterator[Saved]:
        entries = self.entries()
        ends = [entry.iteration for entry in entries if entry.path == written]
        for entry in entries:
            if ends and entry.iteration is not None and entry.iteration <= (ends[0] or 0):
                is_verified = (entry.path, self._known[entry.path][0]) in self._verified
                yield entry.as_saved(True if is_verified else None)


def _links_beside(path: str) -> set[str]:
    with os.scandir(os.path.dirname(path)) as listed:
        return targets_of([item.path for item in listed if item.is_symlink()])


def _signature(path: str) -> _Signature:
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
