"""Members of an ordinary zip archive, as numpy and Theano wrote them.

The archives of a checkpoint are read by :mod:`~blocks_checkpoint.archive`,
which knows no compression and more rules. Here the standard library reads,
after the list of members has been looked at.
"""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from ..archive import Damage
from ..archive.byte_source import ByteSource
from ..archive.directory_end import find_end
from ..archive.member_bytes import fault_of_expansion
from ..archive.npy import MAGIC, NpyError, header_length, parse_header
from ..errors import DamagedCheckpoint, HostileCheckpoint
from ..naming import numbered

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]

__all__ = ["ZIP_ERRORS", "ZipMembers"]

#: A byte of deflated data stands for this many bytes at most.
MAX_DEFLATE_RATIO = 1032
_CHUNK_BYTES = 1 << 20
_ENCRYPTED = 1
#: What the standard library raises for archives that are damaged.
ZIP_ERRORS = (
    EOFError,
    IndexError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    UnicodeError,
    ValueError,
    lzma.LZMAError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


class ZipMembers:
    """Reads arrays and pickles from a zip archive, each when it is asked for.

    Parameters
    ----------
    file : binary file
        Seekable; left open.
    path : str or None
        For messages.
    prefix : str
        For messages: where in the file the archive is.
    may_repeat : bool
        Whether several members may have one name. They are numbered then.

    Attributes
    ----------
    infos : dict of str to zipfile.ZipInfo
        By the name of the member.

    Raises
    ------
    DamagedCheckpoint
        The list of members cannot be read.
    HostileCheckpoint
        No writer made this list.
    """

    def __init__(
        self, file: BinaryIO, path: str | None, prefix: str = "", *, may_repeat: bool = False
    ) -> None:
        self._path = path
        self._prefix = prefix
        try:
            self._archive = zipfile.ZipFile(file)
        except ZIP_ERRORS as error:
            raise DamagedCheckpoint(
                f"the zip archive cannot be opened: {error}", path=path, member=prefix or None
            ) from error
        infos = self._archive.infolist()
        # The standard library does not compare; a length that is wrong in one
        # entry makes it pass over those behind.
        listed = find_end(ByteSource(file)).entries
        if listed != len(infos):
            raise self._hostile(
                f"the directory of the archive says it lists {listed} members, and lists "
                f"{len(infos)}",
                "directory",
            )
        names = [info.filename for info in infos]
        if len(set(names)) != len(names) and not may_repeat:
            raise self._hostile("two members of the archive have one name", None)
        self.infos = dict(zip(numbered(names), infos))
        self._refuse_what_nobody_wrote()

    def _refuse_what_nobody_wrote(self) -> None:
        infos = self._archive.infolist()
        end = 0
        for info in sorted(infos, key=lambda info: info.header_offset):
            name = info.filename
            if info.flag_bits & _ENCRYPTED:
                raise self._hostile("it is encrypted", name)
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise self._hostile("it is compressed in a way that Blocks never used", name)
            ratio = MAX_DEFLATE_RATIO if info.compress_type == zipfile.ZIP_DEFLATED else 1
            if info.file_size > ratio * info.compress_size:
                raise self._hostile(
                    f"it promises {info.file_size} bytes out of {info.compress_size}", name
                )
            if info.header_offset < end:
                raise self._hostile("it overlaps another member", name)
            end = info.header_offset + info.compress_size

    def is_array(self, name: str) -> bool:
        """Tell whether a member begins as an array does."""
        try:
            with self._archive.open(self.infos[name]) as member:
                return member.read(len(MAGIC)) == MAGIC
        except ZIP_ERRORS:
            return False

    def header(self, name: str) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
        """Return dtype, shape and Fortran order of an array."""
        with self._opened(name) as member:
            return self._header(member, name)[:3]

    def _header(self, member: Any, name: str) -> tuple[np.dtype[Any], tuple[int, ...], bool, int]:
        start = member.read(12)
        length = header_length(start)
        dtype, shape, fortran_order, nbytes = parse_header(start + member.read(length - len(start)))
        held = self.infos[name].file_size - length
        if held != nbytes:
            raise NpyError(f"its header promises {nbytes} bytes of data, and it holds {held}")
        return dtype, shape, fortran_order, nbytes

    def read_array(self, name: str) -> Array:
        """Read an array; the standard library checks its CRC-32."""
        with self._opened(name) as member:
            dtype, shape, fortran_order, nbytes = self._header(member, name)
            array = np.empty(shape, dtype, "F" if fortran_order else "C")
            octets = array.reshape(-1, order="A").view(np.uint8) if nbytes else array
            done = 0
            for chunk in _chunks(member):
                octets[done : done + len(chunk)] = np.frombuffer(chunk, np.uint8)
                done += len(chunk)
            if done != nbytes:
                raise EOFError(f"it ends after {done} bytes of {nbytes}")
        return array

    def read(self, name: str) -> bytes:
        """Read a member that is no array."""
        info = self.infos[name]
        fault = fault_of_expansion(info.file_size, info.compress_size)
        if fault:
            raise self._hostile(fault, name)
        with self._opened(name) as member:
            return b"".join(_chunks(member))

    def verify(self, count: Callable[[int], object]) -> Iterator[Damage]:
        """Yield what is wrong; call ``count`` with bytes done."""
        for name, info in self.infos.items():
            try:
                if self.is_array(name):
                    self.header(name)
                with self._opened(name) as member:
                    for chunk in _chunks(member):
                        count(len(chunk))
            except DamagedCheckpoint as error:
                count(info.file_size)
                yield Damage(error.member or name, error.message)

    def _opened(self, name: str) -> _Opened:
        return _Opened(self._archive, self.infos[name], self._path, self._prefix)

    def _hostile(self, reason: str, name: str | None) -> HostileCheckpoint:
        member = self._prefix + (name or "")
        return HostileCheckpoint(reason, path=self._path, member=member or None)


def _chunks(member: Any) -> Iterator[bytes]:
    return iter(lambda: member.read(_CHUNK_BYTES), b"")


class _Opened:
    """A member that is being read; what goes wrong says where."""

    def __init__(
        self, archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str | None, prefix: str
    ) -> None:
        self._archive = archive
        self._info = info
        self._path = path
        self._prefix = prefix
        self._member: Any = None

    def __enter__(self) -> Any:
        try:
            self._member = self._archive.open(self._info)
        except ZIP_ERRORS as error:
            raise self._damaged(error) from error
        return self._member

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        self._member.close()
        if isinstance(error, ZIP_ERRORS):
            raise self._damaged(error) from error

    def _damaged(self, error: BaseException) -> DamagedCheckpoint:
        return DamagedCheckpoint(
            f"it cannot be read: {error}",
            path=self._path,
            member=self._prefix + self._info.filename,
        )
