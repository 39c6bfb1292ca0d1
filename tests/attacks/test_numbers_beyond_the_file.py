"""Counts, sizes and places that promise more than the file holds."""

import io

import pytest
from forged import Entry, archive, memory_within

from blocks_checkpoint.archive import ArchiveReader
from blocks_checkpoint.errors import HostileCheckpoint, LoadError


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ({"size": 0xFFFFFFFE}, "which the file lacks"),
        ({"offset": 0xFFFFFFFE}, "which the file lacks"),
        ({"here": 0xFFFE, "count": 0xFFFE}, "65534 members are listed in"),
        ({"size": 0, "offset": 0}, "belong to neither"),
    ],
)
def test_end_of_the_directory_is_refused(end, reason, marked):
    content = archive(Entry("log", b"x"), end=end, marked=marked)
    with memory_within(1 << 20), pytest.raises(LoadError, match=reason) as caught:
        ArchiveReader(io.BytesIO(content))
    assert caught.value.member == "directory"


@pytest.mark.parametrize("count", [0, 1, 3])
def test_directory_of_fewer_or_more_members_than_it_says_is_refused(count):
    content = archive(
        Entry("a", b"x" * 50), Entry("b" * 60, b"y"), end={"here": count, "count": count}
    )
    with pytest.raises(HostileCheckpoint, match="members"):
        ArchiveReader(io.BytesIO(content))


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize(
    "field", ["name_length", "extra_length", "comment_length", "size", "stored", "offset"]
)
def test_entry_with_a_number_too_large_is_refused(field, marked):
    content = archive(Entry("log", b"x", central={field: 0xFFFF}), marked=marked)
    with (
        memory_within(1 << 20),
        pytest.raises(HostileCheckpoint),
        ArchiveReader(io.BytesIO(content)) as reader,
    ):
        reader.read("log")


@pytest.mark.parametrize("field", ["name_length", "extra_length"])
def test_local_header_with_a_length_too_large_is_refused(field):
    content = archive(Entry("log", b"x", local={field: 0xFFFF}))
    with ArchiveReader(io.BytesIO(content)) as reader, pytest.raises(LoadError):
        reader.read("log")


def test_sizes_of_many_gigabytes_take_no_memory():
    huge = {"size": 0xFFFFFFF0, "stored": 0xFFFFFFF0}
    content = archive(Entry("log", b"x", local=huge, central=huge))
    with memory_within(1 << 20), pytest.raises(HostileCheckpoint, match="overlaps"):
        ArchiveReader(io.BytesIO(content))
