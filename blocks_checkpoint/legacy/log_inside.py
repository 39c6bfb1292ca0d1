"""The training log inside the pickle of a main loop."""

from __future__ import annotations

import warnings
from typing import Any

from ..errors import CheckpointWarning, LoadError
from ..miniblocks.log import TrainingLog
from ..safe_unpickling.inert_unpickler import Inert, inert_values, load_inert
from ..safe_unpickling.vocabulary import shortened

__all__ = ["find_log"]

_SQLITE_LOG = "blocks.log.sqlite.SQLiteLog"


def find_log(pickled: bytes, *, path: str | None = None, member: str | None = None) -> Any:
    """Take the log out of a pickled main loop; nothing else in it is made or run.

    Parameters
    ----------
    pickled : bytes
        Of a main loop, or of a log.
    path, member : str, optional
        For messages.

    Returns
    -------
    TrainingLog

    Raises
    ------
    LoadError
        What was pickled has no log, or one that is not in the file.
    """
    root = load_inert(pickled, path=path, member=member)
    log: Any = root.attributes.get("log") if isinstance(root, Inert) else root
    if not _is_log(log):
        raise LoadError(_why_not(root, log), path=path, member=member)
    odd = sorted({value.class_name for value in inert_values(log)})
    if odd:
        warnings.warn(
            f"{path}: records of the log that are no plain values are inert objects: "
            f"{', '.join(odd)[:500]}",
            CheckpointWarning,
            stacklevel=3,
        )
    return log


def _is_log(thing: Any) -> bool:
    # Blocks' own class in a process that has imported Blocks.
    return isinstance(thing, TrainingLog) or (
        isinstance(thing, dict) and type(thing).__name__ == "TrainingLog"
    )


def _why_not(root: Any, log: Any) -> str:
    what = root.class_name if isinstance(root, Inert) else type(root).__name__
    if log is None or log is root:
        return f"what was pickled is a {what[:200]}, which has no log"
    if isinstance(log, Inert) and log.class_name == _SQLITE_LOG:
        database = shortened(log.attributes.get("database"), 200)
        return (
            f"the records of the log are in the SQLite database {database}, not in this "
            "file. Read them there, from the tables 'entries' and 'status'"
        )
    what = log.class_name if isinstance(log, Inert) else type(log).__name__
    return f"the log is a {what[:200]}, which can only be read by unpickling the main loop"
