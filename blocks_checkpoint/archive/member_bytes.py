"""The bytes of an archive's members: where they are, and whether they are sound."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from ..errors import DamagedCheckpoint, HostileCheckpoint
from . import zip_structures as zs
from .byte_source import ByteSource
from .crc import crc32
from .directory import Directory
from .member_pieces import SMALL_MEMBER
from .zip_structures import Member

__all__ = ["MemberBytes", "fault_of_expansion"]

_CHUNK = 1 << 20
# What compression is believed to have made of a member that is no array: up to
# the first number of bytes anything, beyond it so many times what is stored.
# Pickles of graphs shrink to a twentieth.
_EXPANDED_FREE_BYTES = 4 << 20
_EXPANDED_RATIO = 40


def fault_of_expansion(size: int, stored_size: int) -> str | None:
    """Say why a member of these sizes is not read whole; None if it may be.

    What is no array is parsed, and then takes many times its size in memory.
    """
    if size <= max(_EXPANDED_FREE_BYTES, _EXPANDED_RATIO * stored_size):
        return None
    return (
        f"{stored_size} bytes claim to hold {size} bytes compressed; if you trust the file, "
        "unpack it and pack it again with 'zip -0'"
    )


def own_header(member: Member) -> bytes:
    """Return the local header that a member of an archive of ours must have."""
    return zs.local_header(
        member.name.encode("utf-8"),
        zs.DEFLATED if member.compression else zs.STORED,
        member.crc32,
        member.size,
        member.stored_size,
        member.header_offset,
    )


class MemberBytes:
    """Access to the bytes of every member of one archive.

    Parameters
    ----------
    source : ByteSource
    directory : Directory
    """

    def __init__(self, source: ByteSource, directory: Directory) -> None:
        self.source = source
        self.directory = directory

    def damaged(self, member: Member, reason: str) -> NoReturn:
        """Raise that the bytes of a member are not those that were written."""
        raise DamagedCheckpoint(reason, path=self.source.path, member=member.name)

    def hostile(self, member: Member, reason: str) -> NoReturn:
        """Raise that a member breaks a rule."""
        raise HostileCheckpoint(reason, path=self.source.path, member=member.name)

    def check_crc(self, member: Member, crc: int) -> None:
        """Raise unless `crc` is the sum that the directory has for the member."""
        if crc != member.crc32:
            self.damaged(
                member,
                f"its bytes have the CRC-32 {crc:08x}, and {member.crc32:08x} was written: "
                "it is damaged",
            )

    def read(self, member: Member) -> bytes:
        """Return the checked bytes of a member."""
        if member.compression:
            return b"".join(self.chunks(member))
        if self.directory.is_ours and member.size <= SMALL_MEMBER:
            # With its header, in one call.
            header = own_header(member)
            raw = self.source.read_at(member.header_offset, len(header) + member.size, member.name)
            if not raw.startswith(header):
                self.damaged_header(member)
            data = raw[len(header) :]
        else:
            data = self.source.read_at(self.data_offset(member), member.size, member.name)
        self.check_crc(member, crc32(data))
        return data

    def chunks(self, member: Member) -> Iterator[Any]:
        """Yield the bytes of a member; raise after the last if their sum is wrong.

        A chunk is valid until the next one is asked for.
        """
        offset = self.data_offset(member)
        crc = 0
        stored = self._stored(member, offset, member.stored_size)
        for chunk in self._inflated(member, stored) if member.compression else stored:
            crc = crc32(chunk, crc)
            yield chunk
        self.check_crc(member, crc)

    def sum_part(
        self, member: Member, begin: int, length: int, count: Callable[[int], object]
    ) -> int:
        """Return the CRC-32 of a part of a stored member; `count` is told of bytes read."""
        crc = 0
        for chunk in self._stored(member, self.data_offset(member) + begin, length):
            crc = crc32(chunk, crc)
            count(len(chunk))
        return crc

    def _stored(self, member: Member, offset: int, length: int) -> Iterator[Any]:
        buffer = memoryview(bytearray(min(length, _CHUNK)))
        end = offset + length
        while offset < end:
            view = buffer[: end - offset]
            self.source.read_into(offset, view, member.name)
            yield view
            offset += len(view)

    def _inflated(self, member: Member, stored: Iterator[Any]) -> Iterator[Any]:
        """Yield what a compressed member holds, and never more than it declares."""
        unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        left = member.size
        for packed in stored:
            waiting: Any = packed
            is_full = False
            while len(waiting) or is_full:
                if len(waiting) and unpacker.eof:
                    self.hostile(member, "there are bytes after the end of its compressed data")
                # One byte more than is right would show that there is more.
                limit = min(left + 1, _CHUNK)
                try:
                    chunk = unpacker.decompress(waiting, limit)
                except zlib.error as error:
                    raise DamagedCheckpoint(
                        f"it cannot be decompressed: {error}",
                        path=self.source.path,
                        member=member.name,
                    ) from error
                waiting = unpacker.unconsumed_tail or unpacker.unused_data
                is_full = len(chunk) == limit
                left -= len(chunk)
                if left < 0:
                    self.hostile(member, f"it holds more than the {member.size} bytes it declares")
                if chunk:
                    yield chunk
        if left or not unpacker.eof:
            self.damaged(member, f"it holds {member.size - left} bytes, not {member.size}")

    # Where a member's data begin

    def damaged_header(self, member: Member) -> NoReturn:
        """Raise that a local header is not the one that follows from the directory."""
        self.damaged(member, "its local header is not what the directory says: it is damaged")

    def data_offset(self, member: Member) -> int:
        """Check the local header of a member and return where its data begin."""
        if self.directory.is_ours:
            expected = own_header(member)
            found = self.source.read_at(member.header_offset, len(expected), member.name)
            if found != expected:
                self.damaged_header(member)
            return member.header_offset + len(expected)
        return self._foreign_data_offset(member)

    def _foreign_data_offset(self, member: Member) -> int:
        raw_name, flags = self.directory.raw_entries[member.name]
        fixed = self.source.read_at(member.header_offset, zs.LOCAL.size, member.name)
        (signature, _, local_flags, method, _, _, crc, stored, size, name_length, extra_length) = (
            zs.LOCAL.unpack(fixed)
        )
        if signature != zs.LOCAL_SIGNATURE:
            self.damaged(member, "there is no local header where the directory says")
        variable = self.source.read_at(
            member.header_offset + zs.LOCAL.size, name_length + extra_length, member.name
        )
        if zs.LIMIT32 in (size, stored):
            values = zs.zip64_values(variable[name_length:], 2)
            if values:
                size, stored = values
        told: list[tuple[str, object, object]] = [
            ("name", variable[:name_length], raw_name),
            ("flags", local_flags, flags),
            ("method", method, zs.DEFLATED if member.compression else zs.STORED),
        ]
        # With a descriptor after the data, the header may leave these open.
        open_value = 0 if flags & zs.FLAG_DESCRIPTOR else None
        told += [
            row
            for row in (
                ("CRC-32", crc, member.crc32),
                ("size", size, member.size),
                ("compressed size", stored, member.stored_size),
            )
            if row[1] != open_value
        ]
        for what, local, central in told:
            if local != central:
                self.hostile(
                    member,
                    f"its local header and the directory disagree about its {what}: "
                    f"{local!r} and {central!r}",
                )
        offset = member.header_offset + zs.LOCAL.size + len(variable)
        if offset + member.stored_size > self.directory.next_start(member.header_offset):
            self.hostile(member, "it overlaps what follows it")
        return offset
