"""One save to a path: what is saved in the end, and where."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .arena import Arena
from .checkpoint_file import CheckpointFile, open_checkpoint
from .contents import Contents
from .errors import (
    CheckpointNotFound,
    DamagedCheckpoint,
    HostileCheckpoint,
    NotACheckpoint,
    SaveError,
    UnpicklableError,
)
from .snapshot import Snapshot, take_snapshot
from .writing import warn_of_main_module, write_snapshot
from .zip_pickler import PicklerSettings

__all__ = ["PreparedSave", "prepare"]

logger = logging.getLogger(__name__)


@dataclass
class PreparedSave:
    """A snapshot, and where it is going to be.

    Attributes
    ----------
    snapshot : Snapshot
    path : str
    failure : UnpicklableError or None
        Why the main loop is not in it.
    verify : bool
        Read back before the file replaces the one of before.
    """

    snapshot: Snapshot
    path: str
    failure: UnpicklableError | None
    verify: bool

    def commit(self) -> None:
        """Write the file, all or nothing; on any thread.

        Raises
        ------
        UnpicklableError
            The file is there, without the main loop.
        SaveError
            Nothing was saved.
        """
        try:
            _make_folder(self.path)
            write_snapshot(self.snapshot, self.path, check=_read_back if self.verify else None)
        finally:
            self.snapshot.release()
        logger.info("saved %s", self.path)
        if self.failure is not None:
            raise UnpicklableError(
                "the main loop was not saved; parameters, and what else could be, were. "
                f"{self.failure.message}",
                offenders=self.failure.offenders,
                path=self.path,
            ) from self.failure


def prepare(
    contents: Contents,
    path: str,
    *,
    settings: PicklerSettings,
    verify: bool,
    warn_of_main: bool,
    before_partial: Callable[[str], object],
    further_manifest: Mapping[str, Any],
    arena: Arena | None = None,
) -> PreparedSave:
    """Take the snapshot for a save; without the main loop if that cannot be pickled.

    Parameters
    ----------
    contents : Contents
    path : str
    settings : PicklerSettings
    verify : bool
        Read back before the file replaces the one of before.
    warn_of_main : bool
        Warn if the pickles need something of ``__main__``.
    before_partial : callable
        Called with the path that the rest will be saved to, when the main
        loop turned out to be impossible to pickle.
    further_manifest : mapping
        What the manifest is to say in addition.
    arena : Arena, optional
        Copy the arrays into it, so that training can go on.

    Raises
    ------
    UnpicklableError
        Not even the rest can be pickled.
    """
    failure = None
    try:
        snapshot = take_snapshot(contents, settings=settings, arena=arena)
    except UnpicklableError as error:
        if contents.main is None:
            raise
        failure = error
        path = _beside_complete(path)
        before_partial(path)
        snapshot = take_snapshot(contents, settings=settings, arena=arena, without_main=failure)
    snapshot.manifest.update(further_manifest)
    if warn_of_main:
        warn_of_main_module(snapshot, contents, path, stacklevel=4)
    return PreparedSave(snapshot, path, failure, verify)


def _make_folder(path: str) -> None:
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    except OSError as error:
        raise SaveError(
            f"its folder is missing and cannot be made: {error}; save elsewhere", path=path
        ) from error


def _read_back(path: str) -> None:
    with CheckpointFile(path) as checkpoint:
        for damage in checkpoint.verify():
            raise SaveError(
                f"what was written reads back wrong: {damage.reason}", member=damage.member
            )


def _beside_complete(path: str) -> str:
    """Return where to save a checkpoint that has no main loop.

    A file from which training could go on, or that cannot be told not to be
    one, is not replaced.
    """
    try:
        with open_checkpoint(path) as present:
            if present.manifest["main_loop"] != "present":
                return path
    except CheckpointNotFound:
        return path
    except (NotACheckpoint, DamagedCheckpoint, HostileCheckpoint) as error:
        logger.warning("%s is no good checkpoint, and is replaced: %s", path, error.message)
        return path
    except Exception as error:
        logger.warning("%s cannot be looked into, and is kept: %s", path, error)
    stem, suffix = os.path.splitext(path)
    return f"{stem}.without_main_loop{suffix}"
