"""How the cost of a checkpoint grows: with bytes, members, the log and the cores.

    python benchmarks/growth.py [--turns N] [--full] [--folder DISK] [--output FOLDER]

Writes ``growth.json`` and, where matplotlib is installed, one plot for each
table: ``bytes.svg``, ``members.svg``, ``log.svg``, ``cores.svg``. By default up
to 1 GiB and 200,000 iterations; ``--full`` means 4 GiB and a million.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from files import (
    MEMORY_FOLDER,
    MIB,
    make_arrays,
    new_folder,
    read_plainly,
    write_durably,
    write_plainly,
)
from logs import MORE, Run
from measuring import Work, add_turns, times_of
from pickling import plain_dump

from blocks_checkpoint import load_parameters, open_checkpoint, save_parameters
from blocks_checkpoint.archive.parallel import available_cores

#: Name of a curve to (size, seconds) pairs.
Curves = dict[str, list[tuple[float, float]]]

#: Title of the plot, of its axis, and what its sizes are to be divided by.
PLOTS = {
    "bytes": ("Saving and loading, by size", "MiB in 64 arrays", MIB),
    "members": ("Saving and loading, by number of arrays of 1 KiB", "arrays", 1),
    "log": ("Saving the log, by its length", "iterations × 4 values", 1),
    "cores": ("Loading 256 MiB, by cores", "cores", 1),
}


def measure(sizes: Iterable[int], works_of: Callable[[int], list[Work]], turns: int) -> Curves:
    """Take the median time of each work at each size, turn by turn."""
    curves: Curves = {}
    for size in sizes:
        for name, taken in times_of(works_of(size), turns).items():
            curves.setdefault(name, []).append((size, statistics.median(taken)))
    return curves


def by_bytes(folder: str, disk: str, options: argparse.Namespace) -> Curves:
    """Measure large arrays."""

    def works(nbytes: int) -> list[Work]:
        arrays = make_arrays(nbytes, 64)
        plain, own = os.path.join(folder, "plain"), os.path.join(folder, "own")
        on_disk = os.path.join(disk, "own")
        save_parameters(arrays, own)
        write_plainly(plain, arrays)

        def save() -> None:
            with open(own, "wb") as file:
                save_parameters(arrays, file)

        return [
            Work("write", lambda: write_plainly(plain, arrays)),
            Work("save, in memory", save),
            Work("readv", lambda: read_plainly(plain, arrays)),
            Work("load, every CRC checked", lambda: load_parameters(own)),
            Work("write and fsync, on a disk", lambda: write_durably(on_disk + "-plain", arrays)),
            Work("save durably, on a disk", lambda: save_parameters(arrays, on_disk)),
        ]

    most = 4096 if options.full else 1024
    sizes = [MIB << exponent for exponent in range(6, 13) if 1 << exponent <= most]
    return measure(sizes, works, options.turns)


def by_members(folder: str, disk: str, options: argparse.Namespace) -> Curves:
    """Measure many small arrays."""
    path = os.path.join(folder, "own")
    other = os.path.join(folder, "numpy.npz")

    def works(count: int) -> list[Work]:
        arrays = make_arrays(count << 10, count)
        save_parameters(arrays, path)
        np.savez(other, **arrays)

        def save() -> None:
            with open(path, "wb") as file:
                save_parameters(arrays, file)

        def load_of_numpy() -> None:
            with np.load(other) as loaded:
                for name in loaded.files:
                    loaded[name]

        return [
            Work("save", save),
            Work("load", lambda: load_parameters(path)),
            Work("open", lambda: open_checkpoint(path).close()),
            Work("numpy.savez", lambda: np.savez(other, **arrays)),
            Work("numpy.load", load_of_numpy),
        ]

    return measure([100, 300, 1000, 3000, 10_000, 30_000], works, options.turns)


def by_log(folder: str, disk: str, options: argparse.Namespace) -> Curves:
    """Measure logs."""

    def works(count: int) -> list[Work]:
        run = Run(count)

        def go_on() -> None:
            run.save()
            run.go_on(MORE)

        return [
            Work("C pickler", lambda: plain_dump(run.log)),
            Work("first save", run.save, run.forget),
            Work(f"saved again after {MORE:,} more", run.save, go_on),
        ]

    most = 1_000_000 if options.full else 200_000
    sizes = [size for size in (2_000, 10_000, 50_000, 200_000, 1_000_000) if size <= most]
    return measure(sizes, works, options.turns)


def by_cores(folder: str, disk: str, options: argparse.Namespace) -> Curves:
    """Measure loading with fewer cores than there are."""
    arrays = make_arrays(256 * MIB, 64)
    plain, own = os.path.join(folder, "plain"), os.path.join(folder, "own")
    save_parameters(arrays, own)
    write_plainly(plain, arrays)
    allowed = sorted(os.sched_getaffinity(0))

    def works(count: int) -> list[Work]:
        os.sched_setaffinity(0, allowed[:count])

        def verify() -> None:
            with open_checkpoint(own) as checkpoint:
                list(checkpoint.verify())

        return [
            Work("readv, one thread", lambda: read_plainly(plain, arrays)),
            Work("load, every CRC checked", lambda: load_parameters(own)),
            Work("verify", verify),
        ]

    try:
        return measure(range(1, available_cores() + 1), works, options.turns)
    finally:
        os.sched_setaffinity(0, allowed)


TABLES = {"bytes": by_bytes, "members": by_members, "log": by_log, "cores": by_cores}


def plot(name: str, curves: Curves, path: Path) -> None:
    """Draw the curves of one table, on axes that show proportion as a straight line."""
    from matplotlib import pyplot

    title, axis, unit = PLOTS[name]
    figure, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    for curve, points in curves.items():
        sizes, times = zip(*points)
        axes.plot([size / unit for size in sizes], times, marker="o", markersize=4, label=curve)
    if name == "cores":
        axes.set_ylim(bottom=0)
        axes.set_xticks([size for size, _ in points])
    else:
        axes.set_xscale("log")
        axes.set_yscale("log")
    axes.set(title=title, xlabel=axis, ylabel="seconds")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")
    # Without a date in it, the same figures give the same file.
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def main(argv: list[str] | None = None) -> None:
    """Measure, write the figures, and plot them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_turns(parser)
    parser.add_argument("--full", action="store_true", help="4 GiB, a million iterations")
    parser.add_argument("--folder", help="on a disk; the working folder by default")
    parser.add_argument("--output", default="growth", help="folder for figures and plots")
    options = parser.parse_args(argv)
    output = Path(options.output)
    output.mkdir(parents=True, exist_ok=True)
    measured: dict[str, Any] = {}
    memory = MEMORY_FOLDER if os.path.isdir(MEMORY_FOLDER) else None
    for name, table in TABLES.items():
        print(f"measuring: {name}", file=sys.stderr)
        with new_folder(memory) as folder, new_folder(options.folder or os.getcwd()) as disk:
            measured[name] = table(folder, disk, options)
        (output / "growth.json").write_text(json.dumps(measured, indent=1) + "\n")
    try:
        import matplotlib
    except ImportError:
        print("no plots: matplotlib is not installed", file=sys.stderr)
        return
    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "blocks_checkpoint"
    for name, curves in measured.items():
        plot(name, curves, output / f"{name}.svg")


if __name__ == "__main__":
    sys.exit(main())
