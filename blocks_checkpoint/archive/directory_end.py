"""The end of a zip archive: where its directory is, according to the last bytes."""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from ..errors import DamagedCheckpoint, HostileCheckpoint, NotACheckpoint
from . import zip_structures as zs
from .byte_source import ByteSource
from .file_kinds import is_tar, what_it_seems

__all__ = ["DirectoryEnd", "find_end"]


class DirectoryEnd(NamedTuple):
    """Where the directory is, and what the records after it say.

    Attributes
    ----------
    offset, size : int
        Place of the directory in the file.
    entries : int
        How many members it lists.
    records : bytes
        Everything between the directory and the archive's comment.
    mark : (int, int) or None
        Version and CRC-32 that our mark notes, if the archive has it.
    """

    offset: int
    size: int
    entries: int
    records: bytes
    mark: tuple[int, int] | None


def find_end(source: ByteSource) -> DirectoryEnd:
    """Find the end of an archive's directory, and check it against the file.

    Raises
    ------
    NotACheckpoint
        The file is no zip archive.
    DamagedCheckpoint
        It was one once.
    HostileCheckpoint
        The records at its end contradict the file or each other.
    """
    tail_size = min(source.size, zs.END.size + zs.LIMIT16)
    # A file of ours is settled by its last bytes alone.
    short = min(source.size, 4096)
    tail = source.read_at(source.size - short, short)
    position = len(tail) - zs.END.size - zs.MARK_LENGTH
    comment = tail[-zs.MARK_LENGTH :]
    found = zs.parse_mark(comment)
    if not (found and position >= 0 and _is_end_at(tail, position)):
        if tail_size > short:
            tail = source.read_at(source.size - tail_size, tail_size)
        position = _search_end(source, tail)
        comment = tail[position + zs.END.size :]
        found = None
        if zs.resembles_mark(comment):
            raise DamagedCheckpoint(
                f"the mark at the end of the file is damaged: {comment!r}",
                path=source.path,
                member="directory",
            )
    absolute = source.size - len(tail) + position
    return _decode_end(source, tail, position, absolute, found)


def _is_end_at(tail: bytes, position: int) -> bool:
    if tail[position : position + 4] != zs.END_SIGNATURE:
        return False
    comment_length: int = zs.END.unpack_from(tail, position)[-1]
    return position + zs.END.size + comment_length == len(tail)


def _search_end(source: ByteSource, tail: bytes) -> int:
    candidates = []
    position = tail.rfind(zs.END_SIGNATURE)
    while position >= 0:
        if position + zs.END.size <= len(tail) and _is_end_at(tail, position):
            candidates.append(position)
        position = tail.rfind(zs.END_SIGNATURE, 0, position + 3)
    if len(candidates) > 1:
        raise HostileCheckpoint(
            "the file ends in more than one way, so that readers would disagree about "
            "what is in it",
            path=source.path,
        )
    if candidates:
        return candidates[0]
    head = source.read_at(0, min(source.size, 1024))
    if head and (
        head.startswith(zs.LOCAL_SIGNATURE)
        or zs.LOCAL_SIGNATURE.startswith(head)
        or (zs.END_SIGNATURE in tail and not is_tar(head))
    ):
        raise DamagedCheckpoint(
            "this is a zip archive without its directory: it was cut off, or its end is "
            "damaged, or something else follows it",
            path=source.path,
            member="directory",
        )
    raise NotACheckpoint(
        f"this is no checkpoint; it seems to be {what_it_seems(head)}", path=source.path
    )


def _decode_end(
    source: ByteSource,
    tail: bytes,
    position: int,
    absolute: int,
    found: tuple[int, int] | None,
) -> DirectoryEnd:
    def refuse(reason: str) -> NoReturn:
        # With our mark it was ours once, and what is wrong came later.
        error = DamagedCheckpoint if found else HostileCheckpoint
        raise error(f"the end of the zip directory {reason}", path=source.path, member="directory")

    _, disk, first_disk, here, count, size, offset, _ = zs.END.unpack_from(tail, position)
    directory_end = absolute
    records = tail[position : position + zs.END.size]
    locator = b""
    if absolute >= zs.LOCATOR.size:
        locator = source.read_at(absolute - zs.LOCATOR.size, zs.LOCATOR.size)
    if locator[:4] == zs.LOCATOR_SIGNATURE:
        _, locator_disk, end64_offset, disks = zs.LOCATOR.unpack(locator)
        if locator_disk or disks > 1:
            refuse("says that the archive has several disks")
        if end64_offset + zs.END64.size + zs.LOCATOR.size != absolute:
            refuse("points to a ZIP64 record that is not before it")
        record = source.read_at(end64_offset, zs.END64.size)
        (signature, length, _, _, *rest) = zs.END64.unpack(record)
        if signature != zs.END64_SIGNATURE or length != zs.END64.size - 12:
            refuse("points to a ZIP64 record that is none")
        short = (disk, first_disk, here, count, size, offset)
        limits = (zs.LIMIT16,) * 4 + (zs.LIMIT32,) * 2
        for value, limit, wide in zip(short, limits, rest):
            if value not in (limit, wide):
                refuse("says one thing in 32 bits and another in 64")
        disk, first_disk, here, count, size, offset = rest
        directory_end = end64_offset
        records = record + locator + records
    if disk or first_disk or here != count:
        refuse("says that the archive has several disks")
    if offset + size > directory_end:
        refuse(f"says that the directory is {size} bytes at {offset}, which the file lacks")
    if offset + size < directory_end:
        refuse(
            f"does not follow the directory: there are {directory_end - offset - size} bytes "
            "that belong to neither, or before the archive"
        )
    if size > zs.MAX_DIRECTORY_BYTES:
        refuse(f"says that the directory has {size} bytes; {zs.MAX_DIRECTORY_BYTES} is the limit")
    if count * zs.CENTRAL.size > size:
        refuse(f"says that {count} members are listed in {size} bytes")
    return DirectoryEnd(offset, size, count, records, found)
