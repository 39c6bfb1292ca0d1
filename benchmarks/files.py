"""Files to measure with: plain writes and reads, caches, folders."""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

MIB = 1 << 20
#: Where Linux keeps files in memory.
MEMORY_FOLDER = "/dev/shm"


def make_arrays(nbytes: int, count: int) -> dict[str, Any]:
    """Make so many float32 arrays, of so many bytes together."""
    random = np.random.RandomState(1)
    size = nbytes // count // 4
    return {f"layer_{number}": random.rand(size).astype(np.float32) for number in range(count)}


def write_plainly(path: str, arrays: dict[str, Any]) -> None:
    """Write the bytes of arrays, one array in one call."""
    with open(path, "wb", buffering=0) as file:
        for array in arrays.values():
            file.write(memoryview(array).cast("B"))


def write_durably(path: str, arrays: dict[str, Any]) -> None:
    """Write the bytes of arrays, and wait until the disk has them."""
    with open(path, "wb", buffering=0) as file:
        for array in arrays.values():
            file.write(memoryview(array).cast("B"))
        os.fsync(file.fileno())


def read_plainly(path: str, arrays: dict[str, Any]) -> list[Any]:
    """Read bytes into new memory, as much as the arrays have, one call for each."""
    read = [np.empty(array.nbytes, dtype=np.uint8) for array in arrays.values()]
    descriptor = os.open(path, os.O_RDONLY)
    try:
        for room in read:
            if os.readv(descriptor, [room]) != room.nbytes:
                raise OSError(f"{path} is too short")
    finally:
        os.close(descriptor)
    return read


class SparseFile(io.FileIO):
    """A file in which long stretches of zeros take no room."""

    def write(self, data: Any) -> int:
        """Write `data`, or pass over its place."""
        if len(data) < MIB or np.frombuffer(data[: len(data) & ~7], np.uint64).any():
            return super().write(data)
        self.seek(len(data), os.SEEK_CUR)
        return len(data)


def remove(path: str) -> None:
    """Remove a file or folder, if it is there."""
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.unlink(path)


def settle(path: str) -> None:
    """Wait until nothing of what was written waits for the disk."""
    if not path.startswith(MEMORY_FOLDER):
        os.sync()


def forget(path: str) -> None:
    """Have the system drop a file from its cache."""
    paths = [path]
    if os.path.isdir(path):
        paths = [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names]
    for each in paths:
        descriptor = os.open(each, os.O_RDONLY)
        try:
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


@contextmanager
def new_folder(where: str) -> Iterator[str]:
    """Make a folder, and remove it in the end."""
    folder = tempfile.mkdtemp(prefix="blocks_checkpoint-benchmark-", dir=where)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def folders(disk: str | None) -> dict[str, str]:
    """Return folders to measure in, by the kind of memory they are on."""
    found = {"disk": disk or os.getcwd()}
    if os.path.isdir(MEMORY_FOLDER):
        found["memory"] = MEMORY_FOLDER
    return found
