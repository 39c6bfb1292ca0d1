"""CRC-32 of a stream of chunks, computed while the caller does something else."""

from __future__ import annotations

import queue
import threading
import time
import weakref
from typing import Any, Union

from .crc import crc32

__all__ = ["Summer"]

# So many chunks may wait to be summed; more would only hold their memory.
_WAITING = 2

#: A sum and the seconds it took, or why there is none.
_Result = Union[tuple[int, float], BaseException]


class Summer:
    """Sums chunks on a thread of its own.

    The thread begins with the first chunk and ends with the object.

    Attributes
    ----------
    seconds : float
        What the summing took so far.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._chunks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._sums: queue.SimpleQueue[_Result] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._crc = 0
        self._waiting = 0

    def begin(self, chunk: Any) -> None:
        """Take the next chunk, which must not change before `finish` returns."""
        if self._thread is None and not self._start():
            self._crc, seconds = _sum(chunk, self._crc)
            self.seconds += seconds
            return
        if self._waiting == _WAITING:
            self._wait()
        self._chunks.put((chunk, self._crc if not self._waiting else None))
        self._waiting += 1

    def finish(self) -> int:
        """Return the sum of all chunks since the last call, and begin anew."""
        while self._waiting:
            self._wait()
        crc, self._crc = self._crc, 0
        return crc

    def _wait(self) -> None:
        result = self._sums.get()
        self._waiting -= 1
        if isinstance(result, BaseException):
            raise result
        self._crc, seconds = result
        self.seconds += seconds

    def _start(self) -> bool:
        thread = threading.Thread(
            target=_sum_all, args=(self._chunks, self._sums), name="blocks_checkpoint", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:
            # No thread is to be had (at the interpreter's end, for one).
            return False
        self._thread = thread
        weakref.finalize(self, self._chunks.put, None)
        return True


def _sum(chunk: Any, start: int) -> tuple[int, float]:
    begin = time.perf_counter()
    return crc32(chunk, start), time.perf_counter() - begin


def _sum_all(chunks: queue.SimpleQueue[Any], sums: queue.SimpleQueue[_Result]) -> None:
    crc = 0
    while True:
        job = chunks.get()
        if job is None:
            return
        chunk, start = job
        try:
            crc, seconds = _sum(chunk, crc if start is None else start)
            sums.put((crc, seconds))
        except BaseException as error:
            sums.put(error)
        # The chunk may be all that keeps a large array alive.
        del job, chunk
