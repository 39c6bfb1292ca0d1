"""Reading a part of a file, and checking all of it.

    python benchmarks/reading.py [--json] [--turns N] [--full] [--folder DISK]

One member is read out of 10 GiB, most of which are holes in the file. By
default 256 MiB are verified; ``--full`` means 1 GiB.
"""

from __future__ import annotations

import argparse
import os
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
from files import MIB, SparseFile, folders, make_arrays, new_folder, remove
from measuring import Ratio, Work, add_turns, milliseconds, race, show

from blocks_checkpoint import open_checkpoint, save_parameters
from blocks_checkpoint.archive import ArchiveReader, ArchiveWriter

#: How many members there are, and the size of each.
COUNT = 64
MEMBER_BYTES = 160 * MIB


def lazily(path: str, kind: str, options: argparse.Namespace) -> list[Ratio]:
    """Measure opening without reading, and the first array after that."""
    save_parameters(make_arrays(256 * MIB, COUNT), path)

    def opened() -> Any:
        return open_checkpoint(path, mmap=True)

    def take(checkpoint: Any) -> Any:
        return checkpoint.parameters["layer_40"][:10].sum()

    turns = max(options.turns, 11)
    rows = [
        milliseconds(f"open lazily, {kind}", opened, 1, turns),
        milliseconds(f"first array after that, {kind}", take, 1, turns, opened),
    ]
    remove(path)
    return rows


def one_member(path: str, kind: str, options: argparse.Namespace) -> list[Ratio]:
    """Measure reading one member out of a large file: its time, and its memory."""
    holes = np.zeros(MEMBER_BYTES // 8)
    values = np.random.RandomState(1).rand(MEMBER_BYTES // 8)
    with SparseFile(path, "w+") as file, ArchiveWriter(file) as writer:
        for number in range(COUNT):
            member = writer.add_array(f"{number}.npy", values if number == 40 else holes)
            if number == 40:
                offset = member.data_offset
    del holes, values

    def read_plain() -> Any:
        room = np.empty(MEMBER_BYTES, dtype=np.uint8)
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.preadv(descriptor, [room], offset)
        finally:
            os.close(descriptor)
        return room

    def read_member() -> Any:
        with ArchiveReader(path) as reader:
            return reader.read_array("40.npy")

    named = f"one member of {MEMBER_BYTES // MIB} MiB out of 10 GiB, {kind}"
    rows = race(
        Work("its bytes", read_plain),
        [Work(named, read_member, reach=1.1)],
        turns=max(options.turns, 11),
    )
    tracemalloc.start()
    read_member()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    rows.append(Ratio(f"memory for {named}", "its bytes", peak / MEMBER_BYTES, reach=1.1))
    remove(path)
    return rows


def verifying(path: str, kind: str, options: argparse.Namespace) -> list[Ratio]:
    """Measure what checking every byte gains from the cores there are."""
    rows = []
    for count in (COUNT, 1):
        save_parameters(make_arrays(options.mib * MIB, count), path)

        def verify() -> None:
            with open_checkpoint(path) as checkpoint:
                if checkpoint.verify():
                    raise ValueError(f"{path} is damaged")

        rows += race(
            Work("one core", on_one_core(verify)),
            [Work(f"verify {options.mib} MiB, arrays: {count}, {kind}", verify)],
            turns=options.turns,
        )
        remove(path)
    return rows


def on_one_core(function: Callable[[], Any]) -> Callable[[], None]:
    """Make a function run on one of the cores that the process may use."""

    def run() -> None:
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(cores)})
        try:
            function()
        finally:
            os.sched_setaffinity(0, cores)

    return run


def measure(options: argparse.Namespace) -> list[Ratio]:
    """Measure everything, in every kind of folder."""
    found = []
    for kind, where in folders(options.folder).items():
        with new_folder(where) as folder:
            path = os.path.join(folder, "read")
            found += lazily(path, kind, options)
            found += one_member(path, kind, options)
            if hasattr(os, "sched_setaffinity"):
                found += verifying(path, kind, options)
    return found


def main(argv: list[str] | None = None) -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="for a program to read")
    add_turns(parser)
    parser.add_argument("--full", action="store_true", help="verify 1 GiB")
    parser.add_argument("--folder", help="on a disk; the working folder by default")
    options = parser.parse_args(argv)
    options.mib = 1024 if options.full else 256
    show("Reading a part, and verifying", measure(options), as_json=options.json)


if __name__ == "__main__":
    main()
