"""A snapshot to its file, and the warning that goes with it."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable
from typing import BinaryIO, cast

from .checkpoint_file import PathOrFile
from .commit import replacing
from .contents import Contents
from .direct_file import past_the_cache
from .errors import MainModuleWarning
from .pickled_contents import main_module_places
from .snapshot import Snapshot

__all__ = ["warn_of_main_module", "write_snapshot"]


def write_snapshot(
    snapshot: Snapshot, file_: PathOrFile, check: Callable[[str], object] | None = None
) -> None:
    """Write a snapshot to a path (durably, all or nothing) or to an open file.

    Parameters
    ----------
    snapshot : Snapshot
        What writing took is added to its cost.
    file_ : str, os.PathLike or binary file
    check : callable, optional
        See :func:`.replacing`.
    """
    if isinstance(file_, (str, os.PathLike)):
        with replacing(file_, expected_bytes=snapshot.nbytes, check=check) as file:
            direct = past_the_cache(cast(BinaryIO, file), snapshot.nbytes)
            snapshot.write(direct)
            direct.flush()
        snapshot.cost.sync = file.sync_seconds
        return
    snapshot.write(file_)
    # What was in the file before and is longer would be read as the end of this.
    with contextlib.suppress(AttributeError, OSError):
        if file_.seekable():
            file_.truncate()


def warn_of_main_module(
    snapshot: Snapshot, contents: Contents, file_: PathOrFile, stacklevel: int
) -> None:
    """Warn if the pickles need functions of the running script."""
    needs = snapshot.manifest["main_module"]
    if not needs:
        return
    places = main_module_places(contents, needs["names"])
    where = "".join(
        f"\n  - {name}, at {places.get(name, 'a place not found')}" for name in needs["names"]
    )
    path = f"{os.fspath(file_)}: " if isinstance(file_, (str, os.PathLike)) else ""
    what = "the main loop" if contents.root_name == "main_loop" else "the object"
    warnings.warn(
        f"{path}{what} depends on the functions or classes of __main__ listed below. "
        "continue_training will need them: call it from within this script, under its "
        "if __name__ == '__main__':, or name the script, continue_training(path, "
        f"main={needs['script'] or 'train.py'!r}). Moving them into a module that is imported "
        f"removes the dependence.{where}",
        MainModuleWarning,
        stacklevel=stacklevel + 1,
    )
