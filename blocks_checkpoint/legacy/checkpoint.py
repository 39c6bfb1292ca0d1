"""A checkpoint that Blocks wrote, open for reading."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Union

from ..archive import Damage
from ..errors import (
    CheckpointError,
    DamagedCheckpoint,
    HostileCheckpoint,
    LoadError,
    ParameterWarning,
)
from ..format import ITERATION_STATE, LOG, MAIN
from ..safe_unpickling.log_unpickler import load_log_pickle
from .full_unpickling import unpickle_with_blocks
from .log_inside import find_log
from .names import Names, stored_forms
from .recognition import find_source
from .sources import Source

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]
    PathOrFile = Union[str, os.PathLike[str], BinaryIO]

__all__ = ["LegacyArrays", "LegacyCheckpoint", "open_legacy"]

Main = Any


def open_legacy(path_or_file: PathOrFile) -> LegacyCheckpoint | None:
    """Open what Blocks wrote, of any of its versions, or an npz of parameters.

    Parameters
    ----------
    path_or_file : str, os.PathLike or binary file
        A file, or the folder of a dump. An open file has to be seekable, and
        is left open.

    Returns
    -------
    LegacyCheckpoint or None
        To be closed, or used with ``with``. None if it is something else.

    Raises
    ------
    CheckpointNotFound
        There is no such file.
    DamagedCheckpoint, HostileCheckpoint
        It is one, and cannot be read.
    """
    if isinstance(path_or_file, (str, os.PathLike)):
        source = find_source(os.fspath(path_or_file), os.fspath(path_or_file))
    else:
        name = getattr(path_or_file, "name", None)
        source = find_source(path_or_file, name if isinstance(name, str) else None)
    return None if source is None else LegacyCheckpoint(source)


class LegacyArrays(Mapping[str, "Array"]):
    """Arrays by name, each read when it is asked for."""

    def __init__(self, checkpoint: LegacyCheckpoint, names: Iterable[str]) -> None:
        self._checkpoint = checkpoint
        self._names = dict.fromkeys(names)

    def __getitem__(self, name: str) -> Array:
        if name not in self._names:
            raise KeyError(name)
        return self._checkpoint.read_array(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"<{len(self)} arrays: {', '.join(self._names)}>"


class LegacyCheckpoint:
    """A checkpoint that Blocks wrote; made by :func:`open_legacy`.

    It has what a :class:`~blocks_checkpoint.checkpoint_file.CheckpointFile`
    has. The manifest is put together from what the file holds.

    Attributes
    ----------
    path : str or None
        Where it is.
    kind : {'dump', 'zip', 'tar', 'npz', 'pickle'}
        How it was written.
    """

    def __init__(self, source: Source) -> None:
        self.path = source.path
        self.kind = source.kind
        self._source = source
        self._has_warned = False

    @cached_property
    def _names(self) -> Names:
        return self._source.names()

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """What the file says of itself, in the shape of today's manifest."""
        self._warn_of_doubts()
        source = self._source
        has_main_loop = MAIN in source.pickles
        return {
            "format": "blocks",
            "kind": source.kind,
            "saved": {"time": source.saved_at, "path": self.path},
            "versions": {"blocks": source.written_by},
            "status": self._status(),
            "arrays": self._rows(),
            "pickles": {
                name: {"bytes": pickled.nbytes} for name, pickled in source.pickles.items()
            },
            "main_loop": "present" if has_main_loop else "absent",
            "main_loop_error": None,
            "main_module": None,
            "cost": {},
        }

    @property
    def status(self) -> dict[str, Any]:
        """How far training was; empty if there is no log that can be read."""
        return dict(self.manifest["status"])

    @property
    def doubtful_names(self) -> dict[str, str]:
        """Names of arrays that are guesses, and what else each may have been."""
        return dict(self._names.doubtful)

    @property
    def parameters(self) -> LegacyArrays:
        """The model's parameters, as far as the file tells them apart."""
        self._warn_of_doubts()
        return LegacyArrays(self, (n for n in self._names.stored if n in self._names.parameters))

    @property
    def arrays(self) -> LegacyArrays:
        """Every array, the parameters among them."""
        self._warn_of_doubts()
        return LegacyArrays(self, self._names.stored)

    def read_array(self, name: str) -> Array:
        """Read the array of that name."""
        return self._read_stored(self._names.stored[name])

    def read_row(self, row: Mapping[str, Any]) -> Array:
        """Read the array that a row of the manifest describes."""
        return self._read_stored(row["stored_name"])

    def read_rows(self, rows: Iterable[Mapping[str, Any]]) -> list[Array]:
        """Read many arrays."""
        return [self.read_row(row) for row in rows]

    def rows_for(self, parameter_names: Iterable[str]) -> list[dict[str, Any]]:
        """Describe the arrays under the names of a model that asks for them.

        What the name of an array was before Blocks replaced its slashes, the
        file may not tell; the model's own names do. Names of parameters that
        are not in the model are as in the manifest.

        Parameters
        ----------
        parameter_names : iterable of str
            As the model's ``get_parameter_dict`` has them.

        Returns
        -------
        list of dict
            As ``manifest["arrays"]``.
        """
        asked: dict[str, list[str]] = {}
        for name in parameter_names:
            for form in stored_forms(name, self._source.delimiter):
                asked.setdefault(form, []).append(name)
        rows = []
        for row in self._rows():
            names = asked.get(row["stored_name"], [])
            if len(names) == 1:
                row = {**row, "name": names[0], "parameter_name": names[0], "kind": "parameter"}
            rows.append(row)
        return rows

    def log(self, *, allow: Iterable[Any] = ()) -> Any:
        """Read the training log; needs neither Blocks nor Theano, and runs no code.

        Parameters
        ----------
        allow : iterable of type or str
            Classes (or their dotted names) to allow in the log beyond those
            it is made of, where the log has a member to itself.

        Raises
        ------
        LoadError
            There is no log in it.
        """
        if LOG in self._source.pickles:
            content = self._source.pickles[LOG].read()
            return load_log_pickle(content, allow=allow, path=self.path, member=LOG)
        self._require(MAIN, "log")
        return find_log(self._source.pickles[MAIN].read(), path=self.path, member=MAIN)

    def iteration_state(self, *, main: Main = None, present: Any = None) -> Any:
        """Unpickle the pair of data stream and epoch iterator.

        Runs what the file says, and needs Blocks and Fuel. Nothing in it was
        saved by its state alone, so that ``present`` is not asked.
        """
        if ITERATION_STATE in self._source.pickles:
            return self.load(ITERATION_STATE, main=main)
        return self.main_loop(main=main).iteration_state

    def main_loop(self, *, main: Main = None) -> Any:
        """Unpickle the main loop. Runs what the file says, and needs Blocks and Theano."""
        return self.load(MAIN, main=main)

    def load(self, member: str, *, main: Main = None, **kwargs: Any) -> Any:
        """Unpickle the object in any pickle. Runs what the file says."""
        if kwargs:
            raise TypeError(f"options that old files do not take: {', '.join(kwargs)}")
        self._require(member, "main loop" if member == MAIN else member)
        return unpickle_with_blocks(
            self._source.pickles[member].read(),
            load_array=self._read_stored,
            main=main,
            path=self.path,
            member=member,
            written_by=self._source.written_by,
        )

    def restore_random_state(self) -> bool:
        """Return False: Blocks did not save the global generators."""
        return False

    def verify(self, progress: Callable[[int], object] | None = None) -> list[Damage]:
        """Check the bytes of the file, as far as it has checksums.

        A tar archive has none for its pickles; that the log can be read is
        all that is checked of them.
        """
        damage = list(self._source.arrays.verify(progress or (lambda count: None)))
        try:
            self.log()
        except (DamagedCheckpoint, HostileCheckpoint) as error:
            damage.append(Damage(error.member or LOG, error.message))
        except LoadError:
            # There is none, or none that can be read without Blocks.
            return damage
        return damage

    def close(self) -> None:
        """Close the file. Arrays that were read stay."""
        self._source.close()

    def __enter__(self) -> LegacyCheckpoint:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _read_stored(self, stored: str) -> Array:
        member = self._source.stored.get(stored, stored)
        try:
            return self._source.arrays.read_array(member)
        except KeyError as error:
            raise LoadError(f"there is no array {stored!r} in it", path=self.path) from error

    def _rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for name, stored in self._names.stored.items():
            member = self._source.stored.get(stored, stored)
            dtype, shape, fortran_order = self._source.arrays.header(member)
            rows.append(
                {
                    "name": name,
                    "parameter_name": name,
                    "member": member,
                    "dtype": dtype.str,
                    "shape": list(shape),
                    "order": "F" if fortran_order else "C",
                    "kind": "parameter" if name in self._names.parameters else "shared",
                    "id": None,
                    "stored_name": stored,
                }
            )
        return rows

    def _status(self) -> dict[str, Any]:
        # The parameters of a file are there for the taking, whatever its
        # pickles are like.
        try:
            status = getattr(self.log(), "status", None)
        except CheckpointError:
            return {}
        if not isinstance(status, dict):
            return {}
        return {
            str(key): value
            for key, value in status.items()
            if isinstance(value, (bool, int, float, str, type(None)))
            or (isinstance(value, list) and all(isinstance(item, int) for item in value))
        }

    def _warn_of_doubts(self) -> None:
        doubtful = self._names.doubtful
        if doubtful and not self._has_warned:
            self._has_warned = True
            listed = "".join(
                f"\n  - {name}, or {other}" for name, other in list(doubtful.items())[:20]
            )
            warnings.warn(
                f"{self.path}: {len(doubtful)} names of parameters are guesses, because the "
                f"file has {self._source.delimiter!r} both for a slash and for itself. "
                f"LoadParameters goes by the names that the model has.{listed}",
                ParameterWarning,
                stacklevel=4,
            )

    def _require(self, member: str, what: str) -> None:
        if member not in self._source.pickles:
            have = ", ".join(self._source.pickles) or "none"
            raise LoadError(
                f"there is no {what} in it: it was written by {self._source.written_by} "
                f"(pickles in it: {have})",
                path=self.path,
            )

    def __repr__(self) -> str:
        return f"<checkpoint of {self._source.written_by}, {self.path or 'in memory'}>"
