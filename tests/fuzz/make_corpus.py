"""Write the inputs that fuzzing begins with: ``python make_corpus.py FOLDER``."""

from __future__ import annotations

import io
import json
import os
import pickle
import sys
import tarfile
import zipfile

import numpy as np
import readers

from blocks_checkpoint import dump, save_parameters
from blocks_checkpoint.miniblocks.log import TrainingLog
from blocks_checkpoint.pickling import random_state

__all__ = ["seeds"]

LEGACY = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "legacy")


def seeds() -> dict[str, bytes]:
    """Make inputs that together use every part of every reader."""
    log = training_log()
    checkpoint = checkpoint_of(log)
    pieces = pieces_of(checkpoint)
    made = {
        "checkpoint": b"C" + checkpoint,
        "parameters": b"C" + parameters(),
        "repacked": b"C" + repacked(checkpoint, zipfile.ZIP_DEFLATED),
        "forged": b"F\0" + readers.packed(pieces),
        "forged-foreign": b"F\3" + readers.packed(pieces),
        "manifest": b"M" + pieces["checkpoint.json"],
        "random-state": b"R" + random_state.capture(),
        "npz": b"O" + npz(),
        "tar": b"O" + tar(log),
        "old-pickle": b"O" + pickle.dumps(log, 2),
    }
    for protocol in range(6):
        made[f"log-{protocol}"] = b"L" + pickle.dumps(log, protocol)
    for number, array in enumerate(arrays()):
        file = io.BytesIO()
        np.save(file, array, allow_pickle=False)
        made[f"array-{number}"] = b"N" + file.getvalue()
    for name in ("blocks-0.1.1.zip", "blocks-0.2.zip", "blocks-2015-06.zip"):
        with open(os.path.join(LEGACY, name), "rb") as source:
            made[name] = b"O" + source.read()
    return made


def training_log() -> TrainingLog:
    """Make a log with a value of every kind that logs are made of."""
    log = TrainingLog()
    whole = np.arange(3.0)
    for time in range(3):
        log[time]["cost"] = time / 7
        log.status["iterations_done"] = time
    log[1].update(
        array=whole,
        part=whole[1:],
        scalar=np.float32(0.5),
        text="é",
        saved_to=("a.zip", None),
        big=1 << 70,
    )
    log[2].update(
        flags={1, 2}, raw=b"\0\xff", nested={"a": [1, (2, None)]}, moment=np.datetime64(0, "s")
    )
    log.status["_epoch_ends"] = [1, 2]
    return log


def arrays() -> list[np.ndarray]:
    """List arrays of every kind that NPY holds."""
    return [
        np.zeros((2, 3), "<f4"),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array(5),
        np.zeros((0, 4), ">i2"),
        np.zeros(2, [("a", "<i4"), ("b", "<f8", (2,)), ("é", [("c", "S3")])]),
        np.array(["2020-01-01"], "M8[D]"),
        np.array(["ab", "c"]),
        np.zeros(3, "c16"),
        np.zeros(2, "V3"),
        np.array([True]),
    ]


def checkpoint_of(log: TrainingLog) -> bytes:
    """Save a log and some arrays, small ones and one that is a member."""
    file = io.BytesIO()
    thing = {"W": np.arange(4.0), "large": np.zeros((128, 65)), "log": log}
    dump(thing, file, to_add={"log_of_before": log})
    return file.getvalue()


def parameters() -> bytes:
    """Save parameters without a main loop."""
    file = io.BytesIO()
    values = {"/mlp/linear_0.W": np.eye(2), "/mlp/linear_0.b": np.zeros(2), "a|b": np.ones(1, "f2")}
    save_parameters(values, file)
    return file.getvalue()


def pieces_of(checkpoint: bytes) -> dict[str, bytes]:
    """Take a checkpoint apart; with its log as the member of that name."""
    with zipfile.ZipFile(io.BytesIO(checkpoint)) as archive:
        pieces = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(pieces.pop("checkpoint.json"))
    pieces = {name: content for name, content in pieces.items() if len(content) < 4000}
    manifest["arrays"] = [row for row in manifest["arrays"] if row["member"] in pieces]
    small = io.BytesIO()
    np.save(small, np.arange(3.0))
    pieces["W.npy"] = small.getvalue()
    manifest["arrays"].append(
        {
            "name": "W",
            "parameter_name": "W",
            "member": "W.npy",
            "dtype": "<f8",
            "shape": [3],
            "order": "C",
            "kind": "parameter",
            "id": 900,
        }
    )
    log = pieces.pop("log_of_before")
    pieces["log"] = log
    manifest["pickles"]["log"] = manifest["pickles"].pop("log_of_before")
    pieces["checkpoint.json"] = json.dumps(manifest).encode()
    return pieces


def repacked(checkpoint: bytes, method: int) -> bytes:
    """Pack a checkpoint as another program would."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(checkpoint)) as old, zipfile.ZipFile(file, "w", method) as new:
        for name in old.namelist():
            new.writestr(name, old.read(name))
    return file.getvalue()


def npz() -> bytes:
    """Save arrays as the first Blocks did."""
    file = io.BytesIO()
    np.savez(file, **{"-mlp-linear_0.W": np.eye(2), "-mlp-linear_0.b": np.zeros(2)})
    return file.getvalue()


def tar(log: TrainingLog) -> bytes:
    """Make a tar as the last Blocks did, with a log for a main loop."""
    file = io.BytesIO()
    members = {
        "_parameters": npz(),
        "_pkl": pickle.dumps({"log": log}, 2),
        "log": pickle.dumps(log, 2),
    }
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


def main(folder: str) -> None:
    """Write every seed into a file of its own."""
    os.makedirs(folder, exist_ok=True)
    for name, content in seeds().items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)


if __name__ == "__main__":
    main(sys.argv[1])
