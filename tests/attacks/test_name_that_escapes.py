"""A name that leads out of the folder an archive is unpacked into, on this system or another."""

import io
import struct
import zlib

import pytest
from forged import Entry, archive

from blocks_checkpoint.archive import ArchiveReader
from blocks_checkpoint.errors import HostileCheckpoint


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("/etc/passwd", "absolute"),
        ("../../.ssh/authorized_keys", "'..'"),
        ("a/../../b", "'..'"),
        ("./log", "'.'"),
        ("a//b", "empty"),
        ("..\\evil", "backslash"),
        ("C:/Windows/system.ini", "drive letter"),
        ("c:evil", "drive letter"),
        ("log\n.txt", "control character"),
        ("log\x00.txt", "control character"),
        ("\x1b[2Jlog", "control character"),
        ("a\x9bb", "control character"),
        ("", "empty"),
    ],
)
def test_name_is_refused_on_opening(name, fault, marked):
    content = archive(Entry("good", b""), Entry(name, b"x"), marked=marked)
    with pytest.raises(HostileCheckpoint, match=f"not allowed: .*{fault}") as caught:
        ArchiveReader(io.BytesIO(content))
    assert caught.value.member == name


@pytest.mark.parametrize("name", ["../", "/", "a/../", "a\\b/"])
def test_name_of_a_folder_is_refused_as_well(name):
    with pytest.raises(HostileCheckpoint, match="not allowed"):
        ArchiveReader(io.BytesIO(archive(Entry(name))))


def test_name_that_is_not_the_utf8_it_says_is_refused():
    entry = Entry(b"\xff\xfe.npy", b"x")
    with pytest.raises(HostileCheckpoint, match="said to be UTF-8 and is not"):
        ArchiveReader(io.BytesIO(archive(entry)))


def test_name_hidden_in_a_unicode_field_is_checked_like_any_other():
    raw, true = b"\xe9", b"../evil"
    field = struct.pack("<2HBI", 0x7075, 5 + len(true), 1, zlib.crc32(raw)) + true
    entry = Entry(raw, b"x", local={"flags": 0}, central={"flags": 0}, central_extra=field)
    with pytest.raises(HostileCheckpoint, match=r"not allowed: .*'\.\.'"):
        ArchiveReader(io.BytesIO(archive(entry)))
