"""Putting saved state into a main loop that is about to run."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from .miniblocks.limits import Limit, Verdict, decide, describe, limits_in_force

__all__ = [
    "forget_interrupts",
    "has_finished",
    "is_blocks_loop",
    "limits_of",
    "put_iteration_state",
    "put_log",
    "replace_limits",
]

#: The status remembers that a signal came. It concerns the run it came in.
INTERRUPT_FLAGS = ("epoch_interrupt_received", "batch_interrupt_received")

#: Where in an epoch a run is. Goes with the epoch iterator, not with the log.
EPOCH_STATUS = ("epoch_started", "received_first_batch")


def forget_interrupts(main_loop: Any) -> None:
    """Take back the flags by which a signal ended the run that was saved."""
    for flag in INTERRUPT_FLAGS:
        main_loop.status[flag] = False


def put_log(main_loop: Any, log: Any) -> None:
    """Make a loaded log the main loop's."""
    main_loop.log = log


def put_iteration_state(main_loop: Any, state: Any, status: Mapping[str, Any]) -> None:
    """Make a loaded data stream and epoch iterator the main loop's.

    Parameters
    ----------
    main_loop : MainLoop
    state : tuple
        The pair.
    status : mapping
        The status at the time, which says whether an epoch had begun.
    """
    main_loop.iteration_state = state
    for key in EPOCH_STATUS:
        if key in status:
            main_loop.status[key] = status[key]


def is_blocks_loop(main_loop: Any) -> bool:
    """Tell whether this is the main loop of Blocks itself."""
    module = sys.modules.get("blocks.main_loop")
    return module is not None and isinstance(main_loop, module.MainLoop)


def _is_finish_after(extension: Any) -> bool:
    # Exactly these: a subclass has a judgement of its own.
    module = sys.modules.get("blocks.extensions")
    ours = sys.modules.get("blocks_checkpoint.miniblocks.extensions")
    return type(extension) in (getattr(module, "FinishAfter", 0), getattr(ours, "FinishAfter", 0))


def limits_of(extensions: Iterable[Any]) -> list[Limit]:
    """List the conditions under which extensions end a run, Blocks' ones too."""
    found = list(limits_in_force(extensions))
    for extension in extensions:
        if _is_finish_after(extension) and not hasattr(extension, "limits"):
            found += [_limit(event, predicate) for event, predicate, _ in extension._conditions]
    return found


def _limit(event: str, predicate: Any) -> Limit:
    condition, number = getattr(predicate, "condition", ""), getattr(predicate, "num", None)
    if condition in ("after_n_epochs", "after_n_batches") and number is not None:
        counter = "epochs_done" if condition == "after_n_epochs" else "iterations_done"
        return Limit(f"{condition}={number}", counter, int(number))
    return Limit(f"{event}: {describe(predicate)}")


def has_finished(main_loop: Any, recorded: list[str] | None) -> bool:
    """Tell whether a loaded main loop has nothing left to do.

    The main loop of Blocks does not ask itself, and would train past its end.

    Parameters
    ----------
    main_loop : MainLoop
        Its log is the loaded one.
    recorded : list of str or None
        Descriptions of the limits that were in force when it was saved.
    """
    log = main_loop.log
    if not log.status["iterations_done"]:
        return False
    row = log.current_row
    verdict = decide(
        log.status,
        limits_of(main_loop.extensions),
        is_requested=bool(row.get("training_finish_requested")),
        is_finished=bool(row.get("training_finished")),
        recorded=recorded,
    )
    return verdict is not Verdict.TRAIN


def replace_limits(present: list[Any], added: list[Any]) -> list[Any]:
    """Return ``present`` without the limits that ``added`` sets anew.

    A ``FinishAfter`` that somebody gives on continuing is meant instead of
    the one that was saved, not beside it.
    """
    if any(_is_finish_after(extension) for extension in added):
        return [extension for extension in present if not _is_finish_after(extension)]
    return present
