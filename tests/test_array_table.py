"""Which arrays are stored, once each, and in which pickle's pool the others are."""

import pickle

import numpy as np
import pytest

from blocks_checkpoint.engines import current
from blocks_checkpoint.pickling.array_plan import LARGE_BYTES, fits_npy
from blocks_checkpoint.pickling.array_table import ArrayTable

SMALL, LARGE = 3, LARGE_BYTES // 8


def shared(value, name="v"):
    return current().shared(value, name=name, borrow=True)


@pytest.fixture
def table():
    return ArrayTable(chain=("first", "second"))


def reference(table, pickle_name, *arrays):
    table.pickle = pickle_name
    return [table.reference(array) for array in arrays]


def test_one_array_has_one_number_and_equal_arrays_have_two(table):
    one, other = np.zeros(SMALL), np.zeros(SMALL)
    assert reference(table, "first", one, other, one) == [0, 1, 0]
    assert reference(table, "second", other) == [1]


def test_numbers_begin_where_they_are_told_to():
    assert reference(ArrayTable(first_number=7), "first", np.zeros(1), np.ones(1)) == [7, 8]


def test_a_large_array_and_a_variable_s_are_stored_and_a_small_one_is_pooled(table):
    small, large, owned = np.zeros(SMALL), np.zeros(LARGE), np.zeros(SMALL)
    reference(table, "first", small, large, owned)
    variable = shared(owned)
    table.own(owned, variable)
    plan = table.plan()
    assert [(each.number, each.variables) for each in plan.stored] == [(1, []), (2, [variable])]
    assert plan.stored[0].array is large
    assert {name: list(pool) for name, pool in plan.pools.items()} == {"first": [0]}


def test_an_array_one_byte_short_of_large_is_small(table):
    reference(table, "first", np.zeros(LARGE_BYTES, "u1"), np.zeros(LARGE_BYTES - 1, "u1"))
    assert [each.number for each in table.plan().stored] == [0]


@pytest.mark.parametrize(
    ("met_by", "homes"),
    [
        (["first"], ["first"]),
        (["second"], ["second"]),
        (["first", "second"], ["first"]),
        (["second", "log"], ["second", "log"]),
        (["log", "first"], ["first", "log"]),
        (["log", "extra"], ["extra", "log"]),
    ],
)
def test_a_small_array_is_in_the_pool_of_whatever_loads_without_the_others(table, met_by, homes):
    array = np.zeros(SMALL)
    for name in met_by:
        reference(table, name, array)
    assert sorted(table.plan().pools) == sorted(homes)


def test_an_array_that_two_variables_have_is_stored_for_both(table):
    value = np.zeros(SMALL)
    one, other = shared(value, "one"), shared(value, "other")
    table.own(value, one)
    table.own(value, other)
    table.own(value, one)
    (stored,) = table.plan().stored
    assert stored.variables == [one, other]


def test_of_the_handles_of_one_variable_the_first_that_was_made_counts(table):
    value = np.zeros(SMALL)
    variable = shared(value)
    clone = variable.clone()
    clone.container = variable.container
    for handle in (clone, variable, clone):
        table.own(value, handle)
    (stored,) = table.plan().stored
    assert [each is variable for each in stored.variables] == [True]


def test_the_array_of_a_variable_that_covers_others_is_stored_under_its_name(table):
    value = np.arange(float(SMALL))
    reference(table, "first", value[:2], value[:], value)
    variable = shared(value)
    table.own(value, variable)
    plan = table.plan()
    assert [(each.number, each.variables) for each in plan.stored] == [(2, [variable])]
    assert {number: view.of for number, view in plan.pools["first"].items()} == {0: 2, 1: 2}


def test_arrays_that_are_in_the_file_already_are_not_stored_again(table):
    value, other = np.zeros(LARGE), np.zeros(LARGE)
    table.set_stored(value, 5)
    assert reference(table, "first", value, other) == [5, 0]
    assert table.own(value, shared(value)) == 5
    assert [each.number for each in table.plan().stored] == [0]


def test_it_is_known_what_shares_memory_with_an_array_that_was_met(table):
    base, other = np.zeros(10), np.zeros(10)
    reference(table, "first", base[2:4])
    assert table.knows(base)
    assert table.knows(base[7:])
    assert not table.knows(other)
    assert not table.knows(other[:3])
    reference(table, "first", other)
    assert table.knows(other)
    assert table.knows(other[:3])


def test_a_plan_is_the_same_wherever_the_arrays_lie(table):
    numbers = []
    for _ in range(3):
        one = ArrayTable(chain=("first",))
        padding = [np.zeros(np.random.randint(1, 5000)) for _ in range(20)]
        bases = [np.arange(50.0) for _ in range(6)]
        reference(one, "first", *(base[i:] for base in bases for i in (1, 0)), *bases[::-1])
        del padding
        numbers.append(
            [
                (n, e if isinstance(e, np.ndarray) else e.of)
                for n, e in one.plan().pools["first"].items()
            ]
        )
    assert [[n for n, _ in each] for each in numbers] == [[n for n, _ in numbers[0]]] * 3
    assert len({pickle.dumps(each) for each in numbers}) == 1


@pytest.mark.parametrize(
    ("dtype", "fits"),
    [
        ("f8", True),
        (">f8", True),
        ("g", True),
        ("M8[25s]", True),
        ("U3", True),
        ([("a", "f4"), ("b", "i8", (2, 3))], True),
        ({"names": ["a"], "formats": ["f4"], "offsets": [3], "itemsize": 11}, True),
        (np.dtype("f8", metadata={"unit": "m"}), False),
        (np.dtype([("a", "u1"), ("b", "f8")], align=True), False),
        ({"names": ["a", "b"], "formats": ["f8", "f8"], "offsets": [0, 4]}, False),
    ],
)
def test_it_is_known_which_dtypes_npy_does_not_bring_back(dtype, fits):
    assert fits_npy(np.dtype(dtype)) == fits
