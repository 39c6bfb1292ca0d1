"""What Blocks and Fuel leave undone where a run goes on in mid-epoch."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from typing import Any

from .engines import identity
from .monitored import running_sums
from .resumption import is_blocks_loop

__all__ = ["begin_announced_training", "follow_moved_files", "reopen_files"]

logger = logging.getLogger(__name__)


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


def begin_announced_training(main_loop: Any) -> None:
    """Begin a training that was saved when a Blocks loop had just announced it.

    It would announce it a second time, and its monitoring would sum up twice.
    """
    if not is_blocks_loop(main_loop) or main_loop.status["training_started"]:
        return
    sums = running_sums(main_loop)
    if any(identity(variable) in sums for variable, _ in main_loop.algorithm.updates):
        for extension in main_loop.extensions:
            extension.main_loop = main_loop
        main_loop.algorithm.initialize()
        main_loop.status["training_started"] = True
