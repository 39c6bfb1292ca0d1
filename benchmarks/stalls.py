"""What a save costs the training: time at a standstill, speed meanwhile, memory, imports.

    python benchmarks/stalls.py [--json] [--turns N] [--mib N] [--full] [--folder DISK]

By default 256 MiB; ``--full`` means 1 GiB.
"""

from __future__ import annotations

import argparse
import os
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from files import MIB, folders, make_arrays, new_folder, remove
from measuring import Ratio, Work, add_turns, race, ratio_of, show

from blocks_checkpoint.arena import Arena
from blocks_checkpoint.background import BackgroundSaver
from blocks_checkpoint.snapshot import Snapshot
from blocks_checkpoint.writing import write_snapshot


class Saving:
    """Saves arrays in the background, as ``Checkpoint(background=True)`` does."""

    def __init__(self, path: str, arrays: dict[str, Any]) -> None:
        self.path = path
        self.named = list(arrays.items())
        self.arena = Arena()
        self.saver = BackgroundSaver()

    def begin(self) -> None:
        """Take the snapshot, and have it written: what training waits for."""
        snapshot = Snapshot.of_arrays(self.named)
        snapshot.copy_into(self.arena)

        def job() -> None:
            try:
                write_snapshot(snapshot, self.path)
            finally:
                snapshot.release()

        self.saver.submit(job)

    def wait(self) -> None:
        """Wait until the file is there."""
        self.saver.wait()
        self.saver.raise_errors()


def stall(options: argparse.Namespace, path: str) -> list[Ratio]:
    """Measure the standstill against copying into memory that is there."""
    arrays = make_arrays(options.mib * MIB, 64)
    there = [np.copy(array) for array in arrays.values()]
    saving = Saving(path, arrays)

    def copy() -> None:
        for source, target in zip(arrays.values(), there):
            np.copyto(target, source)

    rows = race(
        Work("copy into memory that is there", copy, saving.wait),
        [
            Work(f"standstill of a save of {options.mib} MiB", saving.begin, saving.wait, 1.15),
            Work("copy into new memory", lambda: [np.copy(each) for each in arrays.values()]),
        ],
        turns=options.turns,
    )
    saving.wait()
    return rows


def _python() -> None:
    total = 0
    for number in range(2000):
        total += number * number


# So small that NumPy multiplies it on one thread: two on two cores would leave
# none for the save.
_MATRIX = np.random.RandomState(1).rand(64, 64)
_VALUES = np.random.RandomState(1).rand(50_000)
# So large that NumPy takes every core for it.
_LARGE_MATRIX = np.random.RandomState(1).rand(1024, 1024)


def _numpy() -> None:
    np.tanh(_VALUES)
    for _ in range(10):
        _MATRIX @ _MATRIX


def _every_core() -> None:
    _LARGE_MATRIX @ _LARGE_MATRIX


#: What training does, and how many steps lie between two looks at the clock.
_STEPS: dict[str, tuple[Callable[[], Any], int]] = {
    "Python code": (_python, 10),
    "NumPy": (_numpy, 10),
    "NumPy on every core": (_every_core, 1),
}


_WRITER = """
import sys
sys.path[:0] = {paths!r}
from files import make_arrays, remove, write_durably, MIB
arrays = make_arrays({mib} * MIB, 64)
print(flush=True)
for line in sys.stdin:
    write_durably({path!r}, arrays)
    remove({path!r})
    print(flush=True)
"""


def speed(options: argparse.Namespace, path: str) -> list[Ratio]:
    """Measure how long steps take meanwhile, the standstill not counted.

    Writing takes memory bandwidth and a core from the training, whoever
    writes. How much, shows another process that writes the bare bytes.
    """
    saving = Saving(path, make_arrays(options.mib * MIB, 64))
    program = _WRITER.format(paths=_paths(), mib=options.mib, path=f"{path}-bare")
    writer = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert writer.stdin is not None
    assert writer.stdout is not None
    writer.stdout.readline()
    rows = []
    for name, (step, at_a_time) in _STEPS.items():
        alone, meanwhile, beside = [], [], []
        for turn in range(-1, options.turns):
            saving.begin()
            busy = _steps(step, at_a_time, lambda: saving.saver.is_busy)
            saving.wait()
            end = time.perf_counter() + max(0.2, busy[1])
            free = _steps(step, at_a_time, lambda end=end: time.perf_counter() < end)
            writer.stdin.write("\n")
            writer.stdin.flush()
            other = _steps(
                step, at_a_time, lambda: not select.select([writer.stdout], [], [], 0)[0]
            )
            writer.stdout.readline()
            if turn >= 0:
                meanwhile.append(busy[1] / busy[0])
                alone.append(free[1] / free[0])
                beside.append(other[1] / other[0])
        work = f"a step of {name} while a save is written"
        rows += [
            ratio_of(work, meanwhile, "alone", alone, 1.03),
            ratio_of(work, meanwhile, "while another process writes the bytes", beside),
        ]
    writer.stdin.close()
    writer.wait()
    return rows


def _steps(step: Callable[[], Any], at_a_time: int, go_on: Callable[[], bool]) -> tuple[int, float]:
    """Return how many steps were done, and in how many seconds."""
    begin = time.perf_counter()
    count = 0
    while go_on() or not count:
        for _ in range(at_a_time):
            step()
        count += at_a_time
    return count, time.perf_counter() - begin


_MEMORY = """
import os, sys
sys.path[:0] = {paths!r}
import numpy
from files import make_arrays, MIB
from stalls import Saving
from blocks_checkpoint import save_parameters
def peak():
    with open('/proc/self/status') as file:
        return next(int(line.split()[1]) for line in file if line.startswith('VmHWM')) / 1024
arrays = make_arrays({mib} * MIB, 64)
saving = Saving({path!r}, arrays)
save_parameters({{'a': numpy.zeros(3)}}, {path!r})
with open('/proc/self/clear_refs', 'w') as file:
    file.write('5')
before = peak()
if {background}:
    for _ in range(2):
        saving.begin()
        saving.wait()
else:
    save_parameters(arrays, {path!r})
print(peak() - before)
"""


def memory(options: argparse.Namespace, path: str) -> list[Ratio]:
    """Measure how much memory a save takes on top of the arrays."""
    rows = []
    for background in (False, True):
        program = _MEMORY.format(paths=_paths(), mib=options.mib, path=path, background=background)
        taken = [float(_run(program)) for _ in range(3)]
        arrays = options.mib if background else 0
        rows.append(
            Ratio(
                f"memory of a save of {options.mib} MiB in the "
                f"{'background, beside the copies' if background else 'foreground'}",
                "64 MiB",
                (statistics.median(taken) - arrays) / 64,
                reach=1,
            )
        )
        remove(path)
    return rows


def imports(turns: int) -> list[Ratio]:
    """Measure how long the import takes in a new process."""

    def work(module: str, reach: float | None = None) -> Work:
        return Work(f"import {module}", lambda: _run(f"import {module}"), reach=reach)

    return race(work("numpy"), [work("blocks_checkpoint", 1.5)], turns=turns)


def _paths() -> list[str]:
    return [os.path.dirname(os.path.abspath(__file__)), *filter(None, sys.path)]


def _run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


def measure(options: argparse.Namespace) -> list[Ratio]:
    """Measure everything, on the disk."""
    with new_folder(folders(options.folder)["disk"]) as folder:
        path = os.path.join(folder, "saved")
        return [
            *stall(options, path),
            *speed(options, path),
            *(memory(options, path) if os.path.exists("/proc/self/clear_refs") else []),
            *imports(max(options.turns, 11)),
        ]


def main(argv: list[str] | None = None) -> None:
    """Print a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="for a program to read")
    add_turns(parser)
    parser.add_argument("--mib", type=int, help="size of the arrays together")
    parser.add_argument("--full", action="store_true", help="1 GiB")
    parser.add_argument("--folder", help="on a disk; the working folder by default")
    options = parser.parse_args(argv)
    options.mib = options.mib or (1024 if options.full else 256)
    show("What a save costs the training", measure(options), as_json=options.json)


if __name__ == "__main__":
    main()
