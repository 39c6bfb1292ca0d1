"""Going on with training from a checkpoint alone."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import Any

from .candidates import open_newest
from .checkpoint_file import Main
from .data_files import naming_missing_files, reopen_files
from .engines import identity
from .errors import LoadError
from .extensions import Checkpoint
from .mid_batch import go_on_in_mid_batch
from .monitored import running_sums
from .read_ahead import warn_on_going_on
from .resumption import (
    all_extensions,
    forget_ending,
    forget_interrupts,
    has_finished,
    is_blocks_loop,
    put_random_state,
    replace_limits,
)

__all__ = ["continue_training", "load_to_continue"]

logger = logging.getLogger(__name__)


def continue_training(
    path: str | os.PathLike[str], *, main: Main = None, extensions: Iterable[Any] = ()
) -> Any:
    """Load the main loop of a checkpoint, and run it.

    Training goes on with the next batch, as if it had not been interrupted:
    parameters, optimiser, data stream, log, extensions and random generators
    are those of the run that was saved. A run that had finished trains
    nothing.

    Runs what the file says. Only for files you trust.

    Parameters
    ----------
    path : str or os.PathLike
        The checkpoint; or a folder or a pattern (``'runs/*.zip'``) of several,
        of which the newest good one that has a main loop is taken.
    main : str, os.PathLike or module, optional
        The script that was running, if the main loop needs functions of it
        and it is not the one that runs now. It is imported; what is under its
        ``if __name__ == '__main__':`` is not run.
    extensions : iterable of TrainingExtension
        Further extensions. They come before the ``Checkpoint``, so that what
        is saved has them. A ``FinishAfter(after_n_epochs=20)`` among them
        takes the place of those that the main loop had.

    Returns
    -------
    MainLoop
        After its run.

    Raises
    ------
    MainModuleError
        Functions of a script are needed, and this process does not have them.
    LoadError
        The file cannot be read, or has no main loop.
    NoGoodCheckpoint
        Of several files, none can be used.
    DataNotFound
        The run asks for data, and the file with them is not there.
    """
    main_loop, checkpoint = _load(path, main)
    status = main_loop.status
    logger.info(
        "continuing %s at epoch %s, iteration %s",
        checkpoint.path,
        status["epochs_done"],
        status["iterations_done"],
    )
    add_extensions(main_loop, extensions)
    for extension in all_extensions(main_loop):
        if isinstance(extension, Checkpoint):
            extension.continued_from = checkpoint.path
    if is_blocks_loop(main_loop) and has_finished(main_loop, checkpoint.manifest.get("limits")):
        logger.warning(
            "training has finished already, after %s iterations and %s epochs: nothing is left "
            "to do. To train on, raise the limit: continue_training(path, "
            "extensions=[FinishAfter(...)])",
            status["iterations_done"],
            status["epochs_done"],
        )
        return main_loop
    _make_ready(main_loop)
    with naming_missing_files(main_loop, checkpoint.path):
        main_loop.run()
    return main_loop


def load_to_continue(path: str | os.PathLike[str], *, main: Main = None) -> Any:
    """Load a main loop as :func:`continue_training` does, and leave it to the caller to run it.

    Parameters
    ----------
    path, main
        As for :func:`continue_training`.

    Returns
    -------
    MainLoop
    """
    main_loop, checkpoint = _load(path, main)
    if is_blocks_loop(main_loop) and has_finished(main_loop, checkpoint.manifest.get("limits")):
        raise LoadError("the run has finished", path=checkpoint.path)
    _make_ready(main_loop)
    return main_loop


def _load(path: str | os.PathLike[str], main: Main) -> tuple[Any, Any]:
    checkpoint = open_newest(path, needs_main_loop=True)
    assert checkpoint is not None
    with checkpoint:
        main_loop = checkpoint.main_loop(main=main)
        put_random_state(checkpoint)
    warn_on_going_on(checkpoint, main_loop.iteration_state, stacklevel=3)
    return main_loop, checkpoint


def _make_ready(main_loop: Any) -> None:
    forget_interrupts(main_loop)
    forget_ending(main_loop)
    reopen_files(main_loop.data_stream)
    _begin_announced_training(main_loop)
    go_on_in_mid_batch(main_loop)


def _begin_announced_training(main_loop: Any) -> None:
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


def add_extensions(main_loop: Any, extensions: Iterable[Any]) -> None:
    """Add extensions to a main loop, before the first that saves it."""
    added = list(extensions)
    present = replace_limits(list(main_loop.extensions), added)
    place = next(
        (index for index, each in enumerate(present) if _saves(each, Checkpoint)), len(present)
    )
    for extension in added:
        extension.main_loop = main_loop
    main_loop.extensions = present[:place] + added + present[place:]


def _saves(extension: Any, checkpoint_class: type) -> bool:
    parts = getattr(extension, "sub_extensions", ())
    return isinstance(extension, checkpoint_class) or any(
        _saves(part, checkpoint_class) for part in parts
    )
