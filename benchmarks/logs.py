"""The log of a long run: saved, saved again, loaded.

    python benchmarks/logs.py [--json] [--turns N] [--full]

By default 200,000 iterations; ``--full`` means a million.
"""

from __future__ import annotations

import argparse
import os
import pickle
import sys
from typing import Any

import numpy as np
from files import folders, new_folder
from measuring import Ratio, Work, add_turns, race, show
from pickling import plain_dump

from blocks_checkpoint.archive import ArchiveWriter
from blocks_checkpoint.miniblocks.log import TrainingLog
from blocks_checkpoint.pickling.array_table import ArrayTable
from blocks_checkpoint.pickling.log_cache import LogCache
from blocks_checkpoint.safe_unpickling.log_unpickler import load_log_pickle
from blocks_checkpoint.zip_pickler import PicklerSettings, ZipPickler

MORE = 1000


class Run:
    """A log that grows, and a cache that follows it.

    Parameters
    ----------
    iterations : int
    value : callable
        From a number to the value of a record.
    """

    def __init__(self, iterations: int, value: Any = float) -> None:
        self.log = TrainingLog()
        self.value = value
        self.cache = LogCache()
        self.go_on(iterations)

    def go_on(self, iterations: int) -> None:
        """Train on."""
        begin = len(self.log)
        for time in range(begin, begin + iterations):
            self.log[time].update(
                cost=self.value(1.0 / (time + 1)),
                error=self.value(time * 0.5),
                gradient_norm=self.value(time * 0.1),
                step_norm=self.value(time),
            )
        self.log.status["iterations_done"] = len(self.log) - 1

    def save(self) -> list[bytes]:
        """Pickle the log as a checkpoint does."""
        pickler = ZipPickler(ArrayTable(), PicklerSettings(), self_contained=True)
        return self.cache.dump(self.log, pickler).pieces

    def forget(self) -> None:
        """Make the next save a first one."""
        self.cache = LogCache()


def pickling(name: str, run: Run, turns: int) -> list[Ratio]:
    """Measure the pickle of a log, without a file."""
    plain = Work("C pickler", lambda: plain_dump(run.log))

    def prepare_again() -> None:
        run.save()
        run.go_on(MORE)

    first = Work(f"{name}: first save", run.save, run.forget, 1.05)
    again = Work(f"{name}: saved again after {MORE:,} more", run.save, prepare_again, 0.05)
    return [*race(plain, [first], turns=turns), *race(first, [again], turns=turns)]


def unpickling(name: str, run: Run, turns: int) -> list[Ratio]:
    """Measure loading, from the pickle of a cache and from a plain one."""
    plain, ours = plain_dump(run.log), b"".join(run.save())
    return race(
        Work("C unpickler, plain pickle", lambda: pickle.loads(plain)),
        [
            Work(f"{name}: C unpickler", lambda: pickle.loads(ours)),
            Work(f"{name}: restricted", lambda: load_log_pickle(ours)),
            Work(f"{name}: plain pickle, restricted", lambda: load_log_pickle(plain)),
        ],
        turns=turns,
    )


def writing(name: str, run: Run, folder: str, turns: int) -> list[Ratio]:
    """Measure the pickle together with its way into a file."""
    path = os.path.join(folder, "log")

    def write(pieces: Any) -> None:
        with open(path, "wb") as file, ArchiveWriter(file) as archive:
            archive.add_bytes("log", pieces)

    def prepare_again() -> None:
        run.save()
        run.go_on(MORE)

    plain = Work("C pickler and the file", lambda: write(plain_dump(run.log)))
    works = [
        Work(f"{name}, with the file: first save", lambda: write(run.save()), run.forget),
        Work(f"{name}, with the file: saved again", lambda: write(run.save()), prepare_again),
    ]
    return race(plain, works, turns=turns)


def measure(options: argparse.Namespace) -> list[Ratio]:
    """Measure logs of numbers, and of the arrays that monitoring makes."""
    count = 1_000_000 if options.full else 200_000
    numbers = Run(count)
    name = f"log of {count:,} × 4 numbers"
    rows = pickling(name, numbers, options.turns) + unpickling(name, numbers, options.turns)
    *_, where = folders(None).values()
    with new_folder(where) as folder:
        rows += writing(name, numbers, folder, options.turns)
    del numbers
    arrays = Run(count // 10, lambda number: np.array(number, dtype=np.float32))
    rows += pickling(f"log of {count // 10:,} × 4 arrays", arrays, options.turns)
    return rows


def main(argv: list[str] | None = None) -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="for a program to read")
    add_turns(parser)
    parser.add_argument("--full", action="store_true", help="a million iterations")
    options = parser.parse_args(argv)
    show("Logs", measure(options), as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
