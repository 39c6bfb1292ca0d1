"""What Blocks and Fuel leave undone where a run goes on in mid-epoch."""

from __future__ import annotations

import logging
import sys
from typing import Any

import numpy as np

from .engines import identity
from .resumption import all_extensions, is_blocks_loop

__all__ = ["begin_announced_training", "only", "reads_ahead", "reopen_files", "running_sums"]

logger = logging.getLogger(__name__)


def reopen_files(stream: Any) -> None:
    """Open the HDF5 files of a Fuel stream that was loaded in mid-epoch.

    Fuel opens them when an epoch begins. One that is missing is an error when
    its data is asked for.
    """
    module = sys.modules.get("fuel.datasets.hdf5")
    if module is None:
        return
    for _ in range(100):
        attributes = getattr(stream, "__dict__", {})
        dataset = attributes.get("dataset")
        if isinstance(dataset, module.H5PYDataset) and not dataset.load_in_memory:
            try:
                # Asked for, what a pickle leaves out is loaded anew.
                if not dataset.external_file_handle:
                    stream.data_state = dataset.open()
            except OSError as error:
                logger.warning("%s cannot be opened: %s", dataset.path, error)
        stream = attributes.get("data_stream")


def reads_ahead(stream: Any) -> str | None:
    """Name the class of a stream whose place is not that of the training.

    Fuel's server reads ahead in another process: what it has sent and nobody
    has trained on would be skipped by a run that goes on.
    """
    for _ in range(100):
        for cls in type(stream).__mro__:
            if cls.__name__ == "ServerDataStream":
                return cls.__name__
        stream = getattr(stream, "__dict__", {}).get("data_stream")
    return None


def running_sums(main_loop: Any) -> set[int]:
    """Identify the shared variables in which a Blocks loop sums up over an epoch.

    Its monitoring of the training data sets them to nothing before training,
    also where what they hold has just been loaded.
    """
    module = sys.modules.get("blocks.extensions.monitoring")
    if module is None or not is_blocks_loop(main_loop):
        return set()
    return {
        identity(variable)
        for extension in all_extensions(main_loop)
        if isinstance(extension, module.TrainingDataMonitoring)
        for buffer in (extension._variables, extension._required_for_non_variables)
        for variable, _ in buffer.accumulation_updates
    }


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


def only(pairs: list[tuple[Any, Any]], variables: set[int]) -> list[tuple[Any, Any]]:
    """Return copies of the values that are for these variables."""
    return [
        (variable, np.array(value)) for variable, value in pairs if identity(variable) in variables
    ]
