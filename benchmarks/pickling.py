"""Object graphs to pickles and back, against the plain C pickler.

    python benchmarks/pickling.py [--json] [--turns N]

Blocks' own figures for one log, from its history: its first pickler for
checkpoints took 5.3 s, its second 1.4 s, where Python 2's ``pickle`` took
0.946 s and its ``cPickle`` 0.238 s. They are shown as ratios to the last.
"""

from __future__ import annotations

import argparse
import io
import pickle
from typing import Any

import numpy as np
from measuring import Ratio, add_turns, compare, show

from blocks_checkpoint.miniblocks.log import TrainingLog
from blocks_checkpoint.pickling.array_table import ArrayTable
from blocks_checkpoint.safe_unpickling.log_unpickler import load_log_pickle
from blocks_checkpoint.zip_pickler import PicklerSettings, ZipPickler
from blocks_checkpoint.zip_unpickler import ZipUnpickler

ITERATIONS = 200_000
INSTANCES = 200_000
ARRAYS = 2_000

#: Seconds, as Blocks' authors reported them for one and the same log.
HISTORY = {
    "Blocks, first custom pickler": 5.3,
    "Blocks, second custom pickler": 1.4,
    "Python 2 pickle": 0.946,
}
HISTORICAL_BASELINE = 0.238


class Node:
    """A small instance, as extensions and bricks are."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.weight = float(number)
        self.name = f"node {number}"


def make_log() -> TrainingLog:
    log = TrainingLog()
    for time in range(ITERATIONS):
        log[time].update(
            cost=1.0 / (time + 1), error=time * 0.5, gradient_norm=time * 0.1, step_norm=float(time)
        )
    return log


def make_graph() -> list[Any]:
    return [Node(number) for number in range(INSTANCES)] + [
        np.full(10, float(number)) for number in range(ARRAYS)
    ]


def plain_dump(thing: Any) -> bytes:
    file = io.BytesIO()
    pickle.Pickler(file, 5).dump(thing)
    return file.getvalue()


def dump_log(log: Any) -> bytes:
    return ZipPickler(ArrayTable(), PicklerSettings(), self_contained=True).dump(log)


def dump_graph(graph: Any) -> tuple[bytes, bytes]:
    """Pickle, and the pool of small arrays behind it."""
    table = ArrayTable()
    table.pickle = "pkl"
    pickled = ZipPickler(table, PicklerSettings()).dump(graph)
    return pickled, pickle.dumps(table.plan().pools["pkl"], 5)


def load_graph(pickled: bytes, pool: bytes) -> Any:
    arrays = pickle.loads(pool)
    return ZipUnpickler([pickled], arrays.__getitem__).load()


def measure(turns: int) -> list[Ratio]:
    log, graph = make_log(), make_graph()
    plain_log, plain_graph = plain_dump(log), plain_dump(graph)
    ours = dump_graph(graph)
    history = [
        Ratio(name, "Python 2 cPickle", taken / HISTORICAL_BASELINE)
        for name, taken in HISTORY.items()
    ]
    log_name = f"log of {ITERATIONS:,} iterations"
    graph_name = f"{INSTANCES:,} instances, {ARRAYS:,} arrays"
    return [
        compare(
            f"{log_name}: save",
            lambda: dump_log(log),
            "C pickler",
            lambda: plain_dump(log),
            reach=1.05,
            turns=turns,
        ),
        compare(
            f"{log_name}: load, restricted",
            lambda: load_log_pickle(plain_log),
            "C unpickler",
            lambda: pickle.loads(plain_log),
            turns=turns,
        ),
        compare(
            f"{graph_name}: save",
            lambda: dump_graph(graph),
            "C pickler",
            lambda: plain_dump(graph),
            reach=1.2,
            turns=turns,
        ),
        compare(
            f"{graph_name}: load",
            lambda: load_graph(*ours),
            "C unpickler",
            lambda: pickle.loads(plain_graph),
            reach=0.5,
            turns=turns,
        ),
        *history,
    ]


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="for a program to read")
    add_turns(parser, default=11)
    options = parser.parse_args(argv)
    show("Pickling", measure(options.turns), as_json=options.json)


if __name__ == "__main__":
    main()
