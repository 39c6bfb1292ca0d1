"""A local header that disagrees with the directory: one reader sees this, the other that."""

import io
import struct
import zlib

import pytest
from forged import Entry, archive

from blocks_checkpoint.archive import ArchiveReader
from blocks_checkpoint.errors import DamagedCheckpoint, HostileCheckpoint


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"flags": 0x800}, "flags"),
        ({"method": 8}, "method"),
        ({"crc": 1}, "CRC-32"),
        ({"size": 4}, "size"),
        ({"stored": 4}, "compressed size"),
        ({"size": 0}, "size"),
    ],
)
def test_disagreement_is_refused_when_the_member_is_read(change, what):
    content = archive(Entry("log", b"a log", local=change), Entry("pkl", b"good"))
    with ArchiveReader(io.BytesIO(content)) as reader:
        with pytest.raises(HostileCheckpoint, match=f"disagree about its {what}"):
            reader.read("log")
        assert [damage.member for damage in reader.verify()] == ["log"]
        assert reader.read("pkl") == b"good"


@pytest.mark.parametrize("local_name", [b"gol", b"log2", b"../x"])
def test_another_name_is_refused(local_name):
    content = archive(Entry("log", b"a log", local_name=local_name))
    with (
        ArchiveReader(io.BytesIO(content)) as reader,
        pytest.raises(HostileCheckpoint, match="disagree about its name"),
    ):
        reader.read("log")


def test_place_without_a_local_header_is_damage():
    content = archive(Entry("log", b"a log", local={"signature": b"PK\x01\x02"}))
    with (
        ArchiveReader(io.BytesIO(content)) as reader,
        pytest.raises(DamagedCheckpoint, match="no local header"),
    ):
        reader.read("log")


@pytest.mark.parametrize("change", [{"flags": 8}, {"crc": 1}, {"date": 0x22}, {"needed": 10}])
def test_marked_archive_has_one_local_header_only(change):
    content = archive(Entry("log", b"a log", local=change), marked=True)
    with (
        ArchiveReader(io.BytesIO(content)) as reader,
        pytest.raises(DamagedCheckpoint, match="local header is not what the directory says"),
    ):
        reader.read("log")


def test_descriptor_that_disagrees_is_told_by_verify():
    changes = {"flags": 8}
    open_local = {"flags": 8, "crc": 0, "size": 0, "stored": 0}
    right = b"PK\x07\x08" + struct.pack("<3I", zlib.crc32(b"a log"), 5, 5)
    for after, wrong in (
        (right, []),
        (right[4:], []),
        (right[:-1] + b"x", ["log"]),
        (b"", ["log"]),
    ):
        entry = Entry("log", b"a log", local=open_local, central=changes, after=after)
        with ArchiveReader(io.BytesIO(archive(entry))) as reader:
            assert reader.read("log") == b"a log"
            assert [damage.member for damage in reader.verify()] == wrong
