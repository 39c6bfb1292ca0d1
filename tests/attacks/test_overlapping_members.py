"""Members that share bytes: a small file that unpacks to a huge one, or is read in two ways."""

import io

import pytest
from forged import Entry, archive

from blocks_checkpoint.archive import ArchiveReader
from blocks_checkpoint.errors import HostileCheckpoint


def test_two_entries_for_one_place_are_refused():
    content = archive(Entry("a", b"xx"), Entry("b", b"xx", offset=0))
    with pytest.raises(HostileCheckpoint, match="two members begin at one place"):
        ArchiveReader(io.BytesIO(content))


def test_member_that_reaches_into_the_next_is_refused():
    longer = {"size": 60, "stored": 60}
    content = archive(Entry("a", b"x" * 40, local=longer, central=longer), Entry("b", b"y"))
    with pytest.raises(HostileCheckpoint, match="it overlaps what follows it") as caught:
        ArchiveReader(io.BytesIO(content))
    assert caught.value.member == "a"


def test_member_that_reaches_into_the_directory_is_refused():
    longer = {"size": 60, "stored": 60}
    content = archive(Entry("a", b"x" * 40, local=longer, central=longer))
    with pytest.raises(HostileCheckpoint, match="it overlaps what follows it"):
        ArchiveReader(io.BytesIO(content))


def test_member_that_a_long_local_header_pushes_over_the_next_is_refused_when_read():
    content = archive(Entry("a", b"x" * 40, local={"extra_length": 20}), Entry("b", b"y"))
    with ArchiveReader(io.BytesIO(content)) as reader:
        with pytest.raises(HostileCheckpoint, match="it overlaps what follows it"):
            reader.read("a")
        assert [damage.member for damage in reader.verify()] == ["a"]
        assert reader.read("b") == b"y"


@pytest.mark.parametrize("offset", [1, 5, 1000, 0xFFFFFFFE])
def test_marked_archive_with_an_entry_elsewhere_is_refused(offset):
    content = archive(Entry("a", b"xx"), Entry("b", b"yy", offset=offset), marked=True)
    with pytest.raises(HostileCheckpoint, match="does not begin where the member before it ends"):
        ArchiveReader(io.BytesIO(content))
