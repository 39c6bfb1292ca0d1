"""An NPY header that is a program, or nests until a parser falls over."""

import io
import os

import pytest
from forged import Entry, archive, memory_within, npy

from blocks_checkpoint.archive import ArchiveReader
from blocks_checkpoint.errors import HostileCheckpoint


@pytest.mark.parametrize(
    "header",
    [
        "__import__('os').system('touch canary')",
        "{'descr': __import__('os').system('touch canary'), 'fortran_order': False, 'shape': ()}",
        "{**{'descr': '<f4'}, 'fortran_order': False, 'shape': (3,)}",
        "[x for x in ()]",
        "lambda: 0",
        "f'{1}'",
        "(" * 4000,
        "[" * 4000 + "]" * 4000,
        "{'a':" * 1000,
        "-" * 4000 + "1",
        "'" + "\\\\" * 2000,
        "9" * 4000,
        "1" + ",1" * 4000,
        "",
    ],
    ids=range(14),
)
def test_header_is_refused_without_being_run(tmp_path, monkeypatch, header):
    monkeypatch.chdir(tmp_path)
    content = archive(Entry("W.npy", npy(header=header)))
    with (
        ArchiveReader(io.BytesIO(content)) as reader,
        memory_within(4 << 20),
        pytest.raises(HostileCheckpoint, match="NPY header"),
    ):
        reader.read_array("W.npy")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "start",
    [
        b"\x93NUMPY\x01\x00\xff\xff",
        b"\x93NUMPY\x02\x00\xff\xff\xff\x7f",
        b"\x93NUMPY\x03\x00\x10\x00\x00\x00",
        b"\x93NUMPY",
        b"\x93NUMPY\x01",
        b"",
        b"not an array at all",
        b"\x93NUMPY\xff\xff\x00\x00\x00\x00",
    ],
    ids=range(8),
)
def test_header_that_is_cut_off_or_longer_than_its_member_is_refused(start):
    for data in (start, start + bytes(300_000)):
        with ArchiveReader(io.BytesIO(archive(Entry("W.npy", data)))) as reader:
            for read in (reader.read_array, reader.array_header, reader.map_array):
                with pytest.raises(HostileCheckpoint, match="not an array"):
                    read("W.npy")
