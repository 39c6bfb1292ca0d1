"""One save to a path: what is saved in the end, and where."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

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
from .serialization import warn_of_main_module, write_snapshot
from .snapshot import take_snapshot
from .zip_pickler import PicklerSettings

__all__ = ["save"]

logger = logging.getLogger(__name__)


def save(
    contents: Contents,
    path: str,
    *,
    protocol: int,
    verify: bool,
    warn_of_main: bool,
    before_partial: Callable[[str], object],
) -> None:
    """Save to a path, all or nothing; without the main loop if that is all that is left.

    Parameters
    ----------
    contents : Contents
    path : str
        Its folder is made if it is missing.
    protocol : int
        Pickle protocol.
    verify : bool
        Read back before the file replaces the one of before.
    warn_of_main : bool
        Warn if the pickles need something of ``__main__``.
    before_partial : callable
        Called with the path that the rest will be saved to, when the main
        loop turned out to be impossible to pickle.

    Raises
    ------
    UnpicklableError
        The main loop was left out; its ``path`` is where the rest is.
    SaveError
        Nothing was saved.
    """
    settings = PicklerSettings(protocol)
    target, failure = path, None
    try:
        snapshot = take_snapshot(contents, settings=settings)
    except UnpicklableError as error:
        if contents.main is None:
            raise
        failure = error
        target = _beside_complete(path)
        before_partial(target)
        snapshot = take_snapshot(contents, settings=settings, without_main=failure)
    if warn_of_main:
        warn_of_main_module(snapshot, contents, path, stacklevel=4)
    _make_folder(target)
    write_snapshot(snapshot, target, check=_read_back if verify else None)
    logger.info("saved %s", target)
    if failure is not None:
        raise UnpicklableError(
            "the main loop was not saved; parameters, and what else could be, were. "
            f"{failure.message}",
            offenders=failure.offenders,
            path=target,
        ) from failure


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
