"""Which kind of old checkpoint a file is, by what is in it."""

from __future__ import annotations

import os
import stat
import zipfile
from typing import BinaryIO

from ..archive.zip_structures import resembles_mark
from ..errors import CheckpointNotFound
from ..format import MAIN, MANIFEST, RANDOM_STATE
from .sources import (
    FOLDER_PARAMETERS,
    Source,
    open_folder,
    open_npz,
    open_old_zip,
    open_pickle,
    open_tar,
)
from .tar_members import is_tar
from .zip_members import ZIP_ERRORS

__all__ = ["find_source"]

_HEAD_BYTES = 4096


def find_source(source: str | BinaryIO, path: str | None) -> Source | None:
    """Open an old checkpoint.

    Parameters
    ----------
    source : str or binary file
        A path of a file or folder, or a seekable file, which is left open.
    path : str or None
        For messages.

    Returns
    -------
    Source or None
        None if it is none of the kinds that are known.
    """
    if isinstance(source, str):
        if os.path.isdir(source):
            return _in_folder(source)
        try:
            # A pipe would keep whoever opens it waiting, and a device goes on
            # for ever.
            if not stat.S_ISREG(os.stat(source).st_mode):
                return None
            file = open(source, "rb")  # noqa: SIM115
        except FileNotFoundError as error:
            raise CheckpointNotFound("there is no such file", path=path) from error
        try:
            found = _in_file(file, path)
        except BaseException:
            file.close()
            raise
        if found is None:
            file.close()
        else:
            found.files.append(file)
        return found
    return _in_file(source, path)


def _in_folder(path: str) -> Source | None:
    try:
        with open(os.path.join(path, FOLDER_PARAMETERS), "rb") as file:
            is_dump = file.read(4) == b"PK\x03\x04"
    except OSError:
        return None
    return open_folder(path) if is_dump else None


def _in_file(file: BinaryIO, path: str | None) -> Source | None:
    file.seek(0)
    head = file.read(_HEAD_BYTES)
    if head.startswith(b"PK"):
        return _in_zip(file, path)
    if is_tar(head):
        return open_tar(file, path)
    return open_pickle(file, path) if _is_pickle_of_blocks(head) else None


def _is_pickle_of_blocks(head: bytes) -> bool:
    is_pickle = (head[:1] == b"\x80" and head[1:2] <= b"\x05") or head[:1] in (b"c", b"(")
    # The class of the outermost object is the first thing that is said of it.
    return is_pickle and b"blocks." in head[:200]


def _in_zip(file: BinaryIO, path: str | None) -> Source | None:
    try:
        with zipfile.ZipFile(file) as archive:
            names, comment = archive.namelist(), archive.comment
    except ZIP_ERRORS:
        return None
    # A checkpoint of ours, in whatever state, is none of theirs.
    if resembles_mark(comment) or not {MANIFEST, RANDOM_STATE}.isdisjoint(names):
        return None
    if MAIN in names and not any(name.endswith(".npy") for name in names):
        return open_old_zip(file, path)
    if names and all(name.endswith(".npy") for name in names):
        return open_npz(file, path)
    return None
