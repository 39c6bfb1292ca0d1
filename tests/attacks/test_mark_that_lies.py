"""An archive with our mark whose sum is wrong, whose version is new, or that is not like ours."""

import io

import pytest
from forged import Entry, archive

from blocks_checkpoint.archive import ArchiveReader
from blocks_checkpoint.errors import DamagedCheckpoint, HostileCheckpoint, UnsupportedFormat


def test_wrong_sum_is_damage_of_the_directory():
    content = archive(Entry("log", b"x"), marked=True)
    lying = content[:-8] + b"%08x" % (int(content[-8:], 16) ^ 1)
    with pytest.raises(DamagedCheckpoint, match="does not have the CRC-32 noted") as caught:
        ArchiveReader(io.BytesIO(lying))
    assert caught.value.member == "directory"


@pytest.mark.parametrize("version", [b"0", b"2", b"9"])
def test_other_version_is_refused_by_its_number(version):
    content = archive(Entry("log", b"x"), marked=True)
    newer = content.replace(b"blocks_checkpoint 1", b"blocks_checkpoint " + version)
    with pytest.raises(UnsupportedFormat, match=f"version {version.decode()}"):
        ArchiveReader(io.BytesIO(newer))


def test_damaged_mark_is_not_taken_for_a_comment():
    content = archive(Entry("log", b"x"), marked=True)
    for damaged in (content.replace(b"crc32", b"crc23"), content[:-34] + bytes(34)):
        with pytest.raises(DamagedCheckpoint, match="mark at the end of the file is damaged"):
            ArchiveReader(io.BytesIO(damaged))


def test_folder_entries_are_not_ours():
    with pytest.raises(HostileCheckpoint, match="not allowed"):
        ArchiveReader(io.BytesIO(archive(Entry("folder/"), marked=True)))


def test_name_of_another_encoding_is_not_ours():
    entry = Entry(b"\xe9", b"x", local={"flags": 0}, central={"flags": 0})
    with pytest.raises(HostileCheckpoint, match="lacks the mark of UTF-8"):
        ArchiveReader(io.BytesIO(archive(entry, marked=True)))


def test_gap_before_the_directory_is_not_ours():
    content = archive(Entry("log", b"x", after=b"hidden"), marked=True)
    with pytest.raises(HostileCheckpoint, match="do not end where the directory begins"):
        ArchiveReader(io.BytesIO(content))
