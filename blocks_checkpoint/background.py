"""One save in flight, on a thread.

The training loop submits a job and goes on. What goes wrong in the job is kept
until the loop asks for it. The thread is no daemon: an interpreter that comes
to its end waits for it, while a signal that kills the process kills it as
well. There is no thread where there is nothing to do.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["WHEN_BUSY", "BackgroundSaver"]

logger = logging.getLogger(__name__)

Job = Callable[[], object]

#: What may become of a save that comes due while another one is in flight.
WHEN_BUSY = ("wait", "skip", "replace")


class BackgroundSaver:
    """Does jobs on a thread, one after another.

    Pickles without its jobs. In a process forked from the one that made it,
    it has none either: the thread is not there.

    Parameters
    ----------
    when_busy : {'wait', 'skip', 'replace'}
        What becomes of a job that is submitted while another one is being
        done: the caller waits for that one first; the new job is dropped; or
        it waits for its turn in place of the one that did so before.
    """

    _process: int
    _changed: threading.Condition
    _is_busy: bool
    _waiting: tuple[Job, Job | None] | None
    _errors: list[BaseException]

    def __init__(self, when_busy: str = "wait") -> None:
        if when_busy not in WHEN_BUSY:
            raise ValueError(f"when_busy is {when_busy!r}; use one of {', '.join(WHEN_BUSY)}")
        self.when_busy = when_busy
        self._begin_anew()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.when_busy,)

    @property
    def is_busy(self) -> bool:
        """Whether a job is being done."""
        self._notice_fork()
        with self._changed:
            return self._is_busy

    def is_ready(self) -> bool:
        """Tell whether a job submitted now will be accepted; wait first, if so told.

        Ask before preparing a job that costs something to prepare: with
        ``'wait'`` the job before has then let go of its memory.
        """
        if self.when_busy == "wait":
            self.wait()
        return self.when_busy != "skip" or not self.is_busy

    def withdraw(self) -> None:
        """Drop the job that waits for its turn, if there is one.

        Before one is prepared in its place: its memory is then free, and the
        log that is about to be saved no longer says that it was done.
        """
        self._notice_fork()
        with self._changed:
            waiting, self._waiting = self._waiting, None
        if waiting is not None and waiting[1] is not None:
            waiting[1]()

    def submit(self, job: Job, when_replaced: Job | None = None) -> bool:
        """Have a job done.

        Parameters
        ----------
        job : callable
            Takes no arguments. It must not hold the interpreter's lock for long
            at a time, or the training feels it.
        when_replaced : callable, optional
            Called, by whoever withdraws this one or submits the job that takes
            its place, if it is never done.

        Returns
        -------
        bool
            False if the job was dropped, because another one is being done.
        """
        self._notice_fork()
        with self._changed:
            if self.when_busy == "wait":
                self._changed.wait_for(self._is_idle)
            if self._is_busy:
                if self.when_busy == "skip":
                    return False
                self.withdraw()
                self._waiting = (job, when_replaced)
                return True
            self._is_busy = True
            self._start(job)
        return True

    def wait(self) -> None:
        """Wait until every job is done; errors stay where they are."""
        self._notice_fork()
        with self._changed:
            self._changed.wait_for(self._is_idle)

    def raise_errors(self) -> None:
        """Raise what a job has raised since the last call, the first of several."""
        self._notice_fork()
        with self._changed:
            errors, self._errors = self._errors, []
        if errors:
            raise errors[0]

    def _is_idle(self) -> bool:
        return not self._is_busy

    def _begin_anew(self) -> None:
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._is_busy = False
        self._waiting = None
        self._errors = []

    def _notice_fork(self) -> None:
        # The condition may have been locked, by a thread that is not here.
        if self._process != os.getpid():
            self._begin_anew()

    def _start(self, job: Job) -> None:
        thread = threading.Thread(
            target=self._work, args=([job],), name="blocks_checkpoint-save", daemon=False
        )
        try:
            thread.start()
        except RuntimeError:
            # No thread is to be had (at the interpreter's end, for one).
            self._do(job)
            self._is_busy = False

    def _work(self, jobs: list[Job]) -> None:
        # In a list, so that nothing else keeps a finished job and its memory.
        while jobs:
            self._do(jobs.pop())
            with self._changed:
                if self._waiting is not None:
                    jobs.append(self._waiting[0])
                    self._waiting = None
                else:
                    self._is_busy = False
                    self._changed.notify_all()

    def _do(self, job: Job) -> None:
        try:
            job()
        except BaseException as error:
            # Nobody may ever ask for it, if the process is about to end.
            logger.error("a save in the background failed: %s", error)
            self._errors.append(error)
