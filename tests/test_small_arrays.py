"""Many small arrays read together are what each of them is by itself."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocks_checkpoint import DamagedCheckpoint, LoadError
from blocks_checkpoint.archive import ArchiveReader, ArchiveWriter, small_arrays
from blocks_checkpoint.archive import zip_structures as zs
from blocks_checkpoint.archive.columns import Columns, have_their_headers
from blocks_checkpoint.archive.zip_structures import Member

SHAPES = [(3,), (0,), (4, 5), (), (300,), (70_000,)]


def archive(names, *, shape=lambda number: SHAPES[number % len(SHAPES)]):
    file = io.BytesIO()
    with ArchiveWriter(file) as writer:
        for number, name in enumerate(names):
            if number == 5:
                writer.add_bytes("between", b"a pickle between them")
            order = "F" if number % 2 else "C"
            writer.add_array(name, np.full(shape(number), number, "f4", order))
    return file


@pytest.fixture(autouse=True)
def short_batches(monkeypatch):
    """So that a few members make several batches."""
    monkeypatch.setattr(small_arrays, "_BATCH", 3000)


@pytest.mark.parametrize("odd", ["W.npy", "é.npy", "a b.npy"], ids=["plain", "not-ascii", "space"])
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_any_of_them_in_any_order(odd, data):
    names = [*(f"layer_{number}/W.npy" for number in range(11)), odd]
    asked = data.draw(st.lists(st.sampled_from(names)))
    with ArchiveReader(archive(names)) as reader:
        read = reader.read_arrays(asked)
        assert list(read) == list(dict.fromkeys(asked))
        for name, array in read.items():
            alone = reader.read_array(name)
            assert array.tobytes() == alone.tobytes()
            assert (array.shape, array.dtype) == (alone.shape, alone.dtype)
            assert array.flags.f_contiguous == alone.flags.f_contiguous
            assert array.base is None
            assert array.flags.writeable


@pytest.mark.parametrize("order", ["C", "F"])
def test_bytes_between_the_fields_of_a_structure_come_along(order):
    aligned = np.dtype([("flag", "u1"), ("value", "f8")], align=True)
    octets = np.arange(6 * aligned.itemsize, dtype=np.uint8)
    array = np.ndarray((2, 3), aligned, octets, order=order)
    file = io.BytesIO()
    with ArchiveWriter(file) as writer:
        writer.add_arrays([("a.npy", array), ("b.npy", array)])
    with ArchiveReader(file) as reader:
        together = reader.read_arrays(["a.npy", "b.npy"]).values()
        for read in (*together, reader.read_array("a.npy")):
            assert read.dtype == aligned
            assert read.tobytes(order) == array.tobytes(order) == octets.tobytes()


@pytest.mark.parametrize("odd", ["W.npy", "é.npy"], ids=["plain", "not-ascii"])
def test_name_that_is_not_there_is_named(odd):
    with (
        ArchiveReader(archive(["a.npy", odd])) as reader,
        pytest.raises(LoadError, match="no such member") as caught,
    ):
        reader.read_arrays(["a.npy", "gone.npy"])
    assert caught.value.member == "gone.npy"


@pytest.mark.parametrize("odd", ["W.npy", "é.npy"], ids=["plain", "not-ascii"])
def test_every_byte_is_checked_and_the_fault_has_its_place(odd):
    names = ["a.npy", "folder/b.npy", odd, "c.npy"]
    content = archive(names, shape=lambda number: (number,)).getvalue()
    with ArchiveReader(io.BytesIO(content)) as reader:
        members = dict(reader.members)
        end = max(member.data_offset + member.size for member in members.values())
    for place in range(end):
        owner = [name for name, m in members.items() if m.header_offset <= place][-1]
        flipped = content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]
        with ArchiveReader(io.BytesIO(flipped)) as reader, pytest.raises(LoadError) as caught:
            reader.read_arrays(names)
        assert isinstance(caught.value, DamagedCheckpoint), place
        assert caught.value.member == owner, place


def test_what_is_no_array_is_refused_by_its_name():
    with (
        ArchiveReader(archive([f"{number}.npy" for number in range(7)])) as reader,
        pytest.raises(LoadError, match="not an array") as caught,
    ):
        reader.read_arrays(["0.npy", "between", "1.npy"])
    assert caught.value.member == "between"


@settings(max_examples=200, deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from(["a.npy", "folder/b.npy", "é.npy", "log"]),
            st.integers(0, zs.LIMIT32),
            st.integers(0, 500),
        ),
        min_size=1,
        max_size=5,
    ),
    data=st.data(),
)
def test_local_headers_are_compared_in_every_bit(rows, data):
    members, raw = [], b""
    for name, crc, size in rows:
        header = zs.local_header(name.encode(), zs.STORED, crc, size, size, len(raw))
        begin = len(raw) + len(header)
        members.append(Member(name, len(raw), begin, size, size, crc, None))
        raw += header + bytes(size)
    columns = Columns.of(members)
    assert have_their_headers(columns, raw)
    member = data.draw(st.sampled_from(members))
    place = data.draw(st.integers(member.header_offset, member.data_offset - 1))
    flipped = raw[place] ^ 1 << data.draw(st.integers(0, 7))
    assert not have_their_headers(columns, raw[:place] + bytes([flipped]) + raw[place + 1 :])


@settings(deadline=None)
@given(
    places=st.lists(
        st.tuples(st.integers(0, 50), st.integers(1, 20), st.integers(0, 30)), max_size=8
    ),
    limit=st.integers(1, 100),
    order=st.randoms(),
)
def test_runs_of_neighbours_are_whole_bounded_and_without_gaps(places, limit, order):
    members, end = [], 0
    for number, (gap, header, size) in enumerate(places):
        begin = end + (gap if gap > 25 else 0)
        members.append(Member(str(number), begin, begin + header, size, size, 0, None))
        end = begin + header + size
    mixed = list(members)
    order.shuffle(mixed)
    runs = list(Columns.of(mixed).neighbours(limit))
    assert [name for run in runs for name in run.names] == [member.name for member in members]
    for run in runs:
        ends = run.data_offsets + run.sizes
        assert (run.header_offsets[1:] == ends[:-1]).all()
        assert len(run.names) == 1 or ends[-1] - run.header_offsets[0] <= limit
