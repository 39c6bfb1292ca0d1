import io
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from blocks_checkpoint.archive import npy

STRUCTURED = np.dtype([("a", "<f4"), ("b", ">i2", (3,)), ("c", [("d", "S5"), ("e", "<M8[us]")])])
DTYPES = [
    "f2 f4 f8 g F D G i1 u8 >f4 >i8 ? S0 S7 U3 V5 M8[ns] m8[D] M8[7D] <M8".split(),
    [STRUCTURED, np.dtype([("é", "f4"), ("日本", "u1")]), np.dtype([])],
    [
        np.dtype({"names": ["x", "y"], "formats": ["u1", "f8"], "offsets": [1, 8]}),
        np.dtype("u1,f8", align=True),
        np.dtype([(("a title", "name"), "i4")]),
    ],
]


def written_by_numpy(array, version=None):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version, allow_pickle=False)
    return file.getvalue()


@pytest.mark.parametrize("dtype", [np.dtype(d) for group in DTYPES for d in group], ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (0, 1 << 40), (2,) * 16])
def test_header_is_read_alike_by_numpy_and_here(dtype, shape):
    header = npy.header_bytes(dtype, shape, False)
    assert len(header) % 64 == 0
    size = math.prod(shape) * dtype.itemsize
    if size or 0 in shape:
        found = np.load(io.BytesIO(header + bytes(size)), allow_pickle=False)
        assert (found.shape, found.dtype) == (shape, dtype)
    if dtype.itemsize or 0 in shape:
        assert npy.parse_header(header) == (dtype, shape, False, size)


@pytest.mark.parametrize("nbytes", [0, 1, 64, 3968, 8192 - 128])
@pytest.mark.parametrize("dtype", ["<f4", np.dtype([("日本", "u1")])], ids=str)
def test_longer_header_says_the_same_to_numpy_and_here(dtype, nbytes):
    header = npy.header_bytes(np.dtype(dtype), (3,), False)
    longer = npy.lengthened(header, nbytes)
    assert len(longer) == len(header) + nbytes == npy.header_length(longer[:12])
    assert npy.parse_header(longer) == npy.parse_header(header)
    found = np.load(io.BytesIO(longer + bytes(12)), allow_pickle=False)
    assert (found.shape, found.dtype) == ((3,), dtype)


def test_header_does_not_become_longer_than_numpy_takes():
    header = npy.header_bytes(np.dtype("f4"), (3,), False)
    assert npy.lengthened(header, 8192 - len(header) + 1) == header


@settings(max_examples=60, deadline=None)
@given(
    dtype=st.one_of(
        hnp.scalar_dtypes(),
        hnp.byte_string_dtypes(),
        hnp.unicode_string_dtypes(),
        hnp.array_dtypes(allow_subarrays=True),
    ),
    shape=hnp.array_shapes(min_dims=0, max_dims=6, min_side=0),
    fortran_order=st.booleans(),
)
def test_what_is_written_is_what_is_read(dtype, shape, fortran_order):
    header = npy.header_bytes(dtype, shape, fortran_order)
    assert npy.header_length(header[:12]) == len(header)
    nbytes = math.prod(shape) * dtype.itemsize
    assert npy.parse_header(header) == (dtype, shape, fortran_order, nbytes)


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0), None])
@pytest.mark.parametrize("dtype", [np.dtype("f4"), STRUCTURED], ids=["simple", "structured"])
def test_header_written_by_numpy_is_read(version, dtype):
    array = np.zeros((2, 3), dtype, order="F")
    whole = written_by_numpy(array, version)
    found = npy.check_member(whole, len(whole))
    assert found[:3] == (dtype, (2, 3), True)
    assert found[3] == len(whole) - array.nbytes


def test_header_of_python_2_with_long_integers_is_read():
    header = b"\x93NUMPY\x01\x00\x46\x00{'descr': '<f4', 'fortran_order': False, 'shape': (3L, 2L)}"
    header = header.ljust(79) + b"\n"
    assert npy.parse_header(header) == (np.dtype("f4"), (3, 2), False, 24)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4"])
def test_types_that_numpy_does_not_bring_become_void(name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    if not hasattr(ml_dtypes, name):
        pytest.skip(f"this ml_dtypes has no {name}")
    dtype = np.dtype(getattr(ml_dtypes, name))
    found = npy.parse_header(npy.header_bytes(dtype, (5,), False))[0]
    assert (found.kind, found.itemsize) == ("V", dtype.itemsize)
    inside = np.dtype([("x", dtype), ("y", "f4")])
    found = npy.parse_header(npy.header_bytes(inside, (5,), False))[0]
    assert (found.names, found.itemsize) == (("x", "y"), inside.itemsize)


@pytest.mark.parametrize("dtype", ["O", [("a", "O")], [("a", [("b", "O")])]], ids=str)
def test_arrays_of_objects_have_no_header(dtype):
    with pytest.raises(npy.NpyError, match="Python objects"):
        npy.header_bytes(np.dtype(dtype), (1,), False)


def test_string_arrays_of_variable_length_have_no_header():
    if not hasattr(np, "dtypes") or not hasattr(np.dtypes, "StringDType"):
        pytest.skip("this numpy has no StringDType")
    with pytest.raises(npy.NpyError):
        npy.header_bytes(np.dtypes.StringDType(), (1,), False)


def test_dtype_of_too_many_fields_is_refused_by_the_writer():
    dtype = np.dtype([(f"field_{n}", "f4") for n in range(4000)])
    with pytest.raises(npy.NpyError, match="too many fields"):
        npy.header_bytes(dtype, (1,), False)


def forged(text, version=1):
    raw = text.encode() if isinstance(text, str) else text
    width = 2 if version == 1 else 4
    return b"\x93NUMPY" + bytes([version, 0]) + len(raw).to_bytes(width, "little") + raw


GOOD = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"


def test_forged_header_is_good_before_anything_is_changed():
    assert npy.parse_header(forged(GOOD))[3] == 12


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not understood"),
        ("{", "not understood"),
        (GOOD[:-1], "not understood"),
        (GOOD + " 1", "goes on after its end"),
        (GOOD.replace("(3,)", "(3,"), "where a value should be"),
        (GOOD.replace("(3,)", "(-3,)"), "not understood"),
        (GOOD.replace("(3,)", "3"), "not a tuple"),
        (GOOD.replace("(3,)", "(True,)"), "not a tuple"),
        (GOOD.replace("(3,)", "(3.0,)"), "not understood"),
        (GOOD.replace("(3,)", "(3 4,)"), "lacks a comma"),
        (GOOD.replace("(3,)", "(" + "9" * 25 + ",)"), "not understood"),
        (GOOD.replace("(3,)", f"({1 << 62}, 4)"), "impossible"),
        (GOOD.replace("(3,)", f"(0, {1 << 62}, 4)"), "impossible"),
        (GOOD.replace("(3,)", "(" + "1, " * 65 + ")"), "impossible"),
        (GOOD.replace("False", "0"), "True or False"),
        (GOOD.replace("False", "None"), "True or False"),
        (GOOD.replace("'shape'", "'shapes'"), "lacks"),
        (GOOD.replace("}", "'x': 1}"), "lacks"),
        (GOOD.replace("}", "'descr': '<f4'}"), "twice"),
        (GOOD.replace("'descr'", "3"), "without names"),
        (GOOD.replace("'<f4'", "'|O'"), "Python objects"),
        (GOOD.replace("'<f4'", "'object'"), "not one that numpy stores"),
        (GOOD.replace("'<f4'", "[('a', '<f4'), ('b', '|O')]"), "Python objects"),
        (GOOD.replace("'<f4'", "[('a', [('b', 'O8')])]"), "Python objects"),
        (GOOD.replace("'<f4'", "'f4,f4'"), "not one that numpy stores"),
        (GOOD.replace("'<f4'", "'<f3'"), "not one that numpy stores"),
        (GOOD.replace("'<f4'", "'<V9999999999'"), "too large"),
        (GOOD.replace("'<f4'", "'<M8[xx]'"), "numpy knows no dtype"),
        (GOOD.replace("'<f4'", "None"), "not one that numpy stores"),
        (GOOD.replace("'<f4'", "{'a': '<f4'}"), "not one that numpy stores"),
        (GOOD.replace("'<f4'", "('<f4', (2,))"), "one of fields"),
        (GOOD.replace("'<f4'", "('<f4', (2, -1))"), "not understood"),
        (GOOD.replace("'<f4'", "[('a', '<f4', (99999999999,))]"), "impossible"),
        (GOOD.replace("'<f4'", "[('a', '<f8', (99999, 99999, 99999))]"), "numpy knows no dtype"),
        (GOOD.replace("'<f4'", "[('a', '<f4'), ('a', '<f4')]"), "numpy knows no dtype"),
        (GOOD.replace("'<f4'", "['<f4']"), "not one that numpy stores"),
        (GOOD.replace("'<f4'", "[(1, '<f4')]"), "no name"),
        (GOOD.replace("'<f4'", "'|V0'").replace("(3,)", f"({1 << 40},)"), "of no bytes"),
        (GOOD.replace("'<f4'", "__import__('os').getcwd()"), "not understood"),
        (GOOD.replace("'<f4'", "'<f' '4'"), "lacks a comma"),
        (GOOD.replace("'<f4'", "'<f' + '4'"), "not understood"),
        (GOOD.replace("'<f4'", "u'<f4'"), "not understood"),
        (GOOD.replace("'<f4'", "'<f4\\q'"), "escape"),
        (GOOD.replace("'<f4'", "'\\Uffffffff'"), "beyond Unicode"),
        (GOOD.replace("(3,)", "(" * 5000), "nests deeper"),
        (GOOD.replace("'<f4'", "[" * 5000), "nests deeper"),
        (GOOD.replace("'<f4'", "-" * 5000 + "1"), "not understood"),
    ],
)
def test_header_that_numpy_does_not_write_is_refused(text, reason):
    with pytest.raises(npy.NpyError, match=reason):
        npy.parse_header(forged(text))


def test_header_that_is_not_utf8_is_refused():
    with pytest.raises(npy.NpyError, match="not UTF-8"):
        npy.parse_header(forged(b"{'descr': '\xff'", version=3))


@pytest.mark.parametrize(
    ("start", "reason"),
    [
        (b"", "does not begin"),
        (b"\x93NUMPY\x01", "does not begin"),
        (b"\x93NUMPZ\x01\x00\x46\x00\x00\x00", "does not begin"),
        (b"\x93NUMPY\x04\x00\x46\x00\x00\x00", "version 4.0 is unknown"),
        (b"\x93NUMPY\x01\x01\x46\x00\x00\x00", "version 1.1 is unknown"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "claims 4294967307 bytes"),
    ],
)
def test_start_of_no_header_is_refused(start, reason):
    with pytest.raises(npy.NpyError, match=reason):
        npy.header_length(start)


@pytest.mark.parametrize("size_error", [-1, 1, 1 << 40])
def test_member_that_is_longer_or_shorter_than_its_header_says_is_refused(size_error):
    whole = written_by_numpy(np.zeros(3))
    for _ in range(2):
        # The second time the header is one that was seen before.
        assert npy.check_member(whole, len(whole))[1] == (3,)
        with pytest.raises(npy.NpyError, match="promises 24 bytes"):
            npy.check_member(whole, len(whole) + size_error)


def test_header_that_goes_on_after_the_member_is_refused():
    whole = written_by_numpy(np.zeros(3))
    with pytest.raises(npy.NpyError, match="goes on after its end"):
        npy.check_member(whole[:100], 100)


def test_memory_of_headers_seen_is_bounded():
    for n in range(npy._MAX_SEEN + 10):
        header = npy.header_bytes(np.dtype("u1"), (n, 0), False)
        npy.check_member(header, len(header))
    assert len(npy._seen) <= npy._MAX_SEEN


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="{}[]()',: <f4O|True3L\\\"-+", max_size=60))
def test_any_text_is_a_header_or_refused(text):
    try:
        npy.parse_header(forged(text))
    except npy.NpyError:
        pass
