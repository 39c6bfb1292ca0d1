"""Reading members out of a zip archive that may come from anybody."""

from __future__ import annotations

import mmap
import sys
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

import numpy as np

from ..errors import HostileCheckpoint, LoadError
from . import npy
from .archive_audit import Damage, audit
from .array_destination import Destination, Part, order_of
from .byte_source import ByteSource, Source
from .columns import Columns, PlainMembers
from .crc import crc32
from .directory import read_directory
from .member_bytes import MemberBytes, fault_of_expansion
from .member_pieces import SMALL_MEMBER
from .npy import ArrayHeader
from .parallel import for_each
from .small_arrays import read_small_array, read_small_arrays
from .zip_structures import Member

__all__ = ["ArchiveReader"]

# Members that are not small are read in parts, by so many threads.
_READING_THREADS = 2
_NOTHING: np.ndarray[Any, Any] = np.empty(0)


class ArchiveReader:
    """Reader of one archive.

    Opening reads the directory and nothing else; reading a member touches no
    other. Everything read is checked against its CRC-32, but for `map_array`.
    Any number of threads may read at once.

    Parameters
    ----------
    source : str, os.PathLike or seekable binary file
        A file given open is left open.

    Attributes
    ----------
    members : mapping of str to Member
        In the order of the directory. Do not change it.
    path : str or None

    Raises
    ------
    CheckpointNotFound, NotACheckpoint, DamagedCheckpoint, HostileCheckpoint
        On opening, and from every method that reads, with the path and the
        member (or ``directory``) as attributes.
    """

    def __init__(self, source: Source) -> None:
        self._source = ByteSource(source)
        try:
            directory = read_directory(self._source)
        except BaseException:
            self._source.close()
            raise
        self.path = self._source.path
        self.members = directory.members
        self._is_ours = directory.is_ours
        self._bytes = MemberBytes(self._source, directory)
        self._map: mmap.mmap | None = None
        # Members of which arrays lie in that map.
        self._mapped: set[str] = set()
        self._lock = threading.Lock()

    def read(self, name: str, *, max_bytes: int | None = None) -> bytes:
        """Return the bytes of a member.

        Parameters
        ----------
        name : str
        max_bytes : int, optional
            Refuse a member that is larger.
        """
        member = self._member(name)
        if max_bytes is not None and member.size > max_bytes:
            raise HostileCheckpoint(
                f"it has {member.size} bytes, and no more than {max_bytes} are reasonable",
                path=self.path,
                member=name,
            )
        fault = fault_of_expansion(member.size, member.stored_size)
        if fault:
            raise HostileCheckpoint(fault, path=self.path, member=name)
        return self._bytes.read(member)

    def array_header(self, name: str) -> ArrayHeader:
        """Return dtype, shape, order and place of an array without reading its data."""
        return self._look_at(self._member(name))[0]

    def read_array(
        self, name: str, *, out: np.ndarray[Any, Any] | None = None
    ) -> np.ndarray[Any, Any]:
        """Return an array.

        Parameters
        ----------
        name : str
        out : numpy.ndarray, optional
            Array of the same shape and dtype to read into. After an error its
            content is undefined. A stored void of the same item size may be
            read into any dtype (numpy stores bfloat16 and its like so).
        """
        member = self._member(name)
        if out is None and _is_small(member):
            return read_small_array(self._bytes, member)
        return self._read_large([member], out)[name]

    def read_arrays(self, names: Iterable[str]) -> dict[str, np.ndarray[Any, Any]]:
        """Return many arrays, in the order of `names`; faster than one after another."""
        # What is asked for first comes first.
        arrays = dict.fromkeys(names, _NOTHING)
        large: list[Member] = []
        if self._is_ours:
            small, large = self._by_size(list(arrays))
            arrays.update(read_small_arrays(self._bytes, small))
        else:
            for name in arrays:
                member = self._member(name)
                if _is_small(member):
                    arrays[name] = read_small_array(self._bytes, member)
                else:
                    large.append(member)
        arrays.update(self._read_large(large))
        return arrays

    def map_array(self, name: str) -> np.ndarray[Any, Any]:
        """Return an array whose bytes are read from the file when they are used.

        The array may be changed; neither the file nor an array that another
        call returned changes with it. Its CRC-32 is *not* checked. The file
        must not be written to while the array lives (a new file in its place
        does no harm). Where the file cannot be mapped, or the member is
        compressed or not aligned, the array is read at once as `read_array`
        does.
        """
        member = self._member(name)
        header, _ = self._look_at(member)
        descriptor = self._source.descriptor()
        if (
            descriptor is None
            or member.compression
            or not header.nbytes
            or header.data_offset % header.dtype.alignment
        ):
            return self.read_array(name)
        with self._lock:
            # One map serves all members: every map takes a file descriptor.
            if self._map is None or name in self._mapped:
                self._map = _map_privately(descriptor, self._source.size)
                self._mapped = set()
            self._mapped.add(name)
            memory = self._map
        return np.ndarray(
            header.shape, header.dtype, memory, header.data_offset, order=order_of(header)
        )

    def verify(self, progress: Callable[[int], object] | None = None) -> list[Damage]:
        """Check every byte of the file.

        Parameters
        ----------
        progress : callable, optional
            Called now and then with the number of bytes checked so far, from
            any thread, but never from two at once.

        Returns
        -------
        list of Damage
            Everything that is wrong, in the order of the directory. Damage of
            the directory itself is found on opening already.
        """
        return audit(self._bytes, progress)

    def close(self) -> None:
        """Close the file, if it was opened here; mapped arrays live on."""
        self._map = None
        self._source.close()

    def __enter__(self) -> ArchiveReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _member(self, name: str) -> Member:
        try:
            return self.members[name]
        except KeyError:
            raise self._no_member(name) from None

    def _no_member(self, name: str) -> LoadError:
        return LoadError("there is no such member", path=self.path, member=name)

    def _by_size(self, names: list[str]) -> tuple[Columns, list[Member]]:
        """Part what can be read in batches from what is worth threads."""
        if isinstance(self.members, PlainMembers):
            try:
                columns = self.members.columns_of(names)
            except KeyError as error:
                raise self._no_member(error.args[0]) from None
            places = np.flatnonzero(columns.sizes > SMALL_MEMBER).tolist()
            large = [self._member(names[place]) for place in places]
            return columns.at(np.flatnonzero(columns.sizes <= SMALL_MEMBER)), large
        members = [self._member(name) for name in names]
        large = [member for member in members if not _is_small(member)]
        return Columns.of(filter(_is_small, members)), large

    def _look_at(self, member: Member) -> tuple[ArrayHeader, bytes]:
        """Return what an array member says of itself, decoded and as it stands."""
        if member.compression:
            offset = 0
            start = b""
            for chunk in self._bytes.chunks(member):
                start += chunk
                if len(start) >= min(npy.MAX_HEADER_BYTES, member.size):
                    break
        else:
            offset = self._bytes.data_offset(member)
            start = self._source.read_at(offset, min(member.size, npy.GLANCE), member.name)
            length = self._header_length(member, start)
            if len(start) < length <= member.size:
                start = self._source.read_at(offset, length, member.name)
        header = self._header(member, start, offset)
        return header, start[: header.data_offset - offset]

    def _header_length(self, member: Member, start: bytes) -> int:
        try:
            return npy.header_length(start)
        except npy.NpyError as error:
            self._bytes.hostile(member, f"it is not an array that can be read: {error}")

    def _header(self, member: Member, start: bytes, offset: int) -> ArrayHeader:
        try:
            dtype, shape, fortran_order, length = npy.check_member(start, member.size)
        except npy.NpyError as error:
            self._bytes.hostile(member, f"it is not an array that can be read: {error}")
        return ArrayHeader(dtype, shape, fortran_order, offset + length, member.size - length)

    # Large arrays: part by part, on two threads

    def _read_large(
        self, members: list[Member], out: np.ndarray[Any, Any] | None = None
    ) -> dict[str, np.ndarray[Any, Any]]:
        destinations = []
        for member in members:
            header, header_bytes = self._look_at(member)
            destinations.append(Destination(member, header, crc32(header_bytes), out))
        parts: list[Part] = []
        for destination in destinations:
            if destination.member.compression:
                self._inflate(destination)
            else:
                parts += destination.parts()

        def read(part: Part) -> None:
            self._source.read_into(part.offset, part.view, part.destination.member.name)
            part.destination.sums[part.number] = crc32(part.view)

        for_each(read, parts, min(_READING_THREADS, len(parts)))
        for destination in destinations:
            if not destination.member.compression:
                self._bytes.check_crc(destination.member, destination.crc())
            destination.finish()
        return {destination.member.name: destination.array for destination in destinations}

    def _inflate(self, destination: Destination) -> None:
        # Where the chunk begins in the array's memory: before it, with the header.
        position = -destination.header.data_offset
        for chunk in self._bytes.chunks(destination.member):
            begin = max(0, -position)
            if begin < len(chunk):
                destination.memory[position + begin : position + len(chunk)] = chunk[begin:]
            position += len(chunk)


def _map_privately(descriptor: int, size: int) -> mmap.mmap:
    """Map a file so that changes to the memory stay there."""
    if sys.platform != "linux":
        return mmap.mmap(descriptor, size, access=mmap.ACCESS_COPY)
    # No memory is set aside for changes that may never come: the file may be
    # larger than the memory there is.
    no_reserve = getattr(mmap, "MAP_NORESERVE", 0x4000)
    return mmap.mmap(
        descriptor,
        size,
        flags=mmap.MAP_PRIVATE | no_reserve,
        prot=mmap.PROT_READ | mmap.PROT_WRITE,
    )


def _is_small(member: Member) -> bool:
    return member.size <= SMALL_MEMBER and not member.compression
