"""Checking every byte of an archive."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from typing import NamedTuple

from . import npy
from . import zip_structures as zs
from .errors import LoadError
from .member_bytes import MemberBytes
from .parallel import available_cores, for_each
from .zip_structures import Member

__all__ = ["Damage", "audit"]

# Between members other programs may leave this much, all zeros.
_MAX_GAP = 1 << 16


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

    def check(member: Member) -> None:
        try:
            _check(archive, member, count)
        except LoadError as error:
            damage[member.name] = Damage(member.name, error.message)

    members = archive.directory.members
    for_each(check, members.values(), available_cores())
    return [damage[name] for name in members if name in damage]


def _check(archive: MemberBytes, member: Member, count: Callable[[int], None]) -> None:
    is_array = member.name.endswith(".npy")
    start = b""
    for chunk in archive.chunks(member):
        if is_array and len(start) < npy.MAX_HEADER_BYTES:
            start += bytes(chunk[: npy.MAX_HEADER_BYTES - len(start)])
        count(len(chunk))
    if is_array:
        try:
            npy.check_member(start, member.size)
        except npy.NpyError as error:
            archive.hostile(member, f"it is not an array that can be read: {error}")
    if not archive.directory.is_ours:
        _check_rest(archive, member)


def _check_rest(archive: MemberBytes, member: Member) -> None:
    """Check what another program left between a member and the next."""
    end = archive.data_offset(member) + member.stored_size
    length = archive.directory.limit(member) - end
    if length > _MAX_GAP:
        archive.damaged(member, f"it is followed by {length} bytes that belong to no member")
    rest = archive.source.read_at(end, length, member.name)
    flags = archive.directory.raw_entries[member.name].flags
    if flags & zs.FLAG_DESCRIPTOR:
        for form in ("<3I", "<I2Q"):
            descriptor = struct.pack(form, member.crc32, member.stored_size, member.size)
            for start in (zs.DESCRIPTOR_SIGNATURE, b""):
                if rest.startswith(start + descriptor):
                    rest = rest[len(start + descriptor) :]
                    break
            else:
                continue
            break
        else:
            archive.damaged(member, "the descriptor after its data is not what the directory says")
    if rest.strip(b"\x00"):
        archive.damaged(member, f"it is followed by {len(rest)} bytes that belong to no member")
