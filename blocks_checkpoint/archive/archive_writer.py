"""Writing a zip archive of bytes and arrays."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from types import MappingProxyType, TracebackType
from typing import Any, BinaryIO

import numpy as np

from ..errors import SaveError
from . import npy
from .columns import Layout
from .crc import combine, crc32
from .member_names import all_plain, fault_of_name, folded
from .member_pieces import (
    PAGE,
    SMALL_MEMBER,
    ArrayBytes,
    Deflater,
    chunks_of_bytes,
    member_content,
)
from .summer import Summer
from .zip_structures import (
    DEFLATED,
    LIMIT32,
    MAX_DIRECTORY_BYTES,
    STORED,
    Member,
    central_entry,
    ending,
    local_header,
    local_length,
)

__all__ = ["ArchiveWriter"]

# Up to this size summing first is cheaper than writing the header twice.
_SUM_FIRST = 1 << 20
_PENDING = 1 << 20
# An entry of the directory without its name.
_LONGEST_ENTRY = 46 + 28


class ArchiveWriter:
    """Writer of one archive.

    Use it in a ``with`` statement: leaving it without an error writes the
    directory, without which the file is no archive; leaving it with an error
    writes nothing more.

    Parameters
    ----------
    file : binary file
        Open for writing, at its beginning. It is not closed. A file that
        cannot seek (a pipe) is given everything in order, at the price of
        summing each array before it is written.
    compression : None or 'deflate', optional
        By default members are stored as they are.

    Raises
    ------
    SaveError
        From `add_bytes` and `add_array`: the name is not allowed or taken, or
        the array cannot be stored without pickling. Nothing was written then.
    OSError
        From any method: the file could not be written. The writer is of no
        more use.
    """

    def __init__(self, file: BinaryIO, *, compression: str | None = None) -> None:
        if compression not in {None, "deflate"}:
            raise ValueError(f"compression is {compression!r}; use None or 'deflate'")
        self._file = file
        self._method = DEFLATED if compression else STORED
        self._compression = compression
        # Whatever is written to a file opened for appending lands at its end.
        self._seekable = file.seekable() and "a" not in str(getattr(file, "mode", ""))
        if file.seekable() and file.tell():
            raise ValueError("the file is not at its beginning; an archive must begin there")
        self._pending: list[bytes | bytearray] = []
        self._pending_bytes = 0
        self._offset = 0
        self._names: set[str] = set()
        self._entries: list[bytes] = []
        self._directory_bytes = 0
        self._state = "open"
        self._summer = Summer()

    @property
    def bytes_written(self) -> int:
        """Length in bytes of what was added so far."""
        return self._offset

    @property
    def checksum_seconds(self) -> float:
        """What the sums of large members took, on a thread beside the writing."""
        return self._summer.seconds

    def add_bytes(self, name: str, data: Any) -> Member:
        """Add a member of bytes.

        Parameters
        ----------
        name : str
            Name in the archive.
        data : bytes-like, or a list or tuple of bytes-like
            Pieces are written one after another.

        Returns
        -------
        Member
        """
        raw_name, key = self._admit(name)
        pieces = data if isinstance(data, (list, tuple)) else [data]
        views = [pickle.PickleBuffer(piece).raw() for piece in pieces]
        size = sum(map(len, views))
        if size <= SMALL_MEMBER and self._method == STORED:
            return self._add_small(name, raw_name, key, b"".join(views))
        chunks = [chunk for view in views for chunk in chunks_of_bytes(view)]
        return self._add(name, raw_name, key, chunks, size)

    def add_array(self, name: str, array: np.ndarray[Any, Any], crc: int | None = None) -> Member:
        """Add an array as an NPY member.

        Parameters
        ----------
        name : str
            Whole name in the archive, with ``.npy`` at the end.
        array : numpy.ndarray
            Of any dtype but objects. A Fortran-ordered array is stored so; one
            that is neither is stored in C order.
        crc : int, optional
            CRC-32 of the array's bytes in that order, if it is known.

        Returns
        -------
        Member
        """
        raw_name, key = self._admit(name)
        if not raw_name.endswith(b".npy"):
            raise SaveError("the name of an array member must end in .npy", member=name)
        if type(array) is not np.ndarray:
            if isinstance(array, np.ma.MaskedArray):
                raise SaveError(
                    "a masked array would lose its mask; store data and mask", member=name
                )
            array = np.asarray(array)
        flags = array.flags
        fortran_order = flags.f_contiguous and not flags.c_contiguous
        try:
            header = npy.header_bytes(array.dtype, array.shape, fortran_order)
        except npy.NpyError as error:
            raise SaveError(f"cannot be stored: {error}", member=name) from error
        size = len(header) + array.nbytes
        if size <= SMALL_MEMBER and self._method == STORED:
            data = header + array.tobytes("F" if fortran_order else "C")
            return self._add_small(name, raw_name, key, data)
        if self._method == STORED:
            begin = self._offset + local_length(raw_name, STORED, size, self._offset)
            header = npy.lengthened(header, -(begin + len(header)) % PAGE)
        if crc is not None:
            crc = combine(crc32(header), crc, array.nbytes)
        pieces = ArrayBytes(header, array, fortran_order)
        return self._add(name, raw_name, key, pieces, len(header) + array.nbytes, crc)

    def add_arrays(
        self,
        arrays: Iterable[tuple[str, np.ndarray[Any, Any]]],
        crcs: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Add many arrays, by their names; faster than one after another if they are small.

        Parameters
        ----------
        arrays : iterable of (str, numpy.ndarray)
            As for `add_array`. If one of them is refused, those before it have
            been added.
        crcs : mapping of str to int, optional
            CRC-32 of the bytes of those arrays of which it is known.
        """
        run: list[tuple[str, np.ndarray[Any, Any]]] = []
        run_bytes = 0
        for pair in arrays:
            size = pair[1].nbytes
            if size > SMALL_MEMBER:
                self._add_run(run)
                self.add_array(*pair, crc=crcs.get(pair[0]))
                run, run_bytes = [], 0
                continue
            run.append(pair)
            run_bytes += size
            if run_bytes >= _PENDING:
                self._add_run(run)
                run, run_bytes = [], 0
        self._add_run(run)

    def _add_run(self, run: list[tuple[str, np.ndarray[Any, Any]]]) -> None:
        """Add some arrays: all at once if there is nothing to be said against it."""
        if not self._add_plain(run):
            for name, array in run:
                self.add_array(name, array)

    def _add_plain(self, run: list[tuple[str, np.ndarray[Any, Any]]]) -> bool:
        """Add arrays as plain members (see `columns`); do nothing if one is not."""
        names = [name for name, _ in run]
        text = "\n".join(names)
        # What UTF-8 cannot write becomes a question mark, which is not plain either.
        raw_names = text.encode("utf-8", "replace")
        keys = text.lower().split("\n")
        new = set(keys)
        directory_bytes = len(run) * _LONGEST_ENTRY + len(text)
        if (
            self._state != "open"
            or self._method != STORED
            or len(new) != len(run)
            or not self._names.isdisjoint(new)
            or not all_plain(raw_names, max(map(len, names)))
            or f"{text}\n".count(".npy\n") != len(run)
            or self._directory_bytes + directory_bytes > MAX_DIRECTORY_BYTES
        ):
            return False
        contents: list[tuple[bytes, Any]] = []
        for _, array in run:
            if type(array) is not np.ndarray:
                return False
            try:
                contents.append(member_content(array))
            except npy.NpyError:
                return False
        sizes = [len(header) + array.nbytes for (header, _), (_, array) in zip(contents, run)]
        layout = Layout(self._offset, raw_names.split(b"\n"), sizes)
        if layout.end >= LIMIT32:
            return False
        members, entries = layout.pack(contents)
        self._pending.append(members)
        self._pending_bytes += len(members)
        self._offset = layout.end
        self._entries.append(entries)
        self._directory_bytes += len(entries)
        self._names |= new
        if self._pending_bytes >= _PENDING:
            self._flush()
        return True

    def close(self) -> None:
        """Write the directory; after that nothing can be added."""
        if self._state == "closed":
            return
        if self._state != "open":
            raise ValueError(f"this archive writer is {self._state}")
        directory = b"".join(self._entries)
        end = ending(directory, len(self._names), self._offset)
        self._pending += (directory, end)
        self._flush()
        self._offset += len(directory) + len(end)
        if hasattr(self._file, "flush"):
            self._file.flush()
        self._state = "closed"

    def __enter__(self) -> ArchiveWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        else:
            self._state = "given up"

    def _admit(self, name: str) -> tuple[bytes, str]:
        """Return a new name as UTF-8, and what no other may equal."""
        if self._state != "open":
            raise ValueError(f"this archive writer is {self._state}")
        fault = fault_of_name(name)
        if fault:
            raise SaveError(f"this member name is not allowed: {fault}", member=name)
        key = folded(name)
        if key in self._names:
            raise SaveError(
                "the archive has a member of this name already (names that differ in case "
                "or in the composition of letters only count as one)",
                member=name,
            )
        raw_name = name.encode("utf-8")
        if self._directory_bytes + _LONGEST_ENTRY + len(raw_name) > MAX_DIRECTORY_BYTES:
            raise SaveError(f"the archive has too many members: {len(self._names)}", member=name)
        return raw_name, key

    def _add_small(self, name: str, raw_name: bytes, key: str, data: bytes) -> Member:
        size = len(data)
        crc = crc32(data)
        header_offset = self._offset
        header = local_header(raw_name, STORED, crc, size, size, header_offset)
        # The caller may change the array before this is written: it is a copy.
        self._pending += (header, data)
        data_offset = header_offset + len(header)
        self._offset = data_offset + size
        self._pending_bytes += len(header) + size
        if self._pending_bytes >= _PENDING:
            self._flush()
        return self._enter(name, raw_name, key, crc, size, size, header_offset, data_offset)

    def _add(
        self,
        name: str,
        raw_name: bytes,
        key: str,
        pieces: Iterable[Any],
        size: int,
        known_crc: int | None = None,
    ) -> Member:
        self._state = "broken: adding a member was not completed"
        header_offset = self._offset
        if self._method == DEFLATED:
            data_offset, crc, stored = self._write_deflated(raw_name, pieces, size)
        else:
            data_offset, crc = self._write_stored(raw_name, pieces, size, known_crc)
            stored = size
        self._state = "open"
        return self._enter(name, raw_name, key, crc, size, stored, header_offset, data_offset)

    def _write_stored(
        self, raw_name: bytes, pieces: Iterable[Any], size: int, known_crc: int | None
    ) -> tuple[int, int]:
        """Write header and data of a member; return where its data begin, and their sum."""
        header_offset = self._offset
        crc = known_crc
        if crc is None and (size <= _SUM_FIRST or not self._seekable):
            crc = 0
            for piece in pieces:
                crc = crc32(piece, crc)
        if crc is not None:
            data_offset = self._begin(raw_name, crc, size, size)
            for piece in pieces:
                self._write(piece)
        else:
            # The sum is known when the data are written: the header is
            # written once more then.
            data_offset = self._begin(raw_name, 0, size, size)
            for piece in pieces:
                self._summer.begin(piece)
                self._write(piece)
            crc = self._summer.finish()
            self._patch(raw_name, crc, size, size, header_offset)
        return data_offset, crc

    def _write_deflated(
        self, raw_name: bytes, pieces: Iterable[Any], size: int
    ) -> tuple[int, int, int]:
        """Do as `_write_stored`, and return the compressed length as well."""
        header_offset = self._offset
        packer = Deflater(pieces)
        if self._seekable and size > SMALL_MEMBER:
            data_offset = self._begin(raw_name, 0, size, 0)
            for packed in packer:
                self._write(packed)
            self._patch(raw_name, packer.crc, size, packer.stored, header_offset)
        else:
            data = b"".join(packer)
            data_offset = self._begin(raw_name, packer.crc, size, packer.stored)
            self._write(data)
        return data_offset, packer.crc, packer.stored

    def _begin(self, raw_name: bytes, crc: int, size: int, stored: int) -> int:
        header = local_header(raw_name, self._method, crc, size, stored, self._offset)
        self._pending.append(header)
        self._offset += len(header)
        return self._offset

    def _patch(self, raw_name: bytes, crc: int, size: int, stored: int, header_offset: int) -> None:
        header = local_header(raw_name, self._method, crc, size, stored, header_offset)
        self._file.seek(header_offset)
        self._write_out(header)
        self._file.seek(self._offset)

    def _enter(
        self,
        name: str,
        raw_name: bytes,
        key: str,
        crc: int,
        size: int,
        stored: int,
        header_offset: int,
        data_offset: int,
    ) -> Member:
        """Note a member for the directory."""
        entry = central_entry(raw_name, self._method, crc, size, stored, header_offset)
        self._entries.append(entry)
        self._directory_bytes += len(entry)
        self._names.add(key)
        return Member(name, header_offset, data_offset, size, stored, crc, self._compression)

    def _write(self, data: Any) -> None:
        self._flush()
        self._offset += len(data)
        self._write_out(data)

    def _flush(self) -> None:
        """Write what was held back to be written in one call."""
        if self._pending:
            data = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
            self._pending.clear()
            self._pending_bytes = 0
            self._write_out(data)

    def _write_out(self, data: Any) -> None:
        state, self._state = self._state, "broken: its file could not be written"
        view = memoryview(data)
        # A raw file may take less than it is given.
        while len(view):
            taken = self._file.write(view)
            if taken is None:
                raise BlockingIOError("the file does not wait until it can be written to")
            view = view[taken:]
        self._state = state
