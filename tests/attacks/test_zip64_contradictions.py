"""ZIP64 records that contradict the short ones, or lead to them in a circle."""

import io
import struct

import pytest
from forged import Entry, archive

from blocks_checkpoint.archive import ArchiveReader
from blocks_checkpoint.errors import HostileCheckpoint

LIMIT = 0xFFFFFFFF


def end64(count=1, size=49, offset=34, length=44, disk=0, disks=1, **locator):
    """Return a ZIP64 end and its locator, for an archive of one member 'log' of one byte."""
    start = 34 + 49
    record64 = struct.pack(
        "<4sQ2H2I4Q", b"PK\x06\x06", length, 45, 45, disk, 0, count, count, size, offset
    )
    place = locator.get("place", start)
    return record64 + struct.pack("<4sIQI", b"PK\x06\x07", 0, place, disks)


def test_zip64_end_is_good_before_anything_is_changed():
    content = archive(Entry("log", b"x"), before_end=end64(), end={"offset": LIMIT})
    with ArchiveReader(io.BytesIO(content)) as reader:
        assert reader.read("log") == b"x"


@pytest.mark.parametrize(
    ("changes", "end", "reason"),
    [
        ({"count": 2}, {}, "one thing in 32 bits and another in 64"),
        ({"offset": 33}, {}, "one thing in 32 bits and another in 64"),
        ({"size": 48}, {}, "one thing in 32 bits and another in 64"),
        ({"offset": 1 << 63}, {"offset": LIMIT}, "which the file lacks"),
        ({"size": 1 << 63}, {"size": LIMIT}, "which the file lacks"),
        ({"count": 1 << 63}, {"here": 0xFFFF, "count": 0xFFFF}, "members are listed in"),
        ({"length": 45}, {}, "ZIP64 record that is none"),
        ({"disk": 1}, {}, "one thing in 32 bits"),
        ({"disks": 2}, {}, "several disks"),
        ({"place": 0}, {}, "not before it"),
        ({"place": 1 << 63}, {}, "not before it"),
    ],
)
def test_contradiction_is_refused(changes, end, reason):
    content = archive(Entry("log", b"x"), before_end=end64(**changes), end=end)
    with pytest.raises(HostileCheckpoint, match=reason):
        ArchiveReader(io.BytesIO(content))


@pytest.mark.parametrize("values", [(), (1 << 62,), (1, 1 << 62)])
@pytest.mark.parametrize("marked", [False, True])
def test_entry_with_huge_or_missing_sizes_is_refused(values, marked):
    extra = struct.pack(f"<2H{len(values)}Q", 1, 8 * len(values), *values)
    central = {"size": LIMIT, "stored": LIMIT}
    content = archive(Entry("log", b"x", central=central, central_extra=extra), marked=marked)
    with pytest.raises(HostileCheckpoint):
        ArchiveReader(io.BytesIO(content))


def test_offset_of_64_bits_beyond_the_file_is_refused():
    extra = struct.pack("<2HQ", 1, 8, 1 << 62)
    content = archive(Entry("log", b"x", central={"offset": LIMIT}, central_extra=extra))
    with pytest.raises(HostileCheckpoint, match="before the first member|overlaps"):
        ArchiveReader(io.BytesIO(content))
