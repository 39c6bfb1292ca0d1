"""Arrays of every kind come back as what they were: type, dtype, shape, order, flags."""

import io
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_strategies

from blocks_checkpoint import dump, load, load_parameters, open_checkpoint, save_parameters
from blocks_checkpoint.errors import SaveError

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

#: Small arrays travel in a pickle, large ones are members.
SIZES = (4, 40_000)

DTYPES = {
    **{name: name for name in "? i1 u8 f2 f4 f8 F D S5 U3 V7 M8 m8 S0 U0".split()},
    **{name: name for name in "g G >i2 >f8 >c16 >U3 M8[D] >M8[ns] m8[25s]".split()},
    "fields": [("x", "f4", (2, 3)), ("y", "i1")],
    "fields-of-fields": [("x", [("y", ">i2"), ("z", "M8[s]")])],
    "fields-aligned": np.dtype([("a", "u1"), ("b", "f8")], align=True),
    "fields-with-gaps": {"names": ["a"], "formats": ["f4"], "offsets": [3], "itemsize": 11},
    "fields-that-overlap": {"names": ["a", "b"], "formats": ["f8", "f8"], "offsets": [0, 4]},
    "fields-out-of-order": {"names": ["a", "b"], "formats": ["u1", "f8"], "offsets": [9, 1]},
    "fields-with-titles": [(("the first", "a"), "u1"), (("the second", "b"), ">f4")],
    "fields-of-any-name": [("é", "f4"), ("a b", "i2"), ("日", "u1")],
    "metadata": np.dtype("f8", metadata={"unit": "m"}),
}
if ml_dtypes is not None:
    for _name in ("bfloat16", "float8_e5m2", "float8_e4m3fn", "int4", "uint4"):
        DTYPES[_name] = getattr(ml_dtypes, _name)
    DTYPES["fields-of-bfloat16"] = [("a", ml_dtypes.bfloat16), ("b", "f4")]


def of_dtype(description, size):
    dtype = np.dtype(description)
    if dtype.kind in "gG?U" or dtype.itemsize == 0 or dtype.char in "gG":
        return (np.arange(size) % 3).astype(dtype) if dtype.itemsize else np.zeros(size, dtype)
    octets = np.random.default_rng(1).integers(0, 3, size * dtype.itemsize, np.uint8)
    return octets.view(dtype)


LAYOUTS = {
    "fortran-order": lambda n: np.asfortranarray(np.random.random((n, 3))),
    "strided": lambda n: np.random.random((n, 6))[::2, ::3],
    "reversed": lambda n: np.random.random((n, 3))[::-1, ::-1],
    "other-order-of-axes": lambda n: np.random.random((n, 2, 3)).transpose(1, 2, 0),
    "one-dimension-of-many": lambda n: np.random.random((1, n, 1)),
    "broadcast": lambda n: np.broadcast_to(np.arange(3.0), (n, 3)),
    "broadcast-number": lambda n: np.broadcast_to(1.5, n),
    "of-bytes": lambda n: np.frombuffer(bytes(8 * n)),
    "unaligned": lambda n: np.frombuffer(bytearray(8 * n + 1), "u1")[1:].view("f8"),
    "empty": lambda n: np.zeros((0, n)),
    "empty-in-fortran-order": lambda n: np.zeros((n, 0, 2), order="F"),
    "number": lambda n: np.array(n + 0.5),
    "number-of-other-byte-order": lambda n: np.array(n, ">i4"),
    "32-dimensions": lambda n: np.ones((1,) * 32),
}


def locked(array):
    array = array.copy(order="K")
    array.flags.writeable = False
    return array


def round_trip(thing, **options):
    file = io.BytesIO()
    dump(thing, file, **options)
    with open_checkpoint(file) as checkpoint:
        assert checkpoint.verify() == []
    file.seek(0)
    with np.load(file, allow_pickle=False) as npz:
        assert all(npz[name] is not None for name in npz.files)
    return load(file)


def assert_same(one, other):
    assert type(one) is type(other)
    assert one.dtype == other.dtype
    assert one.dtype.isalignedstruct == other.dtype.isalignedstruct
    assert one.dtype.metadata == other.dtype.metadata or one.dtype.kind in "mM"
    assert one.shape == other.shape
    assert one.flags.writeable == other.flags.writeable
    assert one.tobytes() == other.tobytes()
    if one.flags.c_contiguous or one.flags.f_contiguous:
        assert one.flags.c_contiguous == other.flags.c_contiguous
        assert one.flags.f_contiguous == other.flags.f_contiguous


@pytest.mark.filterwarnings("ignore:metadata on a dtype")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("description", DTYPES.values(), ids=DTYPES)
def test_an_array_of_any_dtype_comes_back(description, size):
    array = of_dtype(description, size)
    for protocol in (5, 2, 0) if size == 4 else (5,):
        one, other = round_trip([array, array], protocol=protocol)
        assert one is other
        assert_same(array, one)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("make", LAYOUTS.values(), ids=LAYOUTS)
def test_an_array_of_any_layout_comes_back(make, size):
    array = make(size)
    for protocol in (5, 1):
        for each in (array, locked(array)):
            assert_same(each, round_trip([each], protocol=protocol)[0])


@given(
    numpy_strategies.arrays(
        st.one_of(
            numpy_strategies.scalar_dtypes(),
            numpy_strategies.array_dtypes(allow_subarrays=True),
            numpy_strategies.nested_dtypes(),
        ).filter(lambda dtype: not dtype.hasobject),
        numpy_strategies.array_shapes(min_dims=0, min_side=0),
        fill=st.nothing(),
    ),
    st.sampled_from([5, 4, 2, 0]),
)
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_whatever_array_hypothesis_makes_comes_back(array, protocol):
    assert_same(array, round_trip([array], protocol=protocol)[0])


class Tagged(np.ndarray):
    """An array with an attribute, pickled in a way of its own."""

    def __array_finalize__(self, other):
        self.tag = getattr(other, "tag", None)

    def __reduce__(self):
        make, args, state = super().__reduce__()
        return make, args, (state, self.tag)

    def __setstate__(self, state):
        super().__setstate__(state[0])
        self.tag = state[1]


class Plain(np.ndarray):
    """An array class that adds nothing."""


def tagged(array):
    array = array.view(Tagged)
    array.tag = "tag"
    return array


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(np.matrix, id="matrix"),
        pytest.param(lambda a: np.ma.masked_greater(a, 0.5), id="masked"),
        pytest.param(lambda a: np.rec.fromarrays(list(a.T), names="x,y"), id="record"),
        pytest.param(tagged, id="own-reduce"),
        pytest.param(lambda a: a.view(Plain), id="subclass"),
    ],
)
def test_subclasses_stay_in_the_pickle_and_lose_nothing(make, size):
    array = make(np.random.default_rng(2).random((size, 2)))
    file = io.BytesIO()
    dump([array, array], file)
    again, twice = load(file)
    assert again is twice
    assert type(again) is type(array)
    assert again.tobytes() == array.tobytes()
    assert np.array_equal(np.ma.getmaskarray(again), np.ma.getmaskarray(array))
    assert getattr(again, "tag", None) == getattr(array, "tag", None)


def test_a_memory_map_stays_in_the_pickle_and_does_not_need_its_file(tmp_path):
    mapped = np.memmap(tmp_path / "data", "f8", "w+", shape=(5,))
    mapped[:] = range(5)
    file = io.BytesIO()
    dump([mapped, np.asarray(mapped)], file)
    (tmp_path / "data").unlink()
    again, plain = load(file)
    assert type(again) is np.memmap
    assert type(plain) is np.ndarray
    assert again.tolist() == plain.tolist() == list(range(5))
    del mapped


def test_arrays_of_objects_stay_in_the_pickle_and_their_arrays_do_not():
    inside = np.arange(20_000.0)
    array = np.array([1, "a", None, inside, {"b": [2]}], dtype=object)
    file = io.BytesIO()
    dump([array, inside], file)
    again, alone = load(file)
    assert again[3] is alone
    assert again.dtype == object
    assert again[[0, 1, 2, 4]].tolist() == array[[0, 1, 2, 4]].tolist()
    with zipfile.ZipFile(file) as archive:
        assert archive.namelist().count("arrays/0.npy") == 1
        assert len(archive.read("pkl")) < 2_000


@pytest.mark.skipif(ml_dtypes is None, reason="ml_dtypes is not installed")
@pytest.mark.parametrize("name", ["bfloat16", "float8_e5m2", "float8_e4m3fn", "int4"])
def test_parameters_of_types_that_numpy_has_no_name_for_have_their_dtype(name, tmp_path):
    value = np.array([1, 2, 3], getattr(ml_dtypes, name))
    save_parameters({"W": value}, tmp_path / "made.zip")
    with open_checkpoint(tmp_path / "made.zip") as checkpoint:
        assert checkpoint.manifest["arrays"][0]["dtype"] == name
    assert_same(value, load_parameters(tmp_path / "made.zip")["W"])


def test_arrays_of_objects_are_no_parameters(tmp_path):
    with pytest.raises(SaveError, match="objects"):
        save_parameters({"W": np.array([None])}, tmp_path / "made.zip")
    assert list(tmp_path.iterdir()) == []


def test_temporaries_are_not_taken_for_each_other():
    """What a pickler is given and drops may have the address of what it dropped before."""
    again = round_trip([MadeOfTemporaries(value) for value in range(400)])
    assert [each.value for each in again] == list(range(400))


class MadeOfTemporaries:
    """Gives its pickler arrays that nothing else holds."""

    def __init__(self, value):
        self.value = value

    def __reduce__(self):
        return made_of_temporaries, (np.full(7, self.value), np.full(9000, self.value))


def made_of_temporaries(small, large):
    assert set(small) == set(large) == {small[0]}
    return MadeOfTemporaries(int(small[0]))
