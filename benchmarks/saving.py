"""Large arrays and many arrays: saving and loading, against the bare bytes and peers.

    python benchmarks/saving.py [--json] [--turns N] [--mib N] [--full] [--folder DISK]

By default 256 MiB; ``--full`` means 1 GiB, and sizes up to 8 GiB, for which
there have to be 20 GB on the disk.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
from files import (
    MIB,
    folders,
    forget,
    make_arrays,
    new_folder,
    read_plainly,
    remove,
    settle,
    write_durably,
    write_plainly,
)
from measuring import Ratio, Work, add_turns, milliseconds, race, ratio_of, seconds, show
from peers import peers, savers

from blocks_checkpoint import load_parameters, open_checkpoint, save_parameters

OURS = "blocks_checkpoint"
Arrays = dict[str, Any]


def save_without_sync(path: str, arrays: Arrays) -> None:
    with open(path, "wb") as file:
        save_parameters(arrays, file)


def durably(save: Callable[[str, Arrays], Any]) -> Callable[[str, Arrays], None]:
    """Make peers do what they leave to others: wait for the disk."""

    def save_and_wait(path: str, arrays: Arrays) -> None:
        save(path, arrays)
        if os.path.isfile(path):
            with open(path, "rb") as file:
                os.fsync(file.fileno())
        else:
            os.sync()

    return save_and_wait


def saving(
    title: str,
    folder: str,
    arrays: Arrays,
    baseline: tuple[str, Callable[[str, Arrays], Any]],
    ways: dict[str, Callable[[str, Arrays], Any]],
    *,
    reach: float,
    turns: int,
) -> list[Ratio]:
    """Measure ways to save, each to a new file."""

    def work(number: int, name: str, save: Callable[[str, Arrays], Any]) -> Work:
        path = os.path.join(folder, f"saved-{number}")

        def clear() -> None:
            for other in range(len(ways) + 1):
                remove(os.path.join(folder, f"saved-{other}"))
            settle(folder)

        return Work(
            f"{title}: {name}", lambda: save(path, arrays), clear, reach if name == OURS else None
        )

    works = [work(number, *item) for number, item in enumerate(ways.items())]
    first, save_first = baseline
    return race(work(len(works), first, save_first), works, turns=turns)


def loading(
    title: str, folder: str, arrays: Arrays, *, cold: bool = False, reach: float, turns: int
) -> list[Ratio]:
    """Measure ways to load: large arrays against ``readv``, small ones against ``numpy.load``."""
    is_large = len(arrays) < 1000
    files: dict[str, tuple[str, Callable[[str], Any]]] = {}
    if is_large:
        files["readv"] = os.path.join(folder, "plain"), lambda path: read_plainly(path, arrays)
        write_plainly(files["readv"][0], arrays)
    for peer in peers():
        if is_large or peer.name != "Orbax":
            files[peer.name] = os.path.join(folder, f"{peer.name}.npz"), peer.load
            peer.save(files[peer.name][0], arrays)
    files[OURS] = os.path.join(folder, "own"), load_parameters
    save_parameters(arrays, files[OURS][0])
    settle(folder)

    def work(name: str) -> Work:
        path, load = files[name]
        before = (lambda: forget(path)) if cold else (lambda: None)
        return Work(f"{title}: {name}", lambda: load(path), before, reach if name == OURS else None)

    baseline = "readv" if is_large else "numpy.savez"
    works = [work(name) for name in reversed(files) if name != baseline]
    try:
        return race(work(baseline), works, turns=turns)
    finally:
        for path, _ in files.values():
            remove(path)


def large(options: argparse.Namespace, kind: str, folder: str) -> list[Ratio]:
    """Measure some hundred MiB in 64 arrays."""
    arrays = make_arrays(options.mib * MIB, 64)
    size = f"{options.mib} MiB in 64 arrays, {kind}"
    turns = options.turns
    found = saving(
        f"save {size}",
        folder,
        arrays,
        ("write", write_plainly),
        {OURS: save_without_sync, **savers()},
        reach=1.05,
        turns=turns,
    )
    if kind == "disk":
        found += saving(
            f"save durably {size}",
            folder,
            arrays,
            ("write + fsync", write_durably),
            {
                OURS: lambda path, arrays: save_parameters(arrays, path),
                **{name: durably(save) for name, save in savers().items()},
            },
            reach=1.0,
            turns=turns,
        )
        found += loading(f"load cold {size}", folder, arrays, cold=True, reach=1.05, turns=turns)
    found += loading(f"load {size}", folder, arrays, reach=0.75, turns=turns)
    return found


def many(options: argparse.Namespace, kind: str, folder: str) -> list[Ratio]:
    """Measure 10,000 arrays of 1 KiB."""
    count = 10_000
    arrays = make_arrays(count << 10, count)
    path = os.path.join(folder, "many")
    named = f"{count:,} arrays of 1 KiB, {kind}"
    # Orbax makes a file for each array, which takes minutes.
    theirs = {peer.name: peer for peer in peers() if not peer.only_loads and peer.name != "Orbax"}
    rows = saving(
        f"save {named}",
        folder,
        arrays,
        ("numpy.savez", theirs.pop("numpy.savez").save),
        {OURS: save_without_sync, **{name: peer.save for name, peer in theirs.items()}},
        reach=1 / 4,
        turns=options.turns,
    )
    rows += loading(f"load {named}", folder, arrays, turns=options.turns, reach=1 / 8)
    save_parameters(arrays, path)

    def open_it(until_later: ExitStack) -> None:
        until_later.enter_context(open_checkpoint(path))

    rows.append(milliseconds(f"open {named}", open_it, 25, options.turns, before=ExitStack))
    remove(path)
    return rows


def growth(options: argparse.Namespace, kind: str, folder: str) -> list[Ratio]:
    """Measure larger and larger files, a byte of each against a byte of the smallest."""
    each = np.random.RandomState(1).rand(16 * MIB // 8)
    path = os.path.join(folder, "grown")
    times: dict[int, list[float]] = {size: [] for size in options.sizes}

    def save(size: int) -> None:
        save_parameters({f"{number}": each for number in range(size // 16)}, path)

    for _ in range(max(3, options.turns // 2)):
        for size in options.sizes:
            remove(path)
            settle(folder)
            times[size].append(seconds(lambda size=size: save(size)) / size)
    remove(path)
    smallest = options.sizes[0]
    return [
        ratio_of(
            f"save durably {size:,} MiB, {kind}, a byte",
            times[size],
            f"{smallest:,} MiB, a byte",
            times[smallest],
        )
        for size in options.sizes[1:]
    ]


def measure(options: argparse.Namespace) -> list[Ratio]:
    """Measure everything, in every kind of folder."""
    found = []
    for kind, where in folders(options.folder).items():
        with new_folder(where) as folder:
            found += large(options, kind, folder)
            found += many(options, kind, folder)
            if kind == "disk":
                found += growth(options, kind, folder)
    return found


def main(argv: list[str] | None = None) -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="for a program to read")
    add_turns(parser)
    parser.add_argument("--mib", type=int, help="size of the large arrays together")
    parser.add_argument("--full", action="store_true", help="sizes up to 8 GiB")
    parser.add_argument("--folder", help="on a disk; the working folder by default")
    options = parser.parse_args(argv)
    options.mib = options.mib or (1024 if options.full else 256)
    options.sizes = [1024, 2048, 4096, 8192] if options.full else [128, 256, 512, 1024]
    show("Arrays in files", measure(options), as_json=options.json)


if __name__ == "__main__":
    main()
