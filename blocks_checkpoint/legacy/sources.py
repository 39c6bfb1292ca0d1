"""Where the parts of each kind of old checkpoint are.

A source gives arrays by the name they have in the file, and pickles by the
name that they have in a checkpoint of today.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial
from typing import BinaryIO, cast

from ..errors import DamagedCheckpoint, HostileCheckpoint, LoadError
from ..format import ITERATION_STATE, LOG, MAIN
from .names import Names, delimiter_of, read_names
from .pickled_arrays import PickledArrays
from .pickled_names import names_in_pickle
from .tar_members import TarMembers
from .zip_members import ZipMembers

__all__ = [
    "FOLDER_PARAMETERS",
    "TAR_MAIN",
    "TAR_PARAMETERS",
    "Pickled",
    "Source",
    "open_folder",
    "open_npz",
    "open_old_zip",
    "open_pickle",
    "open_tar",
]

TAR_PARAMETERS = "_parameters"
TAR_MAIN = "_pkl"
FOLDER_PARAMETERS = "params.npz"
_FOLDER_PICKLES = {LOG: "log", ITERATION_STATE: "iterations_state.pkl"}


@dataclass(frozen=True)
class Pickled:
    """A pickle in an old checkpoint.

    Attributes
    ----------
    nbytes : int
    read : callable
        Returns its bytes.
    """

    nbytes: int
    read: Callable[[], bytes]


@dataclass
class Source:
    """An old checkpoint, open.

    Attributes
    ----------
    kind : {'dump', 'zip', 'tar', 'npz', 'pickle'}
    written_by : str
        For people.
    path : str or None
        For messages.
    arrays : ZipMembers or PickledArrays
        What the arrays are in.
    stored : dict of str to str
        From the name of an array in the file to its member of that archive.
    pickles : dict of str to Pickled
    saved_at : str or None
        ISO 8601, as far as the file tells.
    delimiter : {'-', '|', '/'}
        What stands for the slash in the names of arrays.
    leading : bool
        Whether the names of bricks begin with it.
    only_parameters : bool
        Whether every array is a parameter, or only those of bricks.
    files : list of binary files
        To be closed with it.
    """

    kind: str
    written_by: str
    path: str | None
    arrays: ZipMembers | PickledArrays
    stored: dict[str, str] = field(default_factory=dict)
    pickles: dict[str, Pickled] = field(default_factory=dict)
    saved_at: str | None = None
    delimiter: str = "/"
    leading: bool = True
    only_parameters: bool = True
    files: list[BinaryIO] = field(default_factory=list)

    def names(self) -> Names:
        """Find out what the arrays are called."""
        if isinstance(self.arrays, PickledArrays):
            # Nothing was replaced in these.
            stored = {name: name for name in self.arrays}
            return Names(stored, set(filter(self.arrays.is_parameter, stored)))
        try:
            evidence = self._names_in_main if MAIN in self.pickles else None
            names = read_names(self.stored, self.delimiter, leading=self.leading, evidence=evidence)
        except DamagedCheckpoint:
            # The arrays are none the worse for a pickle that is broken.
            names = read_names(self.stored, self.delimiter, leading=self.leading)
        if self.only_parameters:
            names.parameters.update(names.stored)
        return names

    def _names_in_main(self, candidates: Iterable[str]) -> set[str]:
        return names_in_pickle(self.pickles[MAIN].read(), candidates)

    def close(self) -> None:
        """Close what was opened for it."""
        for file in self.files:
            file.close()


def open_npz(file: BinaryIO, path: str | None, prefix: str = "") -> Source:
    """Open a file of ``numpy.savez``: arrays and nothing else."""
    members = ZipMembers(file, path, prefix)
    stored = {name[:-4] if name.endswith(".npy") else name: name for name in members.infos}
    return Source(
        "npz",
        "numpy.savez",
        path,
        arrays=members,
        stored=stored,
        saved_at=_zip_time(members),
        delimiter=delimiter_of(stored),
    )


def open_old_zip(file: BinaryIO, path: str | None) -> Source:
    """Open a zip of June 2015 to early 2016: ``pkl``, and arrays without suffix."""
    # Its writer numbered unnamed buffers, and gave some the same number.
    members = ZipMembers(file, path, may_repeat=True)
    if MAIN not in members.infos:
        raise HostileCheckpoint(f"two members of the archive are called {MAIN!r}", path=path)
    return Source(
        "zip",
        "Blocks 0.1 to 0.2 (June 2015 to February 2016)",
        path,
        arrays=members,
        stored={name: name for name in members.infos if name != MAIN and members.is_array(name)},
        pickles={MAIN: Pickled(members.infos[MAIN].file_size, lambda: members.read(MAIN))},
        saved_at=_zip_time(members),
        delimiter="-",
        leading=False,
        only_parameters=False,
    )


def open_tar(file: BinaryIO, path: str | None) -> Source | None:
    """Open a tar of 2016 and later: ``_parameters``, ``_pkl``, and what was asked for.

    Returns
    -------
    Source or None
        None if it has neither of the two.
    """
    members = TarMembers(file, path)
    infos = dict(members.infos)
    if TAR_PARAMETERS not in infos and TAR_MAIN not in infos:
        return None
    source = Source(
        "tar",
        "Blocks after 0.2 (February 2016 on)",
        path,
        arrays=PickledArrays(partial(members.read, TAR_MAIN), path, MAIN),
        saved_at=_iso(max(info.mtime for info in infos.values())),
        delimiter="|",
    )
    if infos.pop(TAR_PARAMETERS, None) is not None:
        npz = open_npz(
            cast(BinaryIO, members.open(TAR_PARAMETERS)), path, prefix=f"{TAR_PARAMETERS}/"
        )
        source.arrays, source.stored = npz.arrays, npz.stored
    for name, info in infos.items():
        known_as = MAIN if name == TAR_MAIN else name
        source.pickles[known_as] = Pickled(info.size, partial(members.read, name))
    return source


def open_folder(path: str) -> Source:
    """Open the folder of Blocks 0.0.1: ``params.npz``, ``log``, ``iterations_state.pkl``."""
    file = open(os.path.join(path, FOLDER_PARAMETERS), "rb")  # noqa: SIM115
    try:
        source = open_npz(file, path, prefix=f"{FOLDER_PARAMETERS}/")
    except BaseException:
        file.close()
        raise
    source.kind, source.written_by = "dump", "Blocks 0.0.1 (May 2015)"
    source.delimiter = "-"
    source.files.append(file)
    for name, file_name in _FOLDER_PICKLES.items():
        pickle_path = os.path.join(path, file_name)
        if os.path.isfile(pickle_path):
            source.pickles[name] = _pickle_file(pickle_path)
    return source


def open_pickle(file: BinaryIO, path: str | None) -> Source:
    """Open a bare pickle, of a main loop or a log.

    Until May 2015 a checkpoint was the pickled main loop, and until early 2016
    ``save_separately`` pickled the log into a file of its own.
    """

    def read() -> bytes:
        file.seek(0)
        return file.read()

    return Source(
        "pickle",
        "Blocks without an archive (until early 2016)",
        path,
        arrays=PickledArrays(read, path, None),
        pickles={MAIN: Pickled(file.seek(0, os.SEEK_END), read)},
    )


def _pickle_file(path: str) -> Pickled:
    def read() -> bytes:
        try:
            with open(path, "rb") as source:
                return source.read()
        except OSError as error:
            raise LoadError(f"it cannot be read: {error}", path=path) from error

    return Pickled(os.path.getsize(path), read)


def _zip_time(members: ZipMembers) -> str | None:
    """Return the latest time of a member; a zip does not tell the time zone."""
    latest = max((info.date_time for info in members.infos.values()), default=None)
    # numpy gives 1980 to what it writes.
    if latest is None or latest[0] <= 1980:
        return None
    try:
        return datetime(*latest).isoformat()
    except ValueError:
        return None


def _iso(seconds: float) -> str | None:
    try:
        return datetime.fromtimestamp(seconds, timezone.utc).isoformat()
    except (OverflowError, ValueError, OSError):
        return None
