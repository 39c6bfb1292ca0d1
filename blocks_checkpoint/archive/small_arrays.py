"""Reading small arrays: many with one call, and little of Python for each."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import npy
from .columns import Columns, have_their_headers
from .crc import crc32
from .member_bytes import MemberBytes
from .npy import Described
from .zip_structures import Member

__all__ = ["read_small_array", "read_small_arrays"]

#: Neighbours are read together, up to so many bytes.
_BATCH = 1 << 20
_UNKNOWN = (-1, (), np.dtype(np.uint8))


def read_small_array(archive: MemberBytes, member: Member) -> np.ndarray[Any, Any]:
    """Read one array."""
    raw = archive.read(member)
    return _copied(raw, 0, len(raw), _described(archive, member.name, raw))


def read_small_arrays(archive: MemberBytes, columns: Columns) -> dict[str, np.ndarray[Any, Any]]:
    """Read many stored arrays of an archive of ours, by their names.

    Parameters
    ----------
    archive : MemberBytes
    columns : Columns
    """
    arrays = {}
    # Headers repeat, and so does what is made of them: of arrays in C order, with
    # a header of the usual length and without fields.
    forms: dict[bytes, tuple[int, tuple[int, ...], np.dtype[Any]]] = {}
    for batch in columns.neighbours(_BATCH):
        base = batch.header_offsets.item(0)
        begins = (batch.data_offsets - base).tolist()
        ends = (batch.data_offsets - base + batch.sizes).tolist()
        raw = archive.source.read_at(base, ends[-1], batch.names[0])
        view = memoryview(raw)
        sums = [crc32(view[begin:end]) for begin, end in zip(begins, ends)]
        if sums != batch.crcs.tolist() or not have_their_headers(batch, raw):
            for name, crc in zip(batch.names, sums):
                member = archive.directory.members[name]
                archive.data_offset(member)
                archive.check_crc(member, crc)
        for name, begin, end in zip(batch.names, begins, ends):
            glance = raw[begin : begin + npy.GLANCE]
            size, shape, dtype = forms.get(glance, _UNKNOWN)
            if size != end - begin:
                described = _described(archive, name, raw[begin:end])
                arrays[name] = _copied(raw, begin, end - begin, described)
                dtype, shape, fortran_order, length = described
                if not fortran_order and dtype.names is None and length == npy.GLANCE < end - begin:
                    forms[glance] = end - begin, shape, dtype
            else:
                # Arguments that need not be given take a tenth of the time.
                arrays[name] = np.ndarray(shape, dtype, raw, begin + npy.GLANCE).copy()
    return arrays


def _described(archive: MemberBytes, name: str, raw: bytes) -> Described:
    """Return what the header of an array says, whose bytes these are."""
    try:
        return npy.check_member(raw, len(raw))
    except npy.NpyError as error:
        member = archive.directory.members[name]
        archive.hostile(member, f"it is not an array that can be read: {error}")


def _copied(raw: bytes, begin: int, size: int, described: Described) -> np.ndarray[Any, Any]:
    """Return a copy of the array whose sound bytes, header included, are in `raw`."""
    dtype, shape, fortran_order, length = described
    array: np.ndarray[Any, Any] = np.empty(shape, dtype, "F" if fortran_order else "C")
    if length < size:
        # As bytes: what lies between the fields of a structure comes along.
        octets = (array.T if fortran_order else array).reshape(-1).view(np.uint8)
        octets[:] = np.frombuffer(raw, np.uint8, size - length, begin + length)
    return array
