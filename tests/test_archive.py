"""Round trips through the whole container."""

import doctest
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from blocks_checkpoint import archive
from blocks_checkpoint.archive import ArchiveReader, ArchiveWriter
from blocks_checkpoint.archive.member_names import folded
from blocks_checkpoint.errors import LoadError, SaveError

BASE = np.arange(4 * 6 * 8).reshape(4, 6, 8)
LONG = np.tile(np.arange(3000, dtype="f4"), 1000)
STRUCTURED = np.dtype([("x", "<f4"), ("y", ">i8", (2,)), ("t", "<M8[s]"), ("s", "S3")])


@pytest.mark.parametrize(
    "array",
    [
        np.array(3.5),
        np.array(True),
        np.zeros((0,)),
        np.zeros((3, 0, 2)),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        BASE[::2],
        BASE[:, ::-1],
        BASE[1, 2:5, ::3],
        BASE.transpose(2, 0, 1),
        np.broadcast_to(np.arange(5), (3, 5)),
        np.broadcast_to(np.array(2.0), (4, 4)),
        LONG,
        LONG[::-1],
        LONG.reshape(1000, 3000).T,
        LONG.reshape(1000, 3000)[:, 1:],
        np.arange(5, dtype=">f8"),
        np.arange(5, dtype="f2"),
        np.arange(5, dtype=np.longdouble) / 3,
        np.arange(5, dtype=np.clongdouble),
        np.arange(5) * 1j,
        np.array([True, False]),
        np.array(["2020-01-01", "NaT"], "M8[us]"),
        np.array([1, 2], "m8[h]"),
        np.array([b"ab", b"c"]),
        np.array(["é", "日本"]),
        np.frombuffer(b"abcdef", "V3"),
        np.zeros(5, STRUCTURED),
        np.zeros((2, 3), STRUCTURED)[:, ::2],
        np.array([np.nan, -0.0, np.inf]),
        np.arange(6).view(np.recarray),
        np.arange(4.0).reshape(2, 2).view(np.matrix),
    ],
    ids=lambda array: f"{array.dtype.str}-{array.shape}-{array.strides}",
)
@pytest.mark.parametrize("compression", [None, "deflate"])
def test_array_comes_back_bit_for_bit(array, compression):
    file = io.BytesIO()
    with ArchiveWriter(file, compression=compression) as writer:
        writer.add_array("W.npy", array)
    plain = np.asarray(array)
    with ArchiveReader(file) as reader:
        assert reader.verify() == []
        for read in (
            reader.read_array("W.npy"),
            reader.read_arrays(["W.npy"])["W.npy"],
            reader.map_array("W.npy"),
        ):
            assert type(read) is np.ndarray
            assert (read.dtype, read.shape) == (plain.dtype, plain.shape)
            assert read.tobytes() == plain.tobytes()
    file.seek(0)
    with np.load(file, allow_pickle=False) as loaded:
        assert loaded["W"].dtype == plain.dtype
        assert loaded["W"].tobytes() == plain.tobytes()
        assert loaded["W"].shape == plain.shape


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4"])
def test_types_that_numpy_does_not_bring_come_back_as_bytes(name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    if not hasattr(ml_dtypes, name):
        pytest.skip(f"this ml_dtypes has no {name}")
    dtype = np.dtype(getattr(ml_dtypes, name))
    for array in (np.arange(6).astype(dtype), np.arange(6).reshape(2, 3).astype(dtype).T):
        file = io.BytesIO()
        with ArchiveWriter(file) as writer:
            writer.add_array("W.npy", array)
        with ArchiveReader(file) as reader:
            read = reader.read_array("W.npy")
            assert read.dtype.kind == "V"
            assert np.array_equal(read.view(dtype), array)
            out = np.zeros(array.shape, dtype)
            assert np.array_equal(reader.read_array("W.npy", out=out), array)
        file.seek(0)
        with np.load(file, allow_pickle=False) as loaded:
            assert np.array_equal(loaded["W"].view(dtype), array)


NAMES = st.text(min_size=1, max_size=40)


@settings(max_examples=50, deadline=None)
@given(
    names=st.lists(NAMES, max_size=8, unique=True),
    compression=st.sampled_from([None, "deflate"]),
    data=st.data(),
)
def test_any_members_come_back_or_are_refused_before_anything_is_written(names, compression, data):
    file = io.BytesIO()
    expected = {}
    with ArchiveWriter(file, compression=compression) as writer:
        for name in names:
            content = data.draw(st.binary(max_size=200))
            try:
                writer.add_bytes(name, content)
            except SaveError:
                continue
            expected[name] = content
    assert len({folded(name) for name in expected}) == len(expected)
    with ArchiveReader(file) as reader:
        assert reader.verify() == []
        assert {name: reader.read(name) for name in reader.members} == expected


DTYPES = st.one_of(
    hnp.scalar_dtypes(),
    hnp.byte_string_dtypes(max_len=5),
    hnp.unicode_string_dtypes(max_len=5),
    hnp.array_dtypes(max_size=4),
)


@settings(max_examples=60, deadline=None)
@given(
    array=DTYPES.flatmap(
        lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0))
    ),
    data=st.data(),
)
def test_any_array_however_it_lies_in_memory_comes_back(array, data):
    axes = data.draw(st.permutations(range(array.ndim)))
    array = array.transpose(axes)
    array = array[data.draw(hnp.basic_indices(array.shape))]
    array = np.asarray(array)
    file = io.BytesIO()
    with ArchiveWriter(file) as writer:
        member = writer.add_array("W.npy", array)
        assert (member.data_offset + member.size - array.nbytes) % 64 == 0
    with ArchiveReader(file) as reader:
        read = reader.read_array("W.npy")
    assert (read.dtype, read.shape) == (array.dtype, array.shape)
    assert read.tobytes() == array.tobytes()


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_change_of_any_bytes_is_a_load_error_or_changes_no_value(data):
    file = io.BytesIO()
    with ArchiveWriter(file) as writer:
        writer.add_bytes("log", b"a log")
        writer.add_array("W.npy", np.arange(5.0))
    content = bytearray(file.getvalue())
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(content) - 1))
        piece = data.draw(st.binary(min_size=1, max_size=8))
        content[position : position + len(piece)] = piece
    try:
        with ArchiveReader(io.BytesIO(bytes(content))) as reader:
            reader.verify()
            assert reader.read("log") == b"a log"
            assert reader.read_array("W.npy").tolist() == [0, 1, 2, 3, 4]
    except LoadError:
        pass


def test_example_of_the_documentation_runs():
    assert doctest.testmod(archive).failed == 0
