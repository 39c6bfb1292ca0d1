"""What Blocks and Fuel leave undone where a run goes on in mid-epoch."""

from __future__ import annotations

import logging
import sys
from typing import Any

from .engines import identity
from .monitored import running_sums
from .resumption import is_blocks_loop

__all__ = ["begin_announced_training", "reopen_files"]

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
