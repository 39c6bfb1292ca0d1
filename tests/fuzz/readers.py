"""What the fuzzer does with one input: opens it, and reads all there is.

The first byte of an input says which reader the rest is for. Whatever a reader
is given, it answers with a value or with a `CheckpointError`; any other
exception, a crash, an endless loop or a mountain of memory is a finding.
"""

from __future__ import annotations

import io
import os
import struct
import warnings
import zipfile

import numpy as np

from blocks_checkpoint.archive import ArchiveWriter, npy
from blocks_checkpoint.checkpoint_file import open_checkpoint
from blocks_checkpoint.errors import CheckpointError
from blocks_checkpoint.legacy import open_legacy
from blocks_checkpoint.manifest import parse_manifest
from blocks_checkpoint.pickling import random_state
from blocks_checkpoint.safe_unpickling.log_unpickler import load_log_pickle

__all__ = ["TARGETS", "packed", "run", "unpacked"]

#: How a piece of a forged archive begins: lengths of its name and content.
_PIECE = struct.Struct("<BH")

_MEMBERS = frozenset({"W.npy", "arrays/0.npy", "checkpoint.json", "log", "pkl"})


class Finding(Exception):
    """A reader contradicts itself."""


def run(data: bytes) -> None:
    """Give an input to the reader that it is for."""
    target = TARGETS.get(data[:1])
    if target is None:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            target(data[1:])
        except CheckpointError as error:
            # What a user would be shown.
            str(error)


def _checkpoint(data: bytes) -> None:
    """Read a file as a checkpoint, all but what only trusted files are read for."""
    with open_checkpoint(io.BytesIO(data)) as checkpoint:
        manifest = checkpoint.manifest
        is_whole = not checkpoint.verify()
        is_ours = manifest["format"] != "blocks"
        arrays = {}
        for name in checkpoint.arrays:
            try:
                arrays[name] = checkpoint.arrays[name]
            except CheckpointError as error:
                if is_whole and is_ours and "manifest" not in error.message:
                    raise Finding(f"verify() finds nothing in {name!r}") from error
        for name in checkpoint.parameters:
            if name in arrays:
                _compare(checkpoint.parameters[name], arrays[name])
        dict(checkpoint.status)
        repr(checkpoint)
        if is_whole and is_ours:
            _mapped(data, arrays)
        _look_through(checkpoint.log())


def _look_through(log: object) -> None:
    """Look for arrays of objects, which bytes of a file would be the addresses of."""
    for row in list(log.values()) if isinstance(log, dict) else []:
        for value in list(row.values()) if isinstance(row, dict) else []:
            if isinstance(value, np.ndarray) and value.dtype.hasobject:
                raise Finding("an array of objects in a log")


def _mapped(data: bytes, arrays: dict[str, np.ndarray]) -> None:
    """Compare arrays with those that are mapped into memory."""
    descriptor = os.memfd_create("checkpoint")
    try:
        os.write(descriptor, data)
        with open_checkpoint(f"/proc/self/fd/{descriptor}", mmap=True) as checkpoint:
            for name, array in arrays.items():
                _compare(checkpoint.arrays[name], array)
    finally:
        os.close(descriptor)


def _compare(one: np.ndarray, other: np.ndarray) -> None:
    if one.dtype != other.dtype or one.shape != other.shape or one.tobytes() != other.tobytes():
        raise Finding("two ways to read an array disagree")


def _forged(data: bytes) -> None:
    """Read an archive of the fuzzer's members, whose checksums are right."""
    pieces = unpacked(data[1:])
    deflated = bool(data[:1] and data[0] & 1)
    file = io.BytesIO()
    if data[:1] and data[0] & 2:
        method = zipfile.ZIP_DEFLATED if deflated else zipfile.ZIP_STORED
        with zipfile.ZipFile(file, "w", method) as archive:
            for name, content in pieces:
                archive.writestr(zipfile.ZipInfo(name), content, method)
    else:
        with ArchiveWriter(file, compression="deflate" if deflated else None) as writer:
            for name, content in pieces:
                writer.add_bytes(name, content)
    _checkpoint(file.getvalue())


def packed(pieces: dict[str, bytes]) -> bytes:
    """Put members into the form from which `unpacked` takes them."""
    return b"".join(
        _PIECE.pack(len(name.encode()), len(content)) + name.encode() + content
        for name, content in pieces.items()
    )


def unpacked(data: bytes) -> list[tuple[str, bytes]]:
    """Take as many members from bytes as there are."""
    pieces = []
    at = 0
    while at + _PIECE.size <= len(data):
        name_length, length = _PIECE.unpack_from(data, at)
        at += _PIECE.size
        name = data[at : at + name_length].decode("latin-1")
        at += name_length
        pieces.append((name, data[at : at + length]))
        at += length
    return pieces


def _manifest(data: bytes) -> None:
    manifest = parse_manifest(data, None, _MEMBERS)
    for row in manifest["arrays"]:
        if row["member"] not in _MEMBERS:
            raise Finding("a row speaks of a member that is not there")


def _array(data: bytes) -> None:
    try:
        dtype, shape, fortran_order, length = npy.check_member(data, len(data))
    except npy.NpyError:
        return
    if dtype.hasobject:
        raise Finding("an array of objects")
    ours = np.ndarray(shape, dtype, data, length, order="F" if fortran_order else "C")
    _compare_with_numpy(ours, data)


def _compare_with_numpy(ours: np.ndarray, data: bytes) -> None:
    try:
        theirs = np.load(io.BytesIO(data), allow_pickle=False)
    except Exception:
        # numpy is stricter about blanks, and laxer about nothing that matters.
        return
    _compare(ours, theirs)


def _log(data: bytes) -> None:
    _look_through(load_log_pickle(data, array_loader=lambda number: np.zeros(number % 7)))


def _random_state(data: bytes) -> None:
    before = random_state.capture()
    try:
        random_state.restore(data)
    finally:
        random_state.restore(before)


def _legacy(data: bytes) -> None:
    checkpoint = open_legacy(io.BytesIO(data))
    if checkpoint is None:
        return
    with checkpoint:
        checkpoint.verify()
        for name in checkpoint.arrays:
            try:
                checkpoint.arrays[name]
            except CheckpointError as error:
                str(error)
        dict(checkpoint.manifest)
        checkpoint.rows_for(["/mlp/linear_0.W", "W"])
        checkpoint.log()


TARGETS = {
    b"C": _checkpoint,
    b"F": _forged,
    b"M": _manifest,
    b"N": _array,
    b"L": _log,
    b"O": _legacy,
    b"R": _random_state,
}
