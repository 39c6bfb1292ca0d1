"""Work spread over threads that live no longer than the call.

Reading and summing release the interpreter's lock, so threads help. A pool
that stays would not survive a fork, and data loaders fork.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

__all__ = ["available_cores", "for_each"]

Item = TypeVar("Item")


def available_cores() -> int:
    """Return the number of processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def for_each(function: Callable[[Item], object], items: Iterable[Item], threads: int) -> None:
    """Call `function` for every item, from the calling thread and `threads - 1` others.

    The calling thread does its share; where no thread can be started, it does
    all. After an error no item is begun any more, and the error of the first
    item that had one is raised when every thread has ended.
    """
    numbered = enumerate(items)
    lock = threading.Lock()
    errors: list[tuple[int, BaseException]] = []

    def work() -> None:
        while not errors:
            with lock:
                step = next(numbered, None)
            if step is None:
                return
            try:
                function(step[1])
            except BaseException as error:
                errors.append((step[0], error))

    helpers: list[threading.Thread] = []
    try:
        for _ in range(threads - 1):
            helper = threading.Thread(target=work, name="blocks_checkpoint", daemon=True)
            try:
                helper.start()
            except RuntimeError:
                break
            helpers.append(helper)
        work()
    except BaseException as error:
        errors.append((-1, error))
    for helper in helpers:
        helper.join()
    if errors:
        raise min(errors, key=lambda entry: entry[0])[1]
