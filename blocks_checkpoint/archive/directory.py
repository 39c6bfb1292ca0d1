"""The directory of a zip archive: found, bounded and checked.

Everything that is read here is believed only as far as the file bears it out.
Whatever the numbers in a file say, no more memory is taken than a small
multiple of the directory that is really there, and nothing but the end of the
file and that directory is read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import NamedTuple, NoReturn

from ..errors import DamagedCheckpoint, HostileCheckpoint, UnsupportedFormat
from . import zip_structures as zs
from .byte_source import ByteSource
from .columns import plain_members
from .crc import crc32
from .directory_end import DirectoryEnd, find_end
from .member_names import fault_of_name, folded, is_plain
from .zip_structures import Member

__all__ = ["Directory", "read_directory"]

# What deflate can make of a byte at most, and what is believed of it: up to
# the first number of bytes in all anything, beyond it a hundredfold.
_DEFLATE_LIMIT = 1032
_DEFLATE_FREE_BYTES = 256 << 20
_DEFLATE_RATIO = 100

_KNOWN_FLAGS = 0x1 | 0x2 | 0x4 | 0x8 | 0x800


class RawEntry(NamedTuple):
    """What another program wrote of a member, beyond a `Member`."""

    raw_name: bytes
    flags: int


class Directory:
    """What the end of an archive tells.

    Attributes
    ----------
    members : mapping of str to Member
        In the order of the directory.
    is_ours : bool
        Whether the archive has our mark: then its directory is proven to be
        undamaged, and every other byte that is not data follows from it.
    raw_entries : dict of str to RawEntry
        For archives of other programs.
    offset : int
        Where the directory begins, and the members end.
    """

    def __init__(self, offset: int, is_ours: bool) -> None:
        self.offset = offset
        self.is_ours = is_ours
        self.members: Mapping[str, Member] = {}
        self.raw_entries: dict[str, RawEntry] = {}
        self.folders: list[int] = []
        self._starts: list[int] | None = None

    def next_start(self, offset: int) -> int:
        """Return where what follows the entry at `offset` begins."""
        starts = self.starts()
        index = bisect_right(starts, offset)
        return starts[index] if index < len(starts) else self.offset

    def starts(self) -> list[int]:
        """Return where every entry begins, in order."""
        if self._starts is None:
            offsets = [member.header_offset for member in self.members.values()]
            self._starts = sorted(offsets + self.folders)
        return self._starts


def read_directory(source: ByteSource) -> Directory:
    """Find and check the directory of an archive.

    Raises
    ------
    NotACheckpoint
        The file is no zip archive.
    DamagedCheckpoint
        It was one once.
    HostileCheckpoint
        The directory breaks a rule.
    """
    end = find_end(source)
    data = source.read_at(end.offset, end.size, "directory")
    if end.mark:
        version, crc = end.mark
        if version != 1:
            raise UnsupportedFormat(
                f"the archive has container version {version}, and this package reads "
                "version 1: install a newer blocks_checkpoint (or the last bytes of the file "
                "are damaged)",
                path=source.path,
                member="directory",
            )
        if crc32(end.records, crc32(data)) != crc:
            raise DamagedCheckpoint(
                "the directory does not have the CRC-32 noted at the end of the file: it is "
                "damaged (or a program that edits zip archives kept the note)",
                path=source.path,
                member="directory",
            )
    return _Parser(source, data, end).parse()


class _Parser:
    """One pass over the entries of a directory."""

    def __init__(self, source: ByteSource, data: bytes, end: DirectoryEnd) -> None:
        self._path = source.path
        self._data = data
        self._end = end
        self._directory = Directory(end.offset, end.mark is not None)

    def parse(self) -> Directory:
        data, directory = self._data, self._directory
        is_ours = directory.is_ours
        if is_ours:
            # Ten thousand members are nothing unusual. Where there is any doubt
            # about them, they are looked at one by one.
            plain = plain_members(data, self._end.entries, self._end.offset)
            if plain is not None:
                directory.members = plain
                return directory
        # Looks are kept short here, and whatever is not plain goes through functions.
        unpack, header_size = zs.CENTRAL.unpack_from, zs.CENTRAL.size
        local_length, new = zs.local_length, tuple.__new__
        members: dict[str, Member] = {}
        directory.members = members
        seen: set[str] = set()
        end = len(data)
        position = next_offset = 0
        for _ in range(self._end.entries):
            if position + header_size > end:
                self._refuse("the directory lists fewer members than it says")
            (signature, made_by, _, flags, method, _, _, crc, stored, size, name_length,
             extra_length, comment_length, disk, _, _, offset) = unpack(data, position)  # fmt: skip
            position += header_size
            name_end = position + name_length
            raw_name = data[position:name_end]
            position = name_end + extra_length + comment_length
            if signature != zs.CENTRAL_SIGNATURE or position > end:
                self._refuse("an entry of the directory is not one")
            extra = data[name_end : name_end + extra_length]
            name = self._decode(raw_name, flags, extra, made_by)
            if extra or disk:
                size, stored, offset = self._widen(name, extra, size, stored, offset, disk)
            if not is_plain(name):
                if name[-1:] == "/" and not size and not is_ours:
                    # Programs that pack folders list them; they hold nothing.
                    self._check_name(name[:-1])
                    directory.folders.append(offset)
                    continue
                self._check_name(name)
            key = folded(name)
            if key in seen:
                self._refuse(
                    "two members have this name (or names that differ in case or in the "
                    "composition of letters only)",
                    name,
                )
            seen.add(key)
            if flags or method or size != stored:
                self._check_storage(name, flags, method, size, stored)
            data_offset = None
            if is_ours:
                if offset != next_offset:
                    self._refuse("it does not begin where the member before it ends", name)
                data_offset = offset + local_length(raw_name, method, size, offset)
                next_offset = data_offset + stored
            else:
                directory.raw_entries[name] = RawEntry(raw_name, flags)
            compression = "deflate" if method else None
            members[name] = new(Member, (name, offset, data_offset, size, stored, crc, compression))
        if position != end:
            self._refuse("the directory lists more members than it says")
        if not is_ours:
            self._check_places()
        elif next_offset != self._end.offset:
            self._refuse("the members do not end where the directory begins")
        self._check_expansion()
        return directory

    def _refuse(self, reason: str, member: str = "directory") -> NoReturn:
        raise HostileCheckpoint(reason, path=self._path, member=member)

    def _decode(self, raw_name: bytes, flags: int, extra: bytes, made_by: int) -> str:
        if raw_name.isascii():
            return raw_name.decode("ascii")
        in_utf8 = raw_name if flags & zs.FLAG_UTF8 else zs.unicode_name(extra, raw_name)
        try:
            if in_utf8 is not None:
                return in_utf8.decode("utf-8")
        except UnicodeDecodeError:
            self._refuse(f"the name {in_utf8!r:.80} is said to be UTF-8 and is not")
        if self._directory.is_ours:
            self._refuse(f"the name {raw_name!r:.80} lacks the mark of UTF-8")
        if made_by >> 8 == zs.MADE_BY_UNIX >> 8:
            # Info-ZIP leaves the mark out where the system's names are UTF-8.
            try:
                return raw_name.decode("utf-8")
            except UnicodeDecodeError:
                pass
        return raw_name.decode("cp437")

    def _check_name(self, name: str) -> None:
        fault = fault_of_name(name)
        if fault:
            self._refuse(f"this member name is not allowed: {fault}", name)

    def _widen(
        self, name: str, extra: bytes, size: int, stored: int, offset: int, disk: int
    ) -> tuple[int, int, int]:
        """Return the numbers of an entry in full, from its ZIP64 field if there is one."""
        fields = [size, stored, offset]
        missing = [index for index, value in enumerate(fields) if value == zs.LIMIT32]
        values = zs.zip64_values(extra, len(missing))
        if values and disk == zs.LIMIT16:
            disk = 0
        if disk:
            self._refuse("it is said to be on another disk", name)
        for index, value in zip(missing, values or ()):
            fields[index] = value
        return fields[0], fields[1], fields[2]

    def _check_storage(self, name: str, flags: int, method: int, size: int, stored: int) -> None:
        if flags & zs.FLAG_ENCRYPTED:
            self._refuse("it is encrypted", name)
        if flags & ~_KNOWN_FLAGS or (self._directory.is_ours and flags & ~zs.FLAG_UTF8):
            self._refuse(f"its flags {flags:#06x} ask for what no checkpoint has", name)
        if method == zs.STORED:
            if size != stored:
                self._refuse(f"it is stored, and {size} bytes take {stored}", name)
        elif method == zs.DEFLATED:
            if size > stored * _DEFLATE_LIMIT:
                self._refuse(f"{stored} bytes cannot be {size} bytes compressed", name)
        else:
            self._refuse(f"its compression method {method} is neither stored nor deflate", name)

    def _check_places(self) -> None:
        """Refuse members that overlap, whatever their local headers may add."""
        directory = self._directory
        members = sorted(directory.members.values(), key=lambda member: member.header_offset)
        starts = directory.starts()
        if starts and starts[0]:
            self._refuse(f"there are {starts[0]} bytes before the first member")
        if not starts and directory.offset:
            self._refuse(f"there are {directory.offset} bytes before an empty directory")
        for before, after in zip(starts, starts[1:]):
            if before == after:
                self._refuse("two members begin at one place")
        for member in members:
            raw_name = directory.raw_entries[member.name].raw_name
            least = member.header_offset + zs.LOCAL.size + len(raw_name) + member.stored_size
            if least > directory.next_start(member.header_offset):
                self._refuse("it overlaps what follows it", member.name)

    def _check_expansion(self) -> None:
        packed = [m for m in self._directory.members.values() if m.compression]
        size = sum(member.size for member in packed)
        stored = sum(member.stored_size for member in packed)
        if size > max(_DEFLATE_FREE_BYTES, _DEFLATE_RATIO * stored):
            self._refuse(
                f"{stored} bytes claim to hold {size} bytes compressed; if you trust the file, "
                "unpack it and pack it again with 'zip -0'"
            )
