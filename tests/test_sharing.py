"""Arrays that share memory share it after loading, and no byte too much is stored."""

import io
import itertools
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

from blocks_checkpoint import dump, load, open_checkpoint
from blocks_checkpoint.engines import current
from blocks_checkpoint.errors import CheckpointWarning

#: Small arrays travel in a pickle, large ones are members.
SIZES = (10, 20_000)


def loaded(thing, **options):
    file = io.BytesIO()
    dump(thing, file, **options)
    return load(file), file.getbuffer().nbytes


def assert_alike(arrays, others):
    """Compare values, kinds, identity and sharing, then whether writes propagate."""
    for (index, one), (_, other) in zip(enumerate(arrays), enumerate(others)):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert np.array_equal(one, other)
        assert one.flags.writeable == other.flags.writeable
        for before in range(index):
            assert (one is arrays[before]) == (other is others[before])
            assert np.shares_memory(one, arrays[before]) == np.shares_memory(other, others[before])
    for value, (one, other) in enumerate(zip(arrays, others), start=2):
        if one.size and one.flags.writeable and 0 not in one.strides:
            one.flat[-1] = other.flat[-1] = value
            assert all(np.array_equal(a, b) for a, b in zip(arrays, others))


def rows(size, dtype=float):
    return np.random.default_rng(0).random((size, 8)).astype(dtype)


def read_only(array):
    array.flags.writeable = False
    return array


CASES = {
    "views-after-the-whole": lambda n: [b := rows(n), b[2:5], b.T, b[::-1], b[:, ::3]],
    "views-before-the-whole": lambda n: [(b := rows(n))[2:5], b.T, b[::-1], b[:, ::3], b],
    "overlapping-slices": lambda n: [(b := rows(n))[2:5], b[3:7], b[8:9]],
    "halves": lambda n: [(b := rows(n))[: n // 2], b[n // 2 :]],
    "interleaved": lambda n: [(b := rows(n))[::2], b[1::2], b[::3]],
    "two-views-of-all": lambda n: [(b := rows(n))[:], b[:]],
    "other-dtypes": lambda n: [b := rows(n), b.view("i4"), b.view("u1")[:, 3:5]],
    "real-and-imaginary": lambda n: [(b := rows(n, complex)).real, b.imag, b],
    "fields": lambda n: [(b := np.zeros(n, [("a", "f4"), ("b", "i8")]))["a"], b["b"]],
    "fields-and-all": lambda n: [b := np.zeros(n, [("a", "f4"), ("b", "i8")]), b["a"], b["b"]],
    "dates": lambda n: [(b := np.zeros(n, "M8[s]"))[::2], b],
    "other-byte-order": lambda n: [(b := rows(n, ">f8"))[::2], b],
    "fortran-order": lambda n: [(b := np.asfortranarray(rows(n)))[1:3], b, b.T],
    "broadcast": lambda n: [b := rows(n), *2 * [np.broadcast_to(b[0], (5, 8))]],
    "broadcast-alone": lambda n: [np.broadcast_to(np.arange(8.0), (n, 8))],
    "windows": lambda n: [b := rows(n), as_strided(b, (n * 8 - 3, 4), (8, 8))],
    "read-only-view": lambda n: [read_only((b := rows(n))[:]), b],
    "read-only-whole": lambda n: [w := (b := rows(n))[:3], read_only(b), w[::-1]],
    "read-only-both": lambda n: [read_only(b := rows(n)), b[1:]],
    "empty": lambda n: [(b := rows(n))[:0], b[0:0, :], b, b[3:3]],
    "no-dimensions": lambda n: [(b := rows(n))[3, 4:5].reshape(()), b],
    "more-dimensions": lambda n: [(b := rows(n))[None], b[..., None], b.reshape(-1)],
    "memory-of-bytes": lambda n: [(b := np.frombuffer(bytes(n * 8)))[:5], b[2:9]],
    "memory-of-a-bytearray": lambda n: [(b := np.frombuffer(bytearray(n * 8)))[:5], b[2:9]],
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("protocol", [5, 2])
@pytest.mark.parametrize("make", CASES.values(), ids=CASES)
def test_memory_that_was_shared_is_shared(make, protocol, size):
    arrays = make(size)
    assert_alike(arrays, loaded(arrays, protocol=protocol)[0])


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_it_does_not_matter_what_is_met_first(order):
    base = rows(10)
    arrays = [[base, base[2:5], base[3:8, 1:], base.T][index] for index in order]
    assert_alike(arrays, loaded(arrays)[0])


@st.composite
def families(draw):
    """Arrays cut out of one, in any way."""
    shape = draw(st.lists(st.integers(1, 12), min_size=1, max_size=3))
    base = np.arange(float(np.prod(shape))).reshape(shape)
    family = [base] if draw(st.booleans()) else []
    for _ in range(draw(st.integers(1, 4))):
        cut = base[tuple(draw(st.slices(length)) for length in shape)]
        if draw(st.booleans()):
            cut = cut.transpose(draw(st.permutations(range(cut.ndim))))
        family.append(cut)
    return draw(st.permutations(family))


@given(families(), st.sampled_from([5, 4, 0]))
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_any_family_of_views_comes_back_as_one(family, protocol):
    assert_alike(family, loaded(family, protocol=protocol)[0])


def test_a_view_is_a_view_of_the_very_array():
    for size in SIZES:
        base = rows(size)
        (again, view), _ = loaded([base, base[3:5]])
        assert view.base is again
        assert again.flags.owndata


HUGE = 30_000_000


@pytest.fixture(scope="module")
def huge():
    """Return an array of 240 MB, of which next to nothing is in memory."""
    array = np.zeros(HUGE)
    array[::1000] = 1
    return array


@pytest.mark.parametrize(
    ("cut", "most_bytes"),
    [
        pytest.param(lambda b: [b[:10]], 5_000, id="slice"),
        pytest.param(lambda b: [b[:10], b[5:15]], 5_000, id="slices"),
        pytest.param(lambda b: [b[:: HUGE // 10]], 5_000, id="far-apart"),
        pytest.param(lambda b: [b[:: HUGE // 100], b[:: HUGE // 50]], 10_000, id="on-one-grid"),
        pytest.param(lambda b: [b[::30_000], b[::30_000], b[7::30_000]], 40_000, id="twice"),
        pytest.param(
            lambda b: [(m := b.reshape(3000, -1))[:, 0], m[:, 1], m[:, :2]], 150_000, id="columns"
        ),
        pytest.param(lambda b: [b[:5], b[-5:], b[::-1_000_000]], 10_000, id="from-both-ends"),
        pytest.param(lambda b: [np.broadcast_to(b[0], (10**6, 10**6))], 5_000, id="broadcast"),
    ],
)
def test_small_views_of_a_huge_array_share_memory_and_cost_their_own_size(huge, cut, most_bytes):
    arrays = cut(huge)
    again, nbytes = loaded(arrays)
    assert nbytes < most_bytes
    if arrays[0].size < 10**9:
        assert_alike(arrays, again)


def test_views_too_far_apart_are_saved_apart_with_a_warning(tmp_path):
    base = np.memmap(tmp_path / "sparse", dtype="u1", mode="w+", shape=(1 << 30,))
    arrays = [np.asarray(base[:: 1 << 28]), np.asarray(base[:: 1 << 27])]
    with pytest.warns(CheckpointWarning, match="share memory that spans .* are saved apart"):
        again, nbytes = loaded(arrays)
    assert [a.tolist() for a in again] == [a.tolist() for a in arrays]
    assert nbytes < 5_000
    del arrays, base


def test_views_that_only_cross_each_other_are_saved_apart_without_a_warning(tmp_path):
    base = np.memmap(tmp_path / "sparse", dtype="u1", mode="w+", shape=(1 << 30,))
    arrays = [np.asarray(base[:: 1 << 28]), np.asarray(base[1 :: 1 << 28])]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again, _ = loaded(arrays)
    assert not np.shares_memory(*again)
    del arrays, base


def test_a_hundred_thousand_views_of_one_array_are_stored_as_views():
    base = np.arange(300_000.0).reshape(-1, 3)
    again, nbytes = loaded(list(base))
    assert nbytes < base.nbytes + 60 * len(base)
    assert again[0].base is again[-1].base
    assert np.array_equal(np.array(again), base)


class MadeOfViews:
    """Gives its pickler two views of memory that nothing else holds."""

    def __init__(self, value):
        self.value = value

    def __reduce__(self):
        memory = np.full(20_000, self.value)
        return made_of_views, (memory[:15_000], memory[5_000:])


def made_of_views(one, other):
    assert np.shares_memory(one, other)
    assert (one == one[0]).all()
    assert (other == one[0]).all()
    return MadeOfViews(one[0])


def test_memory_that_only_the_pickler_holds_is_there_until_it_is_written():
    again, _ = loaded([MadeOfViews(float(value)) for value in range(40)])
    assert [each.value for each in again] == list(range(40))


def shared(value, name):
    return current().shared(value, name=name, borrow=True)


def test_two_variables_of_one_array_have_one_array_and_a_member_each():
    value = rows(10)
    file = io.BytesIO()
    dump([shared(value, "one"), shared(value, "other")], file)
    one, other = load(file)
    assert one.get_value(borrow=True) is other.get_value(borrow=True)
    with open_checkpoint(file) as checkpoint:
        assert sorted(checkpoint.arrays) == ["one", "other"]
        assert all(np.array_equal(checkpoint.arrays[n], value) for n in checkpoint.arrays)


@pytest.mark.parametrize("size", SIZES)
def test_variables_of_overlapping_slices_share_memory_and_have_a_member_each(size):
    value = rows(size)
    variables = [shared(v, n) for v, n in ((value[2:6], "a"), (value[4:], "b"), (value.T, "c"))]
    file = io.BytesIO()
    dump([variables, value], file)
    again, whole = load(file)
    values = [each.get_value(borrow=True) for each in again]
    assert_alike([*(v.get_value(borrow=True) for v in variables), value], [*values, whole])
    with open_checkpoint(file) as checkpoint:
        assert {"a", "b", "c"} <= set(checkpoint.arrays)


def test_variables_without_a_pickle_are_stored_once_each():
    value = rows(10)
    parameters = [shared(value[2:6], "a"), shared(value[4:], "b")]
    file = io.BytesIO()
    dump(None, file, parameters=parameters)
    with open_checkpoint(file) as checkpoint:
        assert sorted(checkpoint.arrays) == ["a", "b"]
        assert np.array_equal(checkpoint.arrays["b"], value[4:])


def test_a_member_that_holds_a_view_loads_by_itself():
    value = rows(10)
    file = io.BytesIO()
    dump({"whole": value}, file, to_add={"part": value[3:5]})
    assert np.array_equal(load(file, "part"), value[3:5])
    assert np.array_equal(load(file)["whole"], value)
