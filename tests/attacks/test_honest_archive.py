"""No attack: the forge's own archives are good until something in them is changed."""

import io

import pytest
from forged import Entry, archive, deflated, npy

from blocks_checkpoint.archive import ArchiveReader, ArchiveWriter


@pytest.mark.parametrize("marked", [False, True])
def test_forged_archive_is_good_before_anything_is_changed(marked):
    names = ["log", "é.bin", "pkl"]
    content = archive(*(Entry(name, name.encode()) for name in names), marked=marked)
    with ArchiveReader(io.BytesIO(content)) as reader:
        assert reader.verify() == []
        assert [reader.read(name).decode() for name in reader.members] == names


def test_forged_archive_with_the_mark_is_byte_for_byte_ours():
    file = io.BytesIO()
    with ArchiveWriter(file) as writer:
        writer.add_bytes("log", b"a log")
    forged = archive(Entry("log", b"a log", central={"external": 0o100644 << 16}), marked=True)
    assert forged == file.getvalue()


def test_forged_arrays_are_good_before_anything_is_changed():
    content = archive(Entry("W.npy", npy()), Entry("V.npy", npy(), packed=deflated(npy())))
    with ArchiveReader(io.BytesIO(content)) as reader:
        assert reader.verify() == []
        assert reader.read_array("W.npy").tolist() == [0, 0, 0]
        assert reader.read_array("V.npy").tolist() == [0, 0, 0]
