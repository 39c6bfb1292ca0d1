"""Open, verify and read a checkpoint.

Three tiers of trust. Manifest and arrays are data. The log is a pickle that
may only name the classes a log is made of. Iteration state and main loop are
pickles like any other: reading them runs what their writer chose.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from types import ModuleType, TracebackType
from typing import Any, BinaryIO, Union

import numpy as np

from .archive import ArchiveReader, Damage
from .array_mapping import ArrayMapping, as_described
from .errors import CheckpointError, DamagedCheckpoint, HostileCheckpoint, LoadError, NotACheckpoint
from .format import CHAIN, EXTENSION_STATES, ITERATION_STATE, LOG, MAIN, MANIFEST, RANDOM_STATE
from .garbage import no_garbage_collection
from .loading import LoadingSession
from .main_module import module_of
from .manifest import max_manifest_bytes, parse_manifest
from .pickling import random_state

__all__ = ["CheckpointFile", "open_checkpoint"]

PathOrFile = Union[str, "os.PathLike[str]", BinaryIO]
Main = Union[str, "os.PathLike[str]", ModuleType, None]


def open_checkpoint(source: PathOrFile, *, mmap: bool = False) -> Any:
    """Open a checkpoint for reading.

    Only the table of contents and the manifest are read, and nothing is
    unpickled. Checkpoints that Blocks wrote are recognised by their content
    and opened likewise.

    Parameters
    ----------
    source : str, os.PathLike or binary file
        The file. An open file has to be seekable, and is left open.
    mmap : bool
        Give arrays as copy-on-write memory maps of the file instead of
        reading them. Their checksums are then checked by ``verify()`` only.

    Returns
    -------
    CheckpointFile
        To be closed, or used with ``with``.

    Raises
    ------
    CheckpointNotFound
        There is no such file.
    NotACheckpoint
        The file is something else.
    DamagedCheckpoint, HostileCheckpoint
        It is a checkpoint that cannot be read.
    UnsupportedFormat
        It was written by a newer version of this package.
    """
    try:
        return CheckpointFile(source, mmap=mmap)
    except (NotACheckpoint, HostileCheckpoint):
        # What Blocks and numpy wrote breaks rules that a checkpoint of ours keeps:
        # two members of one name, names that begin with a slash.
        from .legacy import open_legacy

        old = open_legacy(source)
        if old is None:
            raise
        return old


class CheckpointFile:
    """A checkpoint, open for reading; made by :func:`open_checkpoint`.

    Attributes
    ----------
    path : str or None
        Where it is.
    manifest : dict
        What the file says of itself.
    """

    def __init__(self, source: PathOrFile, *, mmap: bool = False) -> None:
        self.archive = ArchiveReader(source)
        self.path: str | None = self.archive.path
        self._mmap = mmap
        try:
            if MANIFEST not in self.archive.members:
                raise NotACheckpoint(
                    f"this is a zip archive of {_listed(self.archive.members)}, without a "
                    f"{MANIFEST}: not a checkpoint, or one that lost its manifest",
                    path=self.path,
                )
            encoded = self.archive.read(
                MANIFEST, max_bytes=max_manifest_bytes(len(self.archive.members))
            )
            with no_garbage_collection(len(self.archive.members)):
                self.manifest = parse_manifest(encoded, self.path, self.archive.members)
        except BaseException:
            self.archive.close()
            raise

    @cached_property
    def arrays(self) -> ArrayMapping:
        """Every array, the parameters among them."""
        return ArrayMapping(self.read_row, self.manifest["arrays"])

    @cached_property
    def parameters(self) -> ArrayMapping:
        """The model's parameters."""
        rows = (row for row in self.manifest["arrays"] if row["kind"] == "parameter")
        return ArrayMapping(self.read_row, rows)

    @property
    def status(self) -> dict[str, Any]:
        """How far training was: ``iterations_done``, ``epochs_done``, ..."""
        return dict(self.manifest["status"])

    def read_row(self, row: Mapping[str, Any]) -> np.ndarray[Any, Any]:
        """Read the array that a row of the manifest describes."""
        member = row["member"]
        if self._mmap:
            array = self.archive.map_array(member)
        else:
            array = self.archive.read_array(member)
        return as_described(array, row, self.path)

    def read_rows(self, rows: list[dict[str, Any]]) -> list[np.ndarray[Any, Any]]:
        """Read many arrays, faster than one after another."""
        if self._mmap:
            return [self.read_row(row) for row in rows]
        read = self.archive.read_arrays([row["member"] for row in rows])
        arrays = [read[row["member"]] for row in rows]
        if [[*array.shape] for array in arrays] == [row["shape"] for row in rows] and not any(
            array.dtype.kind == "V" for array in arrays
        ):
            return arrays
        return [as_described(array, row, self.path) for array, row in zip(arrays, rows)]

    def log(self, *, allow: Iterable[Any] = ()) -> Any:
        """Read the training log, and nothing else.

        Parameters
        ----------
        allow : iterable of type or str
            Classes (or their dotted names) to allow in the log beyond those
            it is made of.

        Raises
        ------
        LoadError
            There is no log, or it names a class that is not allowed.
        """
        self._require(LOG)
        return LoadingSession(self).load_log(allow=allow)

    def iteration_state(self, *, main: Main = None, present: Any = None) -> Any:
        """Unpickle the pair of data stream and epoch iterator.

        Runs what the file says. Only for files you trust.

        Parameters
        ----------
        main : str, os.PathLike or module, optional
            As for :meth:`main_loop`.
        present : PresentParts, optional
            Of a main loop whose data stream is to have the state, where it
            was saved by its state alone.
        """
        self._require(ITERATION_STATE)
        return self._session(main, present=present).load_chain(ITERATION_STATE)

    def main_loop(self, *, main: Main = None) -> Any:
        """Unpickle the main loop.

        Runs what the file says. Only for files you trust.

        Parameters
        ----------
        main : str, os.PathLike or module, optional
            The script whose functions the main loop needs, if it is not the
            one that runs.

        Raises
        ------
        LoadError
            The main loop is absent, or cannot be unpickled.
        MainModuleError
            It needs functions of a script that does not run.
        """
        self._require(MAIN)
        return self._session(main).load_chain(MAIN)

    def load(self, member: str, *, main: Main = None, **kwargs: Any) -> Any:
        """Unpickle the object in any pickle member. Runs what the file says.

        Parameters
        ----------
        member : str
            ``'pkl'``, ``'log'``, ``'iteration_state'``, or the name given to
            ``add_to_dump``.
        main : str, os.PathLike or module, optional
            As for :meth:`main_loop`.
        **kwargs
            For :class:`pickle.Unpickler`; or ``persistent_load``.
        """
        self._require(member)
        session = self._session(main, **kwargs)
        return session.load_chain(member) if member in CHAIN else session.load_member(member)

    def restore_random_state(self) -> bool:
        """Set the global generators of ``random`` and ``numpy.random``.

        Returns
        -------
        bool
            False if the file does not have their state.
        """
        if RANDOM_STATE not in self.archive.members:
            return False
        with self._naming(RANDOM_STATE):
            random_state.restore(self.archive.read(RANDOM_STATE))
        return True

    def generators(self) -> tuple[dict[str, Any], list[Any]]:
        """Return the states of random generators apart from the global ones.

        Returns
        -------
        variables : dict of str to dict
            Of those that shared variables have for a value, by name.
        held : list of dict
            Of those that the main loop has apart from its data stream.
        """
        if RANDOM_STATE not in self.archive.members:
            return {}, []
        with self._naming(RANDOM_STATE):
            return random_state.beside(self.archive.read(RANDOM_STATE))

    def states(self, kind: str) -> dict[str, Any]:
        """Return what extensions, or quantities that they monitor, had for a state.

        Parameters
        ----------
        kind : {'extensions', 'quantities'}

        Returns
        -------
        dict of str to object
            By name of the extension.
        """
        if EXTENSION_STATES not in self.archive.members:
            return {}
        with self._naming(EXTENSION_STATES):
            content = self.archive.read(EXTENSION_STATES)
            try:
                return dict(json.loads(content).get(kind, {}))
            except (ValueError, TypeError, AttributeError, RecursionError) as error:
                raise DamagedCheckpoint(f"these are no states of extensions: {error}") from error

    def verify(self, progress: Any = None) -> list[Damage]:
        """Check every byte of the file.

        Parameters
        ----------
        progress : callable, optional
            Called with the number of bytes checked since the last call.

        Returns
        -------
        list of Damage
            ``member`` and ``reason`` of each; empty if the file is whole.
        """
        return self.archive.verify(progress)

    def close(self) -> None:
        """Close the file. Arrays that were read stay."""
        self.archive.close()

    def __enter__(self) -> CheckpointFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<checkpoint {self.path or 'in memory'}, status {self.manifest['status']}>"

    def _session(self, main: Main, **kwargs: Any) -> LoadingSession:
        # Modules beside the script are found once it is imported, and may be
        # needed before the first function of the script itself.
        return LoadingSession(self, None if main is None else module_of(main), **kwargs)

    @contextmanager
    def _naming(self, member: str) -> Iterator[None]:
        """Say of an error where it was met, if it does not say so itself."""
        try:
            yield
        except CheckpointError as error:
            error.path, error.member = error.path or self.path, error.member or member
            raise

    def _require(self, member: str) -> None:
        if member in self.manifest["pickles"] and member in self.archive.members:
            return
        if member == MAIN:
            why = self.manifest.get("main_loop_error")
            reason = f" because {why}" if why else ""
            raise LoadError(
                f"the main loop is not in this checkpoint{reason}. Build the main loop in a "
                "script, and add Resume(path, load_log=True) to its extensions",
                path=self.path,
            )
        if member == ITERATION_STATE and self.manifest.get("main_loop_error"):
            raise LoadError(
                "the iteration state is not in this checkpoint. Resume(path, load_log=True) loads "
                "the rest, and the epoch begins anew. Why it is missing was noted on saving: "
                f"{self.manifest['main_loop_error']}",
                path=self.path,
                member=ITERATION_STATE,
            )
        have = ", ".join(self.manifest["pickles"]) or "none"
        raise LoadError(f"there is no pickle {member!r} in it (it has: {have})", path=self.path)


def _listed(names: Iterable[str]) -> str:
    """Name some members of an archive."""
    first = [f"{name!r:.60}" for name in islice(names, 4)]
    if not first:
        return "nothing"
    return f"{', '.join(first[:3])}{', ...' if len(first) > 3 else ''}"
