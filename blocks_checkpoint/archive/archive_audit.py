"""Checking every byte of an archive."""

from __future__ import annotations

import contextlib
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from ..errors import DamagedCheckpoint, LoadError
from . import npy
from . import zip_structures as zs
from .crc import combine
from .member_bytes import MemberBytes
from .parallel import available_cores, for_each
from .zip_structures import Member

__all__ = ["Damage", "audit"]

# Between members other programs may leave this much, all zeros.
_MAX_GAP = 1 << 16
# Members larger than this are summed in parts, by all cores.
_PART = 32 << 20


class Damage(NamedTuple):
    """One thing that is wrong with an archive: where, and what."""

    member: str
    reason: str


def audit(archive: MemberBytes, progress: Callable[[int], object] | None = None) -> list[Damage]:
    """Return everything that is wrong with the members of an archive."""
    damage: dict[str, Damage] = {}
    lock = threading.Lock()
    done = 0

    def count(number: int) -> None:
        nonlocal done
        if progress:
            with lock:
                done += number
                progress(done)

    @contextlib.contextmanager
    def noting(member: Member) -> Iterator[None]:
        try:
            yield
        except LoadError as error:
            damage[member.name] = Damage(member.name, error.message)

    def check(part: tuple[Member, int]) -> None:
        member, begin = part
        with noting(member):
            if _is_whole(member):
                _check(archive, member, count)
            else:
                length = min(_PART, member.size - begin)
                sums[part] = archive.sum_part(member, begin, length, count)

    members = archive.directory.members
    sums: dict[tuple[Member, int], int] = {}
    parts = [part for member in members.values() for part in _parts(member)]
    for_each(check, parts, available_cores())
    for member in members.values():
        if not _is_whole(member) and member.name not in damage:
            with noting(member):
                _check_summed(archive, member, sums)
    found = [damage[name] for name in members if name in damage]
    for offset in archive.directory.folders:
        try:
            _check_folder(archive, offset)
        except LoadError as error:
            found.append(Damage("directory", error.message))
    return found


def _is_whole(member: Member) -> bool:
    """Say whether a member is summed by one thread alone."""
    return member.size <= _PART or member.compression is not None


def _parts(member: Member) -> list[tuple[Member, int]]:
    """List where the parts of a member begin that threads can sum."""
    return [(member, begin) for begin in range(0, 1 if _is_whole(member) else member.size, _PART)]


def _check_summed(
    archive: MemberBytes, member: Member, sums: Mapping[tuple[Member, int], int]
) -> None:
    """Check a member of which every part was summed."""
    crc = 0
    for part in _parts(member):
        crc = combine(crc, sums[part], min(_PART, member.size - part[1]))
    archive.check_crc(member, crc)
    length = min(member.size, npy.MAX_HEADER_BYTES)
    _check_form(archive, member, archive.source.read_at(archive.data_offset(member), length))


def _check(archive: MemberBytes, member: Member, count: Callable[[int], None]) -> None:
    is_array = member.name.endswith(".npy")
    start = b""
    for chunk in archive.chunks(member):
        if is_array and len(start) < npy.MAX_HEADER_BYTES:
            start += bytes(chunk[: npy.MAX_HEADER_BYTES - len(start)])
        count(len(chunk))
    _check_form(archive, member, start)


def _check_form(archive: MemberBytes, member: Member, start: bytes) -> None:
    """Check what a member with these first bytes says of itself, and what follows it."""
    if member.name.endswith(".npy"):
        try:
            npy.check_member(start, member.size)
        except npy.NpyError as error:
            archive.hostile(member, f"it is not an array that can be read: {error}")
    if not archive.directory.is_ours:
        _check_rest(archive, member)


def _check_rest(archive: MemberBytes, member: Member) -> None:
    """Check what another program left between a member and the next."""
    end = archive.data_offset(member) + member.stored_size
    rest = _gap(archive, end, archive.directory.next_start(member.header_offset), member.name)
    flags = archive.directory.raw_entries[member.name].flags
    if flags & zs.FLAG_DESCRIPTOR:
        # With or without its signature, its sizes in 32 bits or 64.
        for form in ("<4s3I", "<4sI2Q"):
            if member.size > zs.LIMIT32 and form == "<4s3I":
                continue
            descriptor = struct.pack(
                form, zs.DESCRIPTOR_SIGNATURE, member.crc32, member.stored_size, member.size
            )
            found = [part for part in (descriptor, descriptor[4:]) if rest.startswith(part)]
            if found:
                rest = rest[len(found[0]) :]
                break
        else:
            archive.damaged(member, "the descriptor after its data is not what the directory says")
    if rest.strip(b"\x00"):
        archive.damaged(member, f"it is followed by {len(rest)} bytes that belong to no member")


def _check_folder(archive: MemberBytes, offset: int) -> None:
    """Check the entry of a folder, which must hold nothing."""
    header = archive.source.read_at(offset, zs.LOCAL.size, "directory")
    signature, *_, stored, size, name_length, extra_length = zs.LOCAL.unpack(header)
    end = offset + zs.LOCAL.size + name_length + extra_length
    rest = _gap(archive, end, archive.directory.next_start(offset), "directory")
    if signature != zs.LOCAL_SIGNATURE or stored or size or rest.strip(b"\x00"):
        raise DamagedCheckpoint(
            f"the entry of a folder, at {offset}, is damaged or hides something"
        )


def _gap(archive: MemberBytes, start: int, end: int, member: str) -> bytes:
    if end - start > _MAX_GAP:
        raise DamagedCheckpoint(
            f"it is followed by {end - start} bytes that belong to no member",
            path=archive.source.path,
            member=member,
        )
    return archive.source.read_at(start, end - start, member)
