"""The files that data streams read, where a run goes on: opened anew, moved, or missing."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from .errors import CheckpointError, DataNotFound
from .resumption import all_extensions

__all__ = ["follow_moved_files", "naming_missing_files", "reopen_files"]

logger = logging.getLogger(__name__)

#: A stream with more files than that is not searched for one of them.
MAX_FILES = 10_000


def reopen_files(stream: Any) -> None:
    """Open the HDF5 files of a Fuel stream that was loaded in mid-epoch.

    Fuel opens them when an epoch begins. One that is missing is an error when
    its data is asked for.
    """
    module = sys.modules.get("fuel.datasets.hdf5")
    if module is None:
        return
    for each in _streams_in(stream):
        dataset = each.__dict__.get("dataset")
        if isinstance(dataset, module.H5PYDataset) and not dataset.load_in_memory:
            try:
                # Asked for, what a pickle leaves out is loaded anew.
                if not dataset.external_file_handle:
                    each.data_state = dataset.open()
            except OSError as error:
                logger.warning("%s cannot be opened: %s", dataset.path, error)


def _streams_in(stream: Any) -> Iterator[Any]:
    """Give a stream, the stream that it transforms, and so on."""
    for _ in range(100):
        if not hasattr(stream, "__dict__"):
            return
        yield stream
        stream = stream.__dict__.get("data_stream")


def follow_moved_files(stream: Any, present: Any) -> None:
    """Have a loaded stream read its data from where the new script has them.

    Parameters
    ----------
    stream : AbstractDataStream
        The loaded one. Where its data sets are files that are still there, it
        reads those.
    present : AbstractDataStream
        Of the same kind; the new script's.
    """
    for loaded, made in zip(_streams_in(stream), _streams_in(present)):
        old, new = loaded.__dict__.get("dataset"), made.__dict__.get("dataset")
        path, new_path = getattr(old, "path", None), getattr(new, "path", None)
        if (
            type(old) is type(new)
            and isinstance(path, str)
            and isinstance(new_path, str)
            and not os.path.exists(path)
            and os.path.exists(new_path)
        ):
            logger.warning("%s is no longer there; the data is read from %s", path, new_path)
            setattr(old, "path", new_path)  # noqa: B010 - of whatever class it is


@contextmanager
def naming_missing_files(main_loop: Any, path: str | None) -> Iterator[None]:
    """Say of an error for want of a data file which stream reads it, and what to do.

    Parameters
    ----------
    main_loop : MainLoop
        It runs within the context.
    path : str or None
        The checkpoint that it was loaded from.

    Raises
    ------
    DataNotFound
        In place of the error.
    """
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:
        missing = _missing_file(main_loop, error)
        if missing is None:
            raise
        raise DataNotFound(
            f"{missing.place} is the data file {missing.file}, which is not there. Put it back; "
            "or, if it has moved, build the main loop in a script whose stream reads it from its "
            "new place, and add Resume(path, load_log=True, load_iteration_state=True)",
            file=missing.file,
            place=missing.place,
            path=path,
        ) from error


class _File(NamedTuple):
    """A file that a stream reads, and the attribute that names it."""

    place: str
    file: str


def _missing_file(main_loop: Any, error: BaseException) -> _File | None:
    """Find the file that is not there, if an error speaks of one that a stream reads."""
    causes = list(_causes(error))
    for each in _files_of(main_loop):
        if not os.path.exists(each.file) and any(_speaks_of(cause, each) for cause in causes):
            return each
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(10):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _speaks_of(error: BaseException, each: _File) -> bool:
    if isinstance(error, FileNotFoundError) and error.filename is not None:
        return bool(os.fspath(error.filename) == each.file)
    # h5py and Fuel have other errors. What a data set calls its path is long
    # enough to be known in them.
    return each.place.endswith(".dataset.path") and each.file in str(error)


def _files_of(main_loop: Any) -> Iterator[_File]:
    """Give the files that may be read by the streams of a main loop and its extensions."""
    streams = [("main_loop.data_stream", main_loop.data_stream)]
    for extension in all_extensions(main_loop):
        stream = getattr(extension, "__dict__", {}).get("data_stream")
        streams.append((f"{type(extension).__name__}.data_stream", stream))
    for place, stream in streams:
        for each in _streams_in(stream):
            yield from _files_in(each, place)
            yield from _files_in(each.__dict__.get("dataset"), f"{place}.dataset")
            place += ".data_stream"


def _files_in(reader: Any, place: str) -> Iterator[_File]:
    for name, value in getattr(reader, "__dict__", {}).items():
        is_list = isinstance(value, (list, tuple)) and len(value) <= MAX_FILES
        for index, each in enumerate(value if is_list else [value]):
            if isinstance(each, (str, os.PathLike)):
                where = f"{place}.{name}[{index}]" if is_list else f"{place}.{name}"
                yield _File(where, os.fsdecode(each))
