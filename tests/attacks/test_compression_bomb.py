"""A few bytes that decompress to far more than the file has, or than they declare."""

import io
import pickle

import pytest
from forged import Entry, archive, deflated, memory_within, npy

from blocks_checkpoint.archive import ArchiveReader
from blocks_checkpoint.errors import DamagedCheckpoint, HostileCheckpoint


def test_sizes_that_deflate_cannot_reach_are_refused_on_opening():
    huge = {"size": 1 << 30}
    entry = Entry("W.npy", b"", packed=b"x" * 1000, local=huge, central=huge)
    with pytest.raises(HostileCheckpoint, match="1000 bytes cannot be 1073741824 bytes"):
        ArchiveReader(io.BytesIO(archive(entry)))


def test_members_that_are_large_in_all_are_refused_on_opening():
    huge = {"size": 100 << 20}
    entries = [
        Entry(f"{n}.npy", b"", packed=bytes(110_000), local=huge, central=huge) for n in range(3)
    ]
    with memory_within(8 << 20):
        with ArchiveReader(io.BytesIO(archive(*entries[:2]))) as reader:
            assert len(reader.members) == 2
        with pytest.raises(HostileCheckpoint, match="330000 bytes claim to hold 314572800"):
            ArchiveReader(io.BytesIO(archive(*entries)))


def test_member_that_holds_more_than_it_declares_is_cut_short():
    packed = deflated(bytes(30 << 20))
    entry = Entry("log", bytes(40_000), packed=packed)
    content = archive(entry)
    with (
        ArchiveReader(io.BytesIO(content)) as reader,
        memory_within(2 << 20),
        pytest.raises(HostileCheckpoint, match="more than the 40000 bytes it declares"),
    ):
        reader.read("log")


def test_array_that_holds_more_than_it_declares_is_cut_short():
    whole = npy(shape="(1000000,)", data=bytes(4_000_000))
    entry = Entry("W.npy", npy(), packed=deflated(whole))
    content = archive(entry)
    with (
        ArchiveReader(io.BytesIO(content)) as reader,
        memory_within(2 << 20),
        pytest.raises(HostileCheckpoint),
    ):
        reader.read_array("W.npy")


@pytest.mark.parametrize(
    ("packed", "error", "reason"),
    [
        (deflated(b"a log")[:-1], DamagedCheckpoint, "not 5"),
        (deflated(b"a lo"), DamagedCheckpoint, "it holds 4 bytes, not 5"),
        (deflated(b"a log") + b"hidden", HostileCheckpoint, "bytes after the end"),
        (deflated(b"a log!"), HostileCheckpoint, "more than the 5 bytes"),
        (b"\xff\xff\xff\xff", DamagedCheckpoint, "cannot be decompressed"),
        (deflated(b"a lag"), DamagedCheckpoint, "CRC-32"),
    ],
)
def test_compressed_data_that_are_not_the_member_are_refused(packed, error, reason):
    entry = Entry("log", b"a log", packed=packed)
    content = archive(entry)
    with ArchiveReader(io.BytesIO(content)) as reader, pytest.raises(error, match=reason):
        reader.read("log")


@pytest.mark.parametrize("name", ["checkpoint.json", "log"])
def test_what_is_parsed_is_believed_less(name):
    entry = Entry(name, bytes(5 << 20), packed=deflated(bytes(5 << 20)))
    content = archive(entry)
    with (
        ArchiveReader(io.BytesIO(content)) as reader,
        memory_within(1 << 20),
        pytest.raises(HostileCheckpoint, match="bytes claim to hold 5242880 bytes compressed"),
    ):
        reader.read(name)


def test_pickles_as_they_are_may_be_compressed():
    log = pickle.dumps([{"cost": 0.5, "epoch": number} for number in range(500_000)])
    assert len(log) > 4 << 20
    with ArchiveReader(io.BytesIO(archive(Entry("log", log, packed=deflated(log))))) as reader:
        assert reader.read("log") == log
