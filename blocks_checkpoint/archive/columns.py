"""The records of many plain members at once, as columns.

An archive may have ten thousand members, and a look at each of them in Python
would take longer than moving their bytes. A member is *plain* if it is stored,
has a name in ASCII, and needs no number beyond 32 bits: nearly all are. What is
said of a record here comes from `zip_structures`, which makes and judges them
one by one; whoever meets a member that is not plain goes there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from . import zip_structures as zs
from .crc import crc32
from .member_names import all_plain
from .zip_structures import Member

__all__ = ["Columns", "Layout", "PlainMembers", "have_their_headers", "plain_members"]

# Records of a plain member without its name, and the fields in which two of
# them differ.
_LOCAL = zs.local_header(b"", zs.STORED, 0, 0, 0, 0)
_CENTRAL = zs.central_entry(b"", zs.STORED, 0, 0, 0, 0)
_LOCAL_CRC = 14
_LOCAL_FIELDS = np.dtype(
    {
        "names": ["crc", "stored", "size", "name_length", "extra_length"],
        "formats": ["<u4", "<u4", "<u4", "<u2", "<u2"],
        "offsets": [_LOCAL_CRC, 18, 22, 26, 28],
        "itemsize": zs.LOCAL.size,
    }
)
_CENTRAL_FIELDS = np.dtype(
    {
        "names": ["crc", "stored", "size", "name_length", "offset"],
        "formats": ["<u4", "<u4", "<u4", "<u2", "<u4"],
        "offsets": [16, 20, 24, 28, 42],
        "itemsize": zs.CENTRAL.size,
    }
)
_PADDING_LENGTHS = np.array([len(padding) for padding in zs.PADDINGS])
_NPY = np.frombuffer(b".npy", "<u4")[0]


class Columns(NamedTuple):
    """What is known of some stored members of an archive of ours, kind by kind.

    Attributes
    ----------
    names : list of str
    header_offsets, data_offsets, sizes, crcs : numpy.ndarray of int64
        As in `Member`.
    """

    names: list[str]
    header_offsets: np.ndarray[Any, Any]
    data_offsets: np.ndarray[Any, Any]
    sizes: np.ndarray[Any, Any]
    crcs: np.ndarray[Any, Any]

    @classmethod
    def of(cls, members: Iterable[Member]) -> Columns:
        """Return the columns of members."""
        names, header_offsets, data_offsets, sizes, _, crcs, _ = list(zip(*members)) or [()] * 7
        numbers = (header_offsets, data_offsets, sizes, crcs)
        return cls(list(names), *(np.array(column, np.int64) for column in numbers))

    def at(self, places: np.ndarray[Any, Any]) -> Columns:
        """Return the columns of some of the members."""
        names = list(map(self.names.__getitem__, places.tolist()))
        return Columns(names, *(column[places] for column in self[1:]))

    def neighbours(self, nbytes: int) -> Iterator[Columns]:
        """Yield those that lie one after another in the file, in runs of that length at most.

        A member that is longer is a run of its own.
        """
        columns = self
        if (self.header_offsets[1:] < self.header_offsets[:-1]).any():
            columns = self.at(np.argsort(self.header_offsets, kind="stable"))
        begins, ends = columns.header_offsets, columns.data_offsets + columns.sizes
        first = 0
        for stop in [*(np.flatnonzero(begins[1:] != ends[:-1]) + 1).tolist(), len(ends)]:
            while first < stop:
                fitting = np.searchsorted(ends[first:stop], begins[first] + nbytes, "right")
                last = first + max(1, int(fitting))
                yield Columns(columns.names[first:last], *(c[first:last] for c in columns[1:]))
                first = last


class PlainMembers(Mapping[str, Member]):
    """The members of an archive of which all are plain, in the order of the directory.

    Parameters
    ----------
    columns : Columns
    """

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._places = dict(zip(columns.names, range(len(columns.names))))

    def columns_of(self, names: Sequence[str]) -> Columns:
        """Return what is known of some of the members; raise KeyError for one that is not."""
        places = list(map(self._places.__getitem__, names))
        return self._columns.at(np.array(places, np.int64))

    def __getitem__(self, name: str) -> Member:
        place = self._places[name]
        offset, data_offset, size, crc = (column.item(place) for column in self._columns[1:])
        return Member(name, offset, data_offset, size, size, crc, None)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def plain_members(data: bytes, count: int, directory_offset: int) -> PlainMembers | None:
    """Return the members that the directory of an archive of ours lists.

    Parameters
    ----------
    data : bytes
        The directory.
    count : int
        How many members it is said to list.
    directory_offset : int
        Where it begins in the file.

    Returns
    -------
    PlainMembers or None
        None if they are not all plain and without fault; then they have to be
        looked at one by one.
    """
    # A signature within an entry would make a piece too many.
    if not count or data.count(zs.CENTRAL_SIGNATURE) != count:
        return None
    pieces = data.split(zs.CENTRAL_SIGNATURE)
    if pieces[0]:
        return None
    begin = zs.CENTRAL.size - len(zs.CENTRAL_SIGNATURE)
    raw_names = b"\n".join([piece[begin:] for piece in pieces[1:]])
    if not raw_names.isascii():
        return None
    lines = raw_names.decode("ascii")
    names = lines.split("\n")
    if len(names) != count:
        return None
    lengths = np.fromiter(map(len, names), np.int64, count)
    if not all_plain(raw_names, lengths.max()) or len(set(lines.lower().split("\n"))) != count:
        return None
    ends = np.cumsum(lengths + zs.CENTRAL.size)
    if ends[-1] != len(data):
        return None
    fixed = _windows(data, zs.CENTRAL.size)[ends - lengths - zs.CENTRAL.size]
    fields = fixed.view(_CENTRAL_FIELDS)[:, 0]
    crcs, sizes, stored, named, offsets = (
        fields[name].astype(np.int64) for name in ("crc", "size", "stored", "name_length", "offset")
    )
    for name in _CENTRAL_FIELDS.names or ():
        fields[name] = 0
    if fixed.tobytes() != _CENTRAL * count or (named != lengths).any() or (sizes != stored).any():
        return None
    if max(sizes.max(), offsets.max()) >= zs.LIMIT32:
        return None
    # A shorter name than this has bytes of its entry before it, and no array
    # is called ``.npy``.
    last = _windows(data, 4)[ends - 4].view("<u4")[:, 0]
    headers = _local_lengths(lengths, offsets, (last == _NPY) & (lengths > 4))
    data_offsets = offsets + headers
    member_ends = data_offsets + sizes
    if offsets[0] or (offsets[1:] != member_ends[:-1]).any() or member_ends[-1] != directory_offset:
        return None
    return PlainMembers(Columns(names, offsets, data_offsets, sizes, crcs))


def have_their_headers(columns: Columns, raw: bytes) -> bool:
    """Say whether arrays have the local headers that they must have.

    Parameters
    ----------
    columns : Columns
        Neighbours in the file.
    raw : bytes
        What is in the file from the first of the headers on.
    """
    names, header_offsets, data_offsets, sizes, crcs = columns
    offsets = header_offsets - header_offsets[0]
    begins = offsets + zs.LOCAL.size
    variable = [
        raw[begin:end]
        for begin, end in zip(begins.tolist(), (data_offsets - header_offsets[0]).tolist())
    ]
    text = "\n".join([*names, ""])
    if not text.isascii() or text.count(".npy\n") != len(names) or sizes.max() >= zs.LIMIT32:
        return all(
            raw[offset : offset + zs.LOCAL.size] + rest
            == zs.local_header(name.encode("utf-8"), zs.STORED, crc, size, size, header_offset)
            for name, offset, rest, crc, size, header_offset in zip(
                names,
                offsets.tolist(),
                variable,
                crcs.tolist(),
                sizes.tolist(),
                header_offsets.tolist(),
            )
        )
    raw_names = text.encode("ascii").split(b"\n")[:-1]
    fixed, paddings = _local_records(_lengths(raw_names), crcs, sizes, header_offsets)
    found = _windows(raw, zs.LOCAL.size)[offsets].tobytes()
    padded = zip(raw_names, map(zs.PADDINGS.__getitem__, paddings.tolist()))
    return found == fixed and b"".join(variable) == b"".join(chain.from_iterable(padded))


class Layout:
    """Where plain arrays lie in the file, one behind the other.

    Parameters
    ----------
    begin : int
        Where the first local header is.
    raw_names : sequence of bytes
    sizes : sequence of int
        With the NPY headers.

    Attributes
    ----------
    end : int
        Where the last member ends.
    """

    def __init__(self, begin: int, raw_names: Sequence[bytes], sizes: Sequence[int]) -> None:
        self._raw_names = raw_names
        self._name_lengths = _lengths(raw_names)
        self._sizes = np.array(sizes)
        # Data are aligned: where they end depends on their length alone.
        before = np.concatenate(([begin], self._sizes[:-1]))
        headers = _local_lengths(self._name_lengths, before, True)
        self._ends = begin + np.cumsum(headers + self._sizes)
        self._offsets = self._ends - self._sizes - headers
        self.end = int(self._ends[-1])

    def pack(self, contents: Sequence[tuple[bytes, Any]]) -> tuple[bytearray, bytes]:
        """Return the members as they lie in the file, and their entries of the directory.

        Parameters
        ----------
        contents : sequence of (bytes, bytes-like)
            NPY header and data of each. The data are copied first and summed
            then: whoever changes them meanwhile does no harm.
        """
        fixed, paddings = _local_records(self._name_lengths, 0, self._sizes, self._offsets)
        pieces: list[Any] = []
        for start, raw_name, padding, (header, data) in zip(
            range(0, len(fixed), zs.LOCAL.size), self._raw_names, paddings.tolist(), contents
        ):
            pieces += (
                fixed[start : start + zs.LOCAL.size],
                raw_name,
                zs.PADDINGS[padding],
                header,
                data,
            )
        members = bytearray().join(pieces)
        ends = self._ends - self._offsets[0]
        with memoryview(members) as view:
            spans = zip((ends - self._sizes).tolist(), ends.tolist())
            crcs = np.array([crc32(view[begin:end]) for begin, end in spans], "<u4")
        field = self._offsets - self._offsets[0] + _LOCAL_CRC
        octets = np.frombuffer(members, np.uint8)
        octets[field[:, None] + np.arange(4)] = crcs.view(np.uint8).reshape(-1, 4)
        return members, self._entries(crcs)

    def _entries(self, crcs: np.ndarray[Any, Any]) -> bytes:
        records = bytearray(_CENTRAL * len(crcs))
        fields = np.frombuffer(records, _CENTRAL_FIELDS)
        fields["crc"] = crcs
        fields["stored"] = fields["size"] = self._sizes
        fields["name_length"] = self._name_lengths
        fields["offset"] = self._offsets
        fixed = bytes(records)
        starts = range(0, len(fixed), zs.CENTRAL.size)
        parts = [fixed[start : start + zs.CENTRAL.size] for start in starts]
        return b"".join(chain.from_iterable(zip(parts, self._raw_names)))


def _windows(data: bytes, length: int) -> np.ndarray[Any, Any]:
    """Return every stretch of that length as a row."""
    octets = np.frombuffer(data, np.uint8)
    shape = (len(data) - length + 1, length)
    return np.lib.stride_tricks.as_strided(octets, shape, (1, 1), writeable=False)


def _lengths(raw_names: Sequence[bytes]) -> np.ndarray[Any, Any]:
    return np.fromiter(map(len, raw_names), np.int64, len(raw_names))


def _local_records(
    name_lengths: np.ndarray[Any, Any],
    crcs: Any,
    sizes: np.ndarray[Any, Any],
    offsets: np.ndarray[Any, Any],
) -> tuple[bytes, np.ndarray[Any, Any]]:
    """Return local headers without names and paddings, and the indices of the paddings."""
    paddings = (offsets + zs.LOCAL.size + name_lengths) % zs.ALIGNMENT
    records = bytearray(_LOCAL * len(sizes))
    fields = np.frombuffer(records, _LOCAL_FIELDS)
    fields["crc"] = crcs
    fields["stored"] = fields["size"] = sizes
    fields["name_length"] = name_lengths
    fields["extra_length"] = _PADDING_LENGTHS[paddings]
    return bytes(records), paddings


def _local_lengths(
    name_lengths: np.ndarray[Any, Any], offsets: np.ndarray[Any, Any], are_arrays: Any
) -> np.ndarray[Any, Any]:
    """Return as `zip_structures.local_length` does."""
    lengths = zs.LOCAL.size + name_lengths
    lengths += np.where(are_arrays, _PADDING_LENGTHS[(offsets + lengths) % zs.ALIGNMENT], 0)
    return lengths
