"""Putting saved state into a main loop that is about to run."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .errors import CheckpointError, LoadError
from .format import ITERATION_STATE
from .miniblocks.announcing import BATCH_ANNOUNCED
from .miniblocks.limits import Limit, Verdict, decide, describe, limits_in_force
from .pickling import random_state

__all__ = [
    "all_extensions",
    "check_stream",
    "finish_blocks_loop",
    "forget_ending",
    "forget_interrupts",
    "has_finished",
    "is_blocks_loop",
    "is_interrupted",
    "limits_of",
    "log_classes_of",
    "put_iteration_state",
    "put_log",
    "put_random_state",
    "replace_limits",
]

#: The status remembers that a signal came. It concerns the run it came in.
INTERRUPT_FLAGS = ("epoch_interrupt_received", "batch_interrupt_received")

#: Where in an epoch a run is. Goes with the epoch iterator, not with the log.
EPOCH_STATUS = ("epoch_started", "received_first_batch", BATCH_ANNOUNCED)

#: Records of the log that say how a run ended, not how training went.
ENDINGS = (*INTERRUPT_FLAGS, "got_exception", "training_finish_requested", "training_finished")


def is_interrupted(main_loop: Any) -> bool:
    """Tell whether a signal has asked the run to end."""
    return any(main_loop.status.get(flag, False) for flag in INTERRUPT_FLAGS)


def forget_interrupts(main_loop: Any) -> None:
    """Take back the flags by which a signal ended the run that was saved."""
    for flag in INTERRUPT_FLAGS:
        main_loop.status[flag] = False


def forget_ending(main_loop: Any) -> None:
    """Take out of the log of a Blocks loop how the run that was saved ended.

    It did not end; and Blocks takes such a record for its own. The main loop of
    miniblocks does this itself.
    """
    if not is_blocks_loop(main_loop):
        return
    log, status = main_loop.log, main_loop.status
    now = status["iterations_done"]
    begin = max((end for end in status["_epoch_ends"] if end < now), default=0)
    for time in range(begin, now + 1):
        # A log in memory makes a row of what is asked for and not there.
        if not isinstance(log, dict) or time in log:
            for record in ENDINGS:
                log[time].pop(record, None)


def put_log(main_loop: Any, log: Any) -> None:
    """Make a loaded log the main loop's.

    Signals that have come since this run began still count; those of the run
    that was saved do not.

    Raises
    ------
    LoadError
        The log is a database, and this is not the one that it was in.
    """
    present = main_loop.log.status
    try:
        log.status["iterations_done"]
        for flag in INTERRUPT_FLAGS:
            log.status[flag] = present.get(flag, False)
    except Exception as error:
        where = getattr(log, "database", None)
        raise LoadError(
            f"the log cannot be used: {error!r}"
            + (f". Are its records in the database {where!r}?" if where else "")
        ) from error
    main_loop.log = log


def log_classes_of(main_loop: Any) -> list[type]:
    """List the classes that a log of the same kind is made of, beyond the plain ones.

    An SQLite log in a checkpoint is the name of its database, which its own
    class opens. Whoever keeps the log of the running loop there wants that.
    """
    module = sys.modules.get("blocks.log.sqlite")
    if module is None or type(main_loop.log) is not module.SQLiteLog:
        return []
    return [module.SQLiteLog, module.SQLiteStatus]


def check_stream(main_loop: Any, state: Any, path: str | None) -> None:
    """Refuse an iteration state that belongs to another kind of data stream.

    Raises
    ------
    LoadError
        It names both.
    """
    stored, present = _kinds(state[0]), _kinds(main_loop.data_stream)
    if stored != present:
        raise LoadError(
            f"the iteration state in it belongs to a stream of the kind {stored}, and the data "
            f"stream of this main loop is of the kind {present}. Nothing was changed. Without "
            "load_iteration_state, Resume loads the rest",
            path=path,
            member=ITERATION_STATE,
        )


def _kinds(stream: Any) -> str:
    """Name the class of a stream, and of the streams in it."""
    names: list[str] = []
    while stream is not None and len(names) < 100:
        names.append(type(stream).__qualname__)
        stream = getattr(stream, "__dict__", {}).get("data_stream")
    return " of ".join(names)


def put_random_state(checkpoint: Any) -> None:
    """Set the global generators as a checkpoint has them; or neither of them."""
    before = random_state.capture()
    try:
        checkpoint.restore_random_state()
    except CheckpointError:
        random_state.restore(before)
        raise


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


def all_extensions(main_loop: Any) -> Iterator[Any]:
    """Go through the extensions of a main loop, and those inside of others."""
    waiting = list(main_loop.extensions)
    while waiting:
        extension = waiting.pop(0)
        yield extension
        waiting += getattr(extension, "sub_extensions", ())


def is_blocks_loop(main_loop: Any) -> bool:
    """Tell whether this is the main loop of Blocks itself."""
    module = sys.modules.get("blocks.main_loop")
    return module is not None and isinstance(main_loop, module.MainLoop)


def finish_blocks_loop() -> None:
    """End the run of a Blocks main loop, from within one of its events."""
    raise sys.modules["blocks.main_loop"].TrainingFinish


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
    if not any(_is_finish_after(extension) for extension in added):
        return present
    kept = []
    for extension in present:
        if _is_finish_after(extension):
            continue
        parts = getattr(extension, "sub_extensions", None)
        if parts:
            extension.sub_extensions = replace_limits(list(parts), added)
        kept.append(extension)
    return kept
