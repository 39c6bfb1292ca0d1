"""The records of a zip archive, to and from bytes.

Nothing here reads or writes a file. The layout is that of PKWARE's APPNOTE
(sections 4.3.7 local file header, 4.3.12 central directory, 4.3.14 to 4.3.16
its end), with three conventions of ours:

- data of a stored member whose name ends in ``.npy`` begin at a multiple of
  64 bytes; a field of zeros in the local header, with the identifier that
  Android's zipalign uses, fills the gap;
- every date is 1 January 1980;
- the archive's comment holds the CRC-32 of all that lies between the last
  member and the comment, so that a flipped bit in the directory is found.

With these, every byte of the file that is no member's data follows from the
directory.
"""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

from .crc import crc32

__all__ = [
    "ALIGNMENT",
    "CENTRAL",
    "DEFLATED",
    "END",
    "END64",
    "LOCAL",
    "LOCATOR",
    "MARK_LENGTH",
    "MAX_DIRECTORY_BYTES",
    "PADDINGS",
    "STORED",
    "Member",
    "central_entry",
    "deflate_bound",
    "ending",
    "local_header",
    "local_length",
    "mark",
    "parse_mark",
    "unicode_name",
    "zip64_values",
]

LOCAL = struct.Struct("<4s5H3I2H")
CENTRAL = struct.Struct("<4s6H3I5H2I")
END = struct.Struct("<4s4H2IH")
END64 = struct.Struct("<4sQ2H2I4Q")
LOCATOR = struct.Struct("<4sIQI")
_FIELD = struct.Struct("<2H")

LOCAL_SIGNATURE = b"PK\x03\x04"
CENTRAL_SIGNATURE = b"PK\x01\x02"
END_SIGNATURE = b"PK\x05\x06"
END64_SIGNATURE = b"PK\x06\x06"
LOCATOR_SIGNATURE = b"PK\x06\x07"
DESCRIPTOR_SIGNATURE = b"PK\x07\x08"

STORED, DEFLATED = 0, 8
#: Array data begin at a multiple of this many bytes in the file.
ALIGNMENT = 64
#: Neither written nor read beyond: more than half a million members.
MAX_DIRECTORY_BYTES = 1 << 26

FLAG_ENCRYPTED, FLAG_DESCRIPTOR, FLAG_UTF8 = 0x1, 0x8, 0x800
LIMIT16, LIMIT32 = 0xFFFF, 0xFFFFFFFF
_ZIP64_FIELD, _ALIGNMENT_FIELD, _UNICODE_NAME_FIELD = 0x0001, 0xD935, 0x7075
# Bytes of identifier, length and alignment before the zeros of the field.
_ALIGNMENT_FIELD_MINIMUM = 6
MADE_BY_UNIX = 3 << 8
_REGULAR_FILE_0644 = 0o100644 << 16
_DATE_1980_01_01 = 0x21


class Member(NamedTuple):
    """One member of an archive.

    Attributes
    ----------
    name : str
        Whole name in the archive, such as ``mlp/linear_0/W.npy``.
    header_offset : int
        Where its local header begins in the file.
    data_offset : int or None
        Where its data begin. None for an archive that another program wrote,
        where only the local header tells.
    size : int
        Bytes of the member.
    stored_size : int
        Bytes it takes in the file.
    crc32 : int
        Sum of the `size` bytes.
    compression : None or 'deflate'
        How it is stored.
    """

    name: str
    header_offset: int
    data_offset: int | None
    size: int
    stored_size: int
    crc32: int
    compression: str | None


def deflate_bound(size: int) -> int:
    """Return more bytes than deflate makes of `size` bytes, whatever they are."""
    return size + (size >> 10) + 64


# Members of less than this need no second look.
_PERHAPS_64_BITS = 1 << 31


def _needs_64_bits(method: int, size: int) -> bool:
    """Say whether a local header has 64-bit sizes.

    Its length has to be settled before the stored size of a compressed member
    is known.
    """
    return (size if method == STORED else deflate_bound(size)) >= LIMIT32


def _padding(gap: int) -> bytes:
    """Return a field of a local header that fills `gap` bytes, or as many and 64 more."""
    if 0 < gap < _ALIGNMENT_FIELD_MINIMUM:
        gap += ALIGNMENT
    if not gap:
        return b""
    field = struct.pack("<3H", _ALIGNMENT_FIELD, gap - 4, ALIGNMENT)
    return field + bytes(gap - _ALIGNMENT_FIELD_MINIMUM)


#: Fields that fill a local header up, by where, modulo 64, it would end without.
PADDINGS = [_padding(-end % ALIGNMENT) for end in range(ALIGNMENT)]
_PADDING_LENGTHS = [len(padding) for padding in PADDINGS]
_ZIP64_LOCAL = struct.Struct("<2H2Q")


def local_length(raw_name: bytes, method: int, size: int, offset: int) -> int:
    """Return the length of the local header that such a member has at `offset`."""
    length = LOCAL.size + len(raw_name)
    if size >= _PERHAPS_64_BITS and _needs_64_bits(method, size):
        length += _ZIP64_LOCAL.size
    if method == STORED and raw_name.endswith(b".npy"):
        length += _PADDING_LENGTHS[(offset + length) % ALIGNMENT]
    return length


def local_header(
    raw_name: bytes, method: int, crc: int, size: int, stored: int, offset: int
) -> bytes:
    """Return the local header that such a member has at `offset` in the file."""
    extra = b""
    needed = 20
    shown_size, shown_stored = size, stored
    if size >= _PERHAPS_64_BITS and _needs_64_bits(method, size):
        extra = _ZIP64_LOCAL.pack(_ZIP64_FIELD, 16, size, stored)
        needed = 45
        shown_size = shown_stored = LIMIT32
    length = len(raw_name)
    if method == STORED and raw_name.endswith(b".npy"):
        extra += PADDINGS[(offset + LOCAL.size + length + len(extra)) % ALIGNMENT]
    fixed = LOCAL.pack(
        LOCAL_SIGNATURE,
        needed,
        0 if raw_name.isascii() else FLAG_UTF8,
        method,
        0,
        _DATE_1980_01_01,
        crc,
        shown_stored,
        shown_size,
        length,
        len(extra),
    )
    return fixed + raw_name + extra


def central_entry(
    raw_name: bytes, method: int, crc: int, size: int, stored: int, offset: int
) -> bytes:
    """Return the directory entry of a member."""
    extra = b""
    needed = 20
    shown_offset = offset
    shown_size, shown_stored = size, stored
    if size >= LIMIT32 or stored >= LIMIT32:
        extra = struct.pack("<2Q", size, stored)
        shown_size = shown_stored = LIMIT32
        needed = 45
    if offset >= LIMIT32:
        extra += struct.pack("<Q", offset)
        shown_offset = LIMIT32
        needed = 45
    if extra:
        extra = _FIELD.pack(_ZIP64_FIELD, len(extra)) + extra
    flags = 0 if raw_name.isascii() else FLAG_UTF8
    return (
        CENTRAL.pack(
            CENTRAL_SIGNATURE,
            MADE_BY_UNIX | needed,
            needed,
            flags,
            method,
            0,
            _DATE_1980_01_01,
            crc,
            shown_stored,
            shown_size,
            len(raw_name),
            len(extra),
            0,
            0,
            0,
            _REGULAR_FILE_0644,
            shown_offset,
        )
        + raw_name
        + extra
    )


def ending(directory: bytes, count: int, offset: int) -> bytes:
    """Return what follows the directory, which begins at `offset`: its end and our mark."""
    size = len(directory)
    records = b""
    if count >= LIMIT16 or size >= LIMIT32 or offset >= LIMIT32:
        end64_size = END64.size - 12
        records = END64.pack(
            END64_SIGNATURE, end64_size, MADE_BY_UNIX | 45, 45, 0, 0, count, count, size, offset
        )
        records += LOCATOR.pack(LOCATOR_SIGNATURE, 0, offset + size, 1)
    records += END.pack(
        END_SIGNATURE,
        0,
        0,
        min(count, LIMIT16),
        min(count, LIMIT16),
        min(size, LIMIT32),
        min(offset, LIMIT32),
        MARK_LENGTH,
    )
    return records + mark(crc32(records, crc32(directory)))


_MARK = re.compile(rb"blocks_checkpoint ([0-9]) crc32=([0-9a-f]{8})")


def mark(crc: int) -> bytes:
    """Return the comment that says an archive is of this format and sums its directory."""
    return b"blocks_checkpoint 1 crc32=%08x" % crc


MARK_LENGTH = len(mark(0))


def parse_mark(comment: bytes) -> tuple[int, int] | None:
    """Return the version and the CRC-32 noted in an archive's comment, if it is our mark."""
    found = _MARK.fullmatch(comment)
    return (int(found[1]), int(found[2], 16)) if found else None


def resembles_mark(comment: bytes) -> bool:
    """Say whether `comment` is our mark but for damage.

    A comment that somebody else wrote, of the same length by chance, is text.
    """
    if len(comment) != MARK_LENGTH:
        return False
    fixed = mark(0)[:-8]
    is_text = comment.isascii() and comment.decode("ascii").isprintable()
    return not is_text or sum(a != b for a, b in zip(fixed, comment)) <= len(fixed) // 2


def zip64_values(extra: bytes, wanted: int) -> list[int] | None:
    """Return the `wanted` 64-bit values in the ZIP64 field of `extra`, or None without them."""
    field = _field(extra, _ZIP64_FIELD)
    if field is None or len(field) < 8 * wanted:
        return None
    return list(struct.unpack_from(f"<{wanted}Q", field))


def unicode_name(extra: bytes, raw_name: bytes) -> bytes | None:
    """Return the name in UTF-8 that Info-ZIP notes beside one of another encoding."""
    field = _field(extra, _UNICODE_NAME_FIELD)
    if field is None or field[:5] != struct.pack("<BI", 1, crc32(raw_name)):
        return None
    return field[5:]


def _field(extra: bytes, wanted: int) -> bytes | None:
    position = 0
    while position + _FIELD.size <= len(extra):
        identifier, length = _FIELD.unpack_from(extra, position)
        position += _FIELD.size
        if position + length > len(extra):
            return None
        if identifier == wanted:
            return extra[position : position + length]
        position += length
    return None
