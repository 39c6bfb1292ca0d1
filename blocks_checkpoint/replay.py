"""Training the same batches twice, in fresh processes, and comparing.

A run whose engine is not deterministic (threads, reductions in no fixed
order) cannot be continued bit for bit by anybody. Here its user finds that
out: from one checkpoint two processes train the same batches; or one trains
from the first checkpoint to the second.

This module, run as a program, is such a process.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .checkpoint_file import open_checkpoint
from .cost import SaveCost
from .errors import CheckpointError, LoadError
from .resumption import ENDINGS
from .schedule import Overhead

__all__ = ["Difference", "Replay", "replay"]

#: Records that differ between any two runs.
RECORDS_APART = frozenset(
    [
        "saved_to",
        "loaded_from",
        "save_error",
        "signal_to_saved_seconds",
        *Overhead(0.1).as_records(),
        *ENDINGS,
        *SaveCost().as_records(),
    ]
)


@dataclass(frozen=True)
class Difference:
    """The first thing in which two runs differ.

    Attributes
    ----------
    kind : {'batch', 'record', 'variable', 'length'}
        What it is: a batch of the data stream, a record of the log, a shared
        variable; or that one run ended before the other.
    name : str
        Of the source, record or variable.
    iteration : int
        After how many iterations, counted from the beginning of training.
    amount : float or None
        Of a variable, the largest absolute difference at the end.
    """

    kind: str
    name: str
    iteration: int
    amount: float | None = None

    def __str__(self) -> str:
        by = "" if self.amount is None else f", by at most {self.amount:.3g} at the end"
        what = {"length": "the length of the run"}.get(self.kind, f"{self.kind} {self.name!r}")
        return f"{what} differs first at iteration {self.iteration}{by}"


@dataclass(frozen=True)
class Replay:
    """What came of training twice.

    Attributes
    ----------
    batches : int
        That were trained.
    difference : Difference or None
        None if the two are the same, bit for bit.
    """

    batches: int
    difference: Difference | None = None

    @property
    def is_identical(self) -> bool:
        """Whether the two are the same."""
        return self.difference is None

    def __str__(self) -> str:
        if self.difference is None:
            return f"identical after {self.batches} batches"
        return str(self.difference)


def replay(
    path: str | os.PathLike[str],
    other: str | os.PathLike[str] | None = None,
    *,
    batches: int = 10,
    main: str | os.PathLike[str] | None = None,
) -> Replay:
    """Train from a checkpoint twice, in fresh processes, and compare.

    Nothing is saved. Runs what the file says: only for files you trust.

    Parameters
    ----------
    path : str or os.PathLike
        The checkpoint.
    other : str or os.PathLike, optional
        A later checkpoint of the same run: it is trained up to this one, once,
        and compared with it.
    batches : int
        How many to train, without ``other``.
    main : str or os.PathLike, optional
        The script that functions of ``__main__`` are taken from.

    Returns
    -------
    Replay

    Raises
    ------
    LoadError
        One of the processes failed, or there is nothing to train.
    """
    if batches < 1:
        raise ValueError(f"replay: batches is {batches}; use 1 or more")
    path = os.path.abspath(os.fspath(path))
    with tempfile.TemporaryDirectory(prefix="replay-") as folder:
        if other is None:
            first, second = (
                _train(path, os.path.join(folder, name), main, batches=batches)
                for name in ("first", "second")
            )
            return _compare(first, second)
        return _compare_with(path, os.path.abspath(os.fspath(other)), folder, main)


@dataclass
class _Tape:
    """What a run has left: rows of digests, records, and the values at its end."""

    start: int
    rows: list[dict[str, Any]]
    records: dict[int, dict[str, Any]]
    values: dict[str, np.ndarray[Any, Any]]


def _train(path: str, target: str, main: Any, **how: Any) -> _Tape:
    order = {"path": path, "target": target, "main": None if main is None else os.fspath(main)}
    command = [sys.executable, "-m", "blocks_checkpoint.replay", json.dumps({**order, **how})]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise LoadError(f"a process that was to train from it failed: {last[0]}", path=path)
    with open(f"{target}.json", encoding="utf-8") as file:
        tape = json.load(file)
    with np.load(f"{target}.npz") as archive:
        values = {name: archive[f"v{index}"] for index, name in enumerate(tape["names"])}
    records = {int(time): row for time, row in tape["records"].items()}
    return _Tape(tape["start"], tape["rows"], records, values)


def _compare(first: _Tape, second: _Tape) -> Replay:
    trained = len(first.rows)
    if not trained and not second.rows:
        raise LoadError("there is nothing to replay: the run has finished")
    for one, other in zip(first.rows, second.rows):
        for kind in ("batch", "variable"):
            for name in sorted(one[kind].keys() | other[kind].keys()):
                if one[kind].get(name) != other[kind].get(name):
                    amount = _amount(first, second, name) if kind == "variable" else None
                    return Replay(trained, Difference(kind, name, one["iteration"], amount))
        found = _different_record(first.records, second.records, one["iteration"])
        if found is not None:
            return Replay(trained, found)
    if trained != len(second.rows):
        shorter = min(trained, len(second.rows))
        return Replay(shorter, Difference("length", "", first.start + shorter))
    return Replay(trained)


def _different_record(
    first: Mapping[int, Any], second: Mapping[int, Any], iteration: int
) -> Difference | None:
    one, other = first.get(iteration, {}), second.get(iteration, {})
    for name in sorted(one.keys() | other.keys()):
        if one.get(name) != other.get(name):
            return Difference("record", name, iteration)
    return None


def _amount(first: _Tape, second: _Tape, name: str) -> float | None:
    return _distance(first.values.get(name), second.values.get(name))


def _distance(one: Any, other: Any) -> float | None:
    if one is None or other is None or one.shape != other.shape or one.dtype.kind not in "biufc":
        return None
    with np.errstate(all="ignore"):
        wide = np.abs(one.astype(np.complex128) - other.astype(np.complex128))
    return float(np.max(wide)) if wide.size else None


def _compare_with(path: str, other: str, folder: str, main: Any) -> Replay:
    with open_checkpoint(other) as later:
        until = _place(later)
        with open_checkpoint(path) as earlier:
            start = _place(earlier)
        if start > until:
            raise LoadError(
                f"it is of iteration {until[0]}, and {path} of iteration {start[0]}: give the "
                "earlier one first",
                path=other,
            )
        event = later.manifest.get("event")
        tape = _train(path, os.path.join(folder, "first"), main, until=until, event=event)
        end = tape.start + len(tape.rows)
        if end != until[0]:
            raise LoadError(
                f"training from {path} ends after {end} iterations, and this file is of "
                f"iteration {until[0]}",
                path=other,
            )
        records = {time: _records(row) for time, row in _rows(later.log(), tape.start, end)}
        for time in range(tape.start + 1, end + 1):
            found = _different_record(tape.records, records, time)
            if found is not None:
                return Replay(len(tape.rows), found)
        for name, value in tape.values.items():
            stored = later.arrays.get(name)
            if stored is None or _digest(stored) != _digest(value):
                amount = _distance(stored, value)
                return Replay(len(tape.rows), Difference("variable", name, end, amount))
    return Replay(len(tape.rows))


def _place(checkpoint: Any) -> list[int]:
    status = checkpoint.manifest["status"]
    return [status["iterations_done"], status["epochs_done"]]


def _rows(log: Any, start: int, end: int) -> Iterator[tuple[int, Any]]:
    for time in range(start, end + 1):
        if not isinstance(log, dict) or time in log:
            yield time, log[time]


def _records(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _spelled(value)
        for name, value in row.items()
        if name not in RECORDS_APART and "time_" not in name
    }


def _spelled(value: Any) -> str:
    """Write a value so that two are written alike if their bits are."""
    if isinstance(value, (np.ndarray, np.generic)):
        return " ".join(_digest(np.asarray(value)))
    return repr(value)


def _digest(array: Any) -> list[str]:
    array = np.asarray(array)
    if array.dtype.hasobject:
        return [repr(array)]
    sha = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    return [str(array.dtype), str(array.shape), sha]


# The process that trains


def _run(order: Mapping[str, Any]) -> None:
    from .continuation import load_to_continue
    from .data_files import naming_missing_files
    from .recorder import Enough, Recorder

    main_loop = load_to_continue(order["path"], main=order["main"])
    recorder = Recorder(order.get("batches"), order.get("until"), order.get("event"))
    recorder.join(main_loop)
    start = main_loop.status["iterations_done"]
    try:
        with naming_missing_files(main_loop, order["path"]):
            main_loop.run()
    except Enough:
        logging.getLogger(__name__).debug("all batches are trained")
    end = main_loop.status["iterations_done"]
    values = recorder.values()
    with open(f"{order['target']}.npz", "wb") as file:
        numbered: Any = {f"v{index}": value for index, value in enumerate(values.values())}
        np.savez(file, **numbered)
    tape = {
        "start": start,
        "rows": recorder.rows,
        "names": list(values),
        "records": {time: _records(row) for time, row in _rows(main_loop.log, start, end)},
    }
    with open(f"{order['target']}.json", "w", encoding="utf-8") as text:
        json.dump(tape, text)


if __name__ == "__main__":
    try:
        # By its real name: pickles and errors refer to it.
        from blocks_checkpoint import replay as this_module

        this_module._run(json.loads(sys.argv[1]))
    except CheckpointError as failure:
        sys.exit(f"{type(failure).__name__}: {failure}")
