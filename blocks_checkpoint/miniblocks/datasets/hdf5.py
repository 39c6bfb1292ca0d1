"""Data sets in HDF5 files, read as needed."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from ..schemes import SequentialExampleScheme
from .base import Dataset

__all__ = ["H5PYDataset"]

#: Rows of a source: a contiguous or regular range, or any indices.
Rows = Any


class H5PYDataset(Dataset):
    """Sources of an HDF5 file, one HDF5 data set each, opened when data is asked for.

    The file is found by its path each time that it is opened. Neither an
    open handle nor data that was loaded is ever pickled, so that a stream
    which is saved in mid-epoch goes on reading in another process.

    Parameters
    ----------
    file_or_path : str, os.PathLike or h5py.File
        A handle given is used as long as it is open, and never closed here.
    which_sets : sequence of str, optional
        Names of splits, as the attribute ``split`` of the file lists them
        (:meth:`create_split_array` makes one); None for all rows of all
        HDF5 data sets at the top of the file.
    subset : slice or list of int, optional
        Use only these of the examples in ``which_sets``.
    load_in_memory : bool, optional
        Read everything at first use, instead of batch by batch.
    driver : str, optional
        For ``h5py.File``.
    **kwargs
        For :class:`Dataset`.

    Notes
    -----
    Sources of variable length come as the flat arrays that the file holds.
    """

    def __init__(
        self,
        file_or_path: Any,
        which_sets: Sequence[str] | None = None,
        subset: slice | Sequence[int] | None = None,
        load_in_memory: bool = False,
        driver: str | None = None,
        **kwargs: Any,
    ) -> None:
        if isinstance(which_sets, str):
            raise ValueError(f"which_sets is a sequence of names; write ({which_sets!r},)")
        super().__init__(**kwargs)
        is_handle = hasattr(file_or_path, "filename")
        self.path: str = file_or_path.filename if is_handle else os.fspath(file_or_path)
        self.which_sets = None if which_sets is None else tuple(which_sets)
        self.subset = subset
        self.load_in_memory = load_in_memory
        self.driver = driver
        self._external_handle = file_or_path if is_handle else None
        self._handle: Any = None
        self._rows: dict[str, Rows] | None = None
        self._loaded: dict[str, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_external_handle": None, "_handle": None, "_loaded": None}

    @staticmethod
    def create_split_array(
        split_dict: Mapping[str, Mapping[str, Sequence[Any]]],
    ) -> Any:
        """Make the value of the attribute ``split`` that tells the splits of a file.

        Parameters
        ----------
        split_dict : dict of str to dict of str to tuple
            By split and source: first row, last row + 1, and optionally an
            HDF5 reference to a data set with the indices to use instead.

        Returns
        -------
        numpy.ndarray
            Structured, one element per pair of split and source.
        """
        import h5py

        sources = sorted({source for split in split_dict.values() for source in split})
        names = [name.encode() for name in (*split_dict, *sources)]
        text = f"S{max(map(len, names))}"
        dtype = [
            ("split", text),
            ("source", text),
            ("start", numpy.int64),
            ("stop", numpy.int64),
            ("indices", h5py.special_dtype(ref=h5py.Reference)),
            ("available", numpy.bool_),
            ("comment", "S1"),
        ]
        lines = []
        for split, by_source in split_dict.items():
            for source in sources:
                start, stop, indices, *_ = (*by_source.get(source, (0, 0)), h5py.Reference())
                is_there = source in by_source
                lines.append(
                    (split.encode(), source.encode(), start, stop, indices, is_there, b".")
                )
        return numpy.array(lines, dtype=dtype)

    @property
    def provides_sources(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the sources in the file, or in all of ``which_sets``."""
        return tuple(self._described())

    @property
    def num_examples(self) -> int:
        """Number of examples."""
        lengths = {source: len(self._described()[source]) for source in self.sources}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"the sources in {self.path} differ in length: {lengths}")
        return lengths[self.sources[0]]

    @property
    def example_iteration_scheme(self) -> SequentialExampleScheme:
        """Scheme that goes over the examples one by one."""
        return SequentialExampleScheme(self.num_examples)

    def get_data(self, state: Any = None, request: Any = None) -> tuple[Any, ...]:
        """Return the examples requested: one by an int, several by a slice or list."""
        if request is None:
            raise ValueError("an H5PYDataset needs an iteration scheme to say which examples")
        if self.load_in_memory:
            return tuple([array[request] for array in self._load().values()])
        rows = self._described()
        handle = self._opened()
        return tuple(
            [_read(handle[source], _select(rows[source], request)) for source in self.sources]
        )

    def close(self, state: Any) -> None:
        """Close the file; it is opened again when data is asked for."""
        if self._handle is not None:
            self._handle.close()
            self._handle = None

    def _opened(self) -> Any:
        # A handle that its owner has closed is false.
        if self._external_handle:
            return self._external_handle
        if not self._handle:
            import h5py

            try:
                self._handle = h5py.File(self.path, "r", driver=self.driver)
            except FileNotFoundError as error:
                raise FileNotFoundError(
                    errno.ENOENT, "the file of this H5PYDataset is not there", self.path
                ) from error
            except OSError as error:
                raise OSError(f"cannot open the HDF5 file {self.path}: {error}") from error
        return self._handle

    def _described(self) -> dict[str, Rows]:
        # Read once and pickled: a stream that is loaded can say what it
        # provides although the file is not there.
        if self._rows is None:
            self._rows = self._describe(self._opened())
        return self._rows

    def _describe(self, handle: Any) -> dict[str, Rows]:
        if self.which_sets is None:
            # Neither groups nor scalars have rows.
            arrays = {name: item for name, item in handle.items() if getattr(item, "shape", ())}
            all_rows = {name: range(len(item)) for name, item in arrays.items()}
        else:
            all_rows = _split_rows(handle, self.which_sets)
        if self.subset is None:
            return all_rows
        return {source: _select(rows, self.subset) for source, rows in all_rows.items()}

    def _load(self) -> dict[str, Any]:
        if self._loaded is None:
            rows = self._described()
            handle = self._opened()
            self._loaded = {source: _read(handle[source], rows[source]) for source in self.sources}
            self.close(None)
        return self._loaded


def _split_rows(handle: Any, which_sets: Sequence[str]) -> dict[str, Rows]:
    lines = handle.attrs["split"]
    available = {line["split"].decode() for line in lines}
    missing = [name for name in which_sets if name not in available]
    if missing:
        raise ValueError(
            f"{handle.filename} has no split {', '.join(missing)}; "
            f"it has {', '.join(sorted(available))}"
        )
    parts: dict[str, list[Rows]] = {}
    for split in which_sets:
        for line in lines:
            if line["split"].decode() == split and line["available"]:
                parts.setdefault(line["source"].decode(), []).append(_line_rows(handle, line))
    return {
        source: rows[0] if len(rows) == 1 else numpy.concatenate([numpy.asarray(r) for r in rows])
        for source, rows in sorted(parts.items())
        if len(rows) == len(which_sets)
    }


def _line_rows(handle: Any, line: Any) -> Rows:
    if line["indices"]:
        return handle[line["indices"]][...]
    return range(int(line["start"]), int(line["stop"]))


def _select(rows: Rows, request: Any) -> Rows:
    if isinstance(request, (int, numpy.integer, slice)):
        return rows[request]
    return numpy.asarray(rows)[numpy.asarray(request, dtype=int)]


def _read(source: Any, rows: Rows) -> Any:
    if isinstance(rows, (int, numpy.integer)):
        return source[int(rows)]
    if isinstance(rows, range) and rows.step == 1:
        return source[rows.start : rows.stop]
    # HDF5 reads rows in ascending order, each once.
    ascending, positions = numpy.unique(numpy.asarray(rows, dtype=int), return_inverse=True)
    return source[ascending][positions]
