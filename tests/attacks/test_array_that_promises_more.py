"""An array whose shape promises more, or other, than its member holds."""

import io

import pytest
from forged import Entry, archive, deflated, memory_within, npy

from blocks_checkpoint.archive import ArchiveReader
from blocks_checkpoint.errors import HostileCheckpoint


@pytest.mark.parametrize("is_packed", [False, True], ids=["stored", "deflated"])
@pytest.mark.parametrize(
    ("shape", "data", "reason"),
    [
        ("(1000000000,)", bytes(12), "promises 4000000000 bytes of data, and there are 12"),
        ("(3,)", bytes(11), "promises 12 bytes of data, and there are 11"),
        ("(3,)", bytes(13), "promises 12 bytes of data, and there are 13"),
        ("()", b"", "promises 4 bytes of data, and there are 0"),
        ("(0, 3)", bytes(12), "promises 0 bytes of data, and there are 12"),
        (f"({1 << 62}, 4)", bytes(12), "impossible"),
        (f"({1 << 63}, {1 << 63}, 0)", b"", "impossible"),
        (f"({1 << 64},)", b"", "impossible"),
        ("(-1,)", bytes(12), "not understood"),
    ],
)
def test_shape_is_refused_before_memory_is_taken(shape, data, reason, is_packed):
    member = npy(shape=shape, data=data)
    content = archive(Entry("W.npy", member, packed=deflated(member) if is_packed else None))
    with ArchiveReader(io.BytesIO(content)) as reader, memory_within(2 << 20):
        for read in (
            reader.read_array,
            reader.array_header,
            reader.map_array,
            lambda name: reader.read_arrays([name]),
        ):
            with pytest.raises(HostileCheckpoint, match=reason) as caught:
                read("W.npy")
            assert caught.value.member == "W.npy"
        assert [damage.member for damage in reader.verify()] == ["W.npy"]


def test_items_without_bytes_are_not_counted_without_end():
    member = npy(descr="'|V0'", shape=f"({1 << 40},)", data=b"")
    content = archive(Entry("W.npy", member))
    with (
        ArchiveReader(io.BytesIO(content)) as reader,
        pytest.raises(HostileCheckpoint, match="items of no bytes"),
    ):
        reader.read_array("W.npy")


def test_large_array_is_not_allocated_before_its_size_is_known():
    member = npy(shape="(10000000000,)", data=bytes(300_000))
    content = archive(Entry("W.npy", member))
    with (
        ArchiveReader(io.BytesIO(content)) as reader,
        memory_within(2 << 20),
        pytest.raises(HostileCheckpoint, match="promises"),
    ):
        reader.read_array("W.npy")
