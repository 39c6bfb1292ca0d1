import os
import subprocess
import sys
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocks_checkpoint.archive import crc


@pytest.mark.parametrize("length", [0, 1, 63, 64, 4096, 100_003])
def test_sum_is_that_of_zlib(length):
    data = os.urandom(length)
    assert crc.crc32(data) == zlib.crc32(data)
    assert crc.crc32(memoryview(data), 12345) == zlib.crc32(data, 12345)


@pytest.mark.parametrize("combine", [crc.combine, crc._combine], ids=["library", "python"])
@settings(max_examples=25, deadline=None)
@given(first=st.binary(max_size=200), second=st.binary(max_size=5000))
def test_combined_sum_is_that_of_the_whole(combine, first, second):
    expected = zlib.crc32(first + second)
    assert combine(zlib.crc32(first), zlib.crc32(second), len(second)) == expected


def test_python_combines_lengths_past_32_bits_as_the_library_does():
    fast = pytest.importorskip("zlib_ng.zlib_ng")
    length = (5 << 30) + 3
    assert crc._combine(123, 456, length) == fast.crc32_combine(123, 456, length)


@pytest.mark.parametrize(
    ("missing", "library"),
    [((), "zlib-ng"), (("zlib_ng",), "isal"), (("zlib_ng", "isal"), "zlib")],
    ids=["all-there", "without-zlib-ng", "without-both"],
)
def test_next_best_library_is_used_and_reads_the_same_archive(missing, library):
    pytest.importorskip("zlib_ng")
    pytest.importorskip("isal")
    program = f"""
import sys, io
for name in {missing!r}:
    sys.modules[name] = None
import numpy
from blocks_checkpoint.archive import crc
from blocks_checkpoint.archive import ArchiveReader, ArchiveWriter
assert crc.LIBRARY == {library!r}, crc.LIBRARY
file = io.BytesIO()
with ArchiveWriter(file) as writer:
    writer.add_array("W.npy", numpy.arange(1_500_000))
with ArchiveReader(file) as reader:
    assert reader.read_array("W.npy").sum() == sum(range(1_500_000))
    assert not reader.verify()
"""
    subprocess.run([sys.executable, "-c", program], check=True)
