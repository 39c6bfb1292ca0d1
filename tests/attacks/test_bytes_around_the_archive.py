"""Bytes before, behind or inside the archive that hide another one."""

import io

import pytest
from forged import Entry, archive

from blocks_checkpoint.archive import ArchiveReader
from blocks_checkpoint.errors import DamagedCheckpoint, HostileCheckpoint, NotACheckpoint


def test_bytes_before_the_archive_are_refused():
    content = archive(Entry("log", b"x"), prefix=b"#!/bin/sh\n")
    with pytest.raises(HostileCheckpoint, match="10 bytes before the first member"):
        ArchiveReader(io.BytesIO(content))


def test_archive_behind_other_bytes_is_refused():
    content = b"#!/bin/sh\n" + archive(Entry("log", b"x"))
    with pytest.raises(HostileCheckpoint, match="10 bytes that belong to neither"):
        ArchiveReader(io.BytesIO(content))


def test_two_archives_one_after_the_other_are_refused():
    content = archive(Entry("log", b"one")) + archive(Entry("log", b"two"))
    with pytest.raises(HostileCheckpoint, match="belong to neither, or before the archive"):
        ArchiveReader(io.BytesIO(content))


def test_archive_in_the_comment_of_another_is_refused():
    inner = archive(Entry("log", b"inner"))
    content = archive(Entry("log", b"outer"), comment=inner)
    with pytest.raises(HostileCheckpoint, match="ends in more than one way"):
        ArchiveReader(io.BytesIO(content))


def test_bytes_between_directory_and_end_are_refused():
    content = archive(Entry("log", b"x"), before_end=b"hidden")
    with pytest.raises(HostileCheckpoint, match="6 bytes that belong to neither"):
        ArchiveReader(io.BytesIO(content))


@pytest.mark.parametrize("tail", [b"x", bytes(100), b"x" * 70_000])
def test_bytes_behind_the_archive_are_refused(tail):
    content = archive(Entry("log", b"x")) + tail
    with pytest.raises((DamagedCheckpoint, NotACheckpoint)):
        ArchiveReader(io.BytesIO(content))


def test_bytes_between_members_are_told_by_verify():
    content = archive(Entry("log", b"x", after=b"PK\x03\x04 hidden"), Entry("pkl", b"y"))
    with ArchiveReader(io.BytesIO(content)) as reader:
        (damage,) = reader.verify()
    assert damage.member == "log"
    assert "followed by 11 bytes that belong to no member" in damage.reason


def test_much_room_between_members_is_not_even_read():
    content = archive(Entry("log", b"x", after=bytes(100_000)), Entry("pkl", b"y"))
    with ArchiveReader(io.BytesIO(content)) as reader:
        assert [damage.member for damage in reader.verify()] == ["log"]


def test_directory_of_nothing_behind_something_is_refused():
    content = archive(prefix=b"something", end={"offset": 9})
    with pytest.raises(HostileCheckpoint, match="9 bytes before an empty directory"):
        ArchiveReader(io.BytesIO(content))


@pytest.mark.parametrize("hidden", [b"hidden", bytes(100_000)])
def test_bytes_behind_the_entry_of_a_folder_are_told_by_verify(hidden):
    content = archive(Entry("mlp/", after=hidden), Entry("mlp/log", b"x"))
    with ArchiveReader(io.BytesIO(content)) as reader:
        assert list(reader.members) == ["mlp/log"]
        assert [damage.member for damage in reader.verify()] == ["directory"]
