"""Which rows are final, and what their bytes are good for."""

import enum
import gc
import pickle
import sys
import weakref

import numpy as np
import pytest

from blocks_checkpoint.pickling.row_pickler import RowPickler, are_supported

pytestmark = pytest.mark.skipif(not are_supported(), reason="references are not counted")


class Colour(enum.IntEnum):
    RED = 1


class Text(str):
    __slots__ = ()


HELD = []


def held(thing):
    HELD.append(thing)
    return thing


@pytest.fixture(autouse=True)
def _let_go():
    yield
    HELD.clear()


def weakly_held(array):
    HELD.append(weakref.ref(array))
    return array


def same(first, second):
    if isinstance(first, np.ndarray):
        return (
            first.dtype == second.dtype and first.shape == second.shape and (first == second).all()
        )
    return first == second


def final_counts(log):
    """Return how many rows are final, one after another, and how many are not."""
    rows = RowPickler().pickle(list(log), list(log.values()))
    return [count if piece else -count for count, piece in rows]


def unpickled(log):
    """Return the rows that are final, from their bytes, and a copy of the others."""
    body = b""
    memo_size = 0
    for _, piece in RowPickler().pickle(list(log), list(log.values())):
        if piece is not None:
            body += piece.body
            memo_size = max(memo_size, piece.memo_size)
    # What must not be overwritten is right behind what may be.
    before = b"N" + pickle.MEMOIZE * memo_size + b"0K\x2a\x94"
    after = b"j" + memo_size.to_bytes(4, "little") + b"\x86."
    result, mark = pickle.loads(b"\x80\x04" + before + b"0}" + body + after)
    assert mark == 42
    return result


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: 0.1, id="float"),
        pytest.param(lambda: 10**30, id="int"),
        pytest.param(lambda: True, id="bool"),
        pytest.param(lambda: None, id="none"),
        pytest.param(lambda: "text" * 100, id="text"),
        pytest.param(lambda: b"bytes", id="bytes"),
        pytest.param(lambda: 1 + 2j, id="complex"),
        pytest.param(lambda: ("one.zip", None), id="tuple"),
        pytest.param(lambda: (1, ("a", (2.5,))), id="nested-tuple"),
        pytest.param(lambda: np.float32(0.5), id="numpy-float32"),
        pytest.param(lambda: np.float64(0.5), id="numpy-float64"),
        pytest.param(lambda: np.int16(5), id="numpy-int"),
        pytest.param(lambda: np.bool_(True), id="numpy-bool"),
        pytest.param(lambda: np.array(0.5, dtype=np.float32), id="array-scalar"),
        pytest.param(lambda: np.arange(6).reshape(2, 3).copy(), id="array"),
        pytest.param(lambda: held(0.25), id="number-that-others-have"),
    ],
)
def test_values_that_cannot_change_are_final(make):
    log = {5: {"a": make(), "b": 1.0}, 7: {"a": make()}}
    assert final_counts(log) == [2]
    loaded = unpickled(log)
    assert list(loaded) == [5, 7]
    for time, row in log.items():
        assert list(loaded[time]) == list(row)
        for name, value in row.items():
            assert type(loaded[time][name]) is type(value)
            assert same(loaded[time][name], value)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(list, id="list"),
        pytest.param(dict, id="dict"),
        pytest.param(lambda: {1, 2}, id="set"),
        pytest.param(lambda: frozenset([1]), id="frozenset"),
        pytest.param(lambda: ([],), id="list-in-tuple"),
        pytest.param(lambda: bytearray(b"1"), id="bytearray"),
        pytest.param(lambda: (bytearray(b"1"),), id="bytearray-in-tuple"),
        pytest.param(lambda: Colour.RED, id="enum"),
        pytest.param(lambda: Text("a"), id="text-subclass"),
        pytest.param(lambda: len, id="function"),
        pytest.param(lambda: np.float32, id="class"),
        pytest.param(object, id="object"),
        pytest.param(lambda: np.zeros(1, dtype=[("a", int)])[0], id="record"),
        pytest.param(lambda: held(np.arange(3)), id="array-that-others-have"),
        pytest.param(lambda: held(np.arange(3))[:2], id="view-of-an-array"),
        pytest.param(lambda: np.arange(3)[:2], id="view-of-nobodys-array"),
        pytest.param(lambda: weakly_held(np.arange(3)), id="array-that-others-refer-to-weakly"),
        pytest.param(lambda: held((np.arange(3),)), id="array-in-a-tuple-that-others-have"),
        pytest.param(lambda: np.array([None]), id="array-of-objects"),
        pytest.param(lambda: np.zeros(3, dtype=[("a", int)]), id="array-of-records"),
        pytest.param(lambda: np.zeros(100_000), id="large-array"),
        pytest.param(lambda: np.ma.masked_array([1, 2], [0, 1]), id="array-subclass"),
    ],
)
def test_values_that_may_change_are_not_final(make):
    log = {1: {"a": 1.0}, 2: {"a": 1.0, "b": make(), "c": 1.0}, 3: {"a": 1.0}}
    assert final_counts(log) == [1, -1, 1]
    # It no longer tracks tuples then that have nothing it knows in them.
    gc.collect()
    assert final_counts(log) == [1, -1, 1]
    assert unpickled(log) == {1: {"a": 1.0}, 3: {"a": 1.0}}


def test_keys_of_a_row_have_to_be_final_too():
    log = {1: {Text("a"): 1.0}, 2: {("a", Colour.RED): 1.0}, 3: {("a", 1): 1.0}}
    assert final_counts(log) == [-2, 1]


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(lambda: held({"a": 1}), id="that-others-have"),
        pytest.param(lambda: type("Row", (dict,), {})(a=1), id="of-another-class"),
        pytest.param(list, id="that-is-a-list"),
        pytest.param(lambda: np.arange(3), id="that-is-an-array"),
    ],
)
def test_row_itself_has_to_be_final(row):
    log = {1: {"a": 1.0}, 2: row(), 3: {"a": 1.0}}
    assert final_counts(log) == [1, -1, 1]


def test_row_that_is_there_twice_is_not_final():
    row = {"a": 1}
    log = {1: row, 2: {"a": 2}, 3: row}
    del row
    assert final_counts(log) == [-1, 1, -1]


def test_array_that_two_rows_have_is_not_final():
    array = np.arange(3)
    log = {1: {"a": array}, 2: {"a": 2}, 3: {"a": array}}
    del array
    assert final_counts(log) == [-1, 1, -1]


@pytest.mark.parametrize("count", [1, 239, 240, 241, 1000])
@pytest.mark.parametrize(
    "value",
    [float, str, lambda time: (time,), np.float32, lambda time: np.array(time)],
    ids=["float", "text", "tuple", "numpy-number", "array"],
)
def test_any_number_of_rows_comes_back(count, value):
    log = {time: {"x": value(time), "y": time} for time in range(count)}
    assert final_counts(log) == [count]
    loaded = unpickled(log)
    assert list(loaded) == list(log)
    assert loaded == log


def test_nothing_of_the_rows_is_kept():
    log = {1: {"a": np.arange(3)}, 2: {"a": 1}, 3: {"a": []}}
    before = [sys.getrefcount(log[1]["a"]), *map(sys.getrefcount, log.values())]
    pickler = RowPickler()
    assert len(list(pickler.pickle(list(log), list(log.values())))) == 2
    assert [sys.getrefcount(log[1]["a"]), *map(sys.getrefcount, log.values())] == before


def test_no_row_is_no_piece():
    assert list(RowPickler().pickle([], [])) == []
