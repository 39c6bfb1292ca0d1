"""Members of a tar archive, as Blocks wrote them from 2016 on."""

from __future__ import annotations

import tarfile
from typing import IO, BinaryIO

from ..errors import DamagedCheckpoint, HostileCheckpoint

__all__ = ["TarMembers", "is_tar"]

_BLOCK_BYTES = 512
#: Blocks writes two members, and one for each attribute that a user named.
MAX_MEMBERS = 10_000
#: What the standard library raises for archives that are damaged.
_BROKEN = (EOFError, IndexError, RecursionError, UnicodeError, ValueError, tarfile.TarError)


def is_tar(head: bytes) -> bool:
    """Tell from its first 512 bytes or more whether a file is a tar archive."""
    try:
        tarfile.TarInfo.frombuf(head[:_BLOCK_BYTES], "utf-8", "surrogateescape")
    except _BROKEN:
        return False
    return True


class TarMembers:
    """Reads members of a tar archive; nothing is unpacked to disk.

    Parameters
    ----------
    file : binary file
        Seekable; left open.
    path : str or None
        For messages.

    Attributes
    ----------
    infos : dict of str to tarfile.TarInfo
        The last one of each name, as ``add_to_dump`` appends them.

    Raises
    ------
    DamagedCheckpoint
        A header cannot be read, or the file ends in the middle.
    HostileCheckpoint
        No writer made these members.
    """

    def __init__(self, file: BinaryIO, path: str | None) -> None:
        self._path = path
        end = file.seek(0, 2)
        file.seek(0)
        try:
            # "r:", because "r" would uncompress whatever it finds.
            self._archive = tarfile.open(fileobj=file, mode="r:")  # noqa: SIM115
            self.infos = self._list(end)
            file.seek(self._archive.offset)
            ending = file.read(_BLOCK_BYTES)
        except _BROKEN as error:
            raise DamagedCheckpoint(
                f"the tar archive cannot be read: {error}", path=path
            ) from error

        # The standard library takes a header that it cannot read for the end.
        if ending.strip(b"\0") or not ending:
            raise DamagedCheckpoint(
                f"the tar archive breaks off after {', '.join(self.infos)}", path=path
            )

    def _list(self, end: int) -> dict[str, tarfile.TarInfo]:
        infos: dict[str, tarfile.TarInfo] = {}
        count = 0
        before = -1
        while True:
            info = self._archive.next()
            if info is None:
                return infos
            count += 1
            # A header of negative size would send the reader back for ever.
            if self._archive.offset <= before or info.size < 0 or count > MAX_MEMBERS:
                raise self._hostile("the members of the archive have no end", info.name)
            before = self._archive.offset
            if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or info.issparse():
                raise self._hostile("it is no regular file", info.name)
            if info.offset_data + info.size > end:
                raise DamagedCheckpoint(
                    f"it promises {info.size} bytes, and the file ends after "
                    f"{max(end - info.offset_data, 0)} of them",
                    path=self._path,
                    member=info.name,
                )
            infos[info.name] = info

    def open(self, name: str) -> IO[bytes]:
        """Open a member as a seekable file."""
        file = self._archive.extractfile(self.infos[name])
        if file is None:
            raise self._hostile("it is no regular file", name)
        return file

    def read(self, name: str) -> bytes:
        """Read a member whole."""
        with self.open(name) as member:
            return member.read()

    def _hostile(self, reason: str, name: str) -> HostileCheckpoint:
        return HostileCheckpoint(reason, path=self._path, member=name[:200])
