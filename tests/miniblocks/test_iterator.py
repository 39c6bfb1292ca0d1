"""Iterators stop in the middle, travel in a pickle, and go on."""

import pickle
import warnings
from itertools import count

import numpy
import pytest

from blocks_checkpoint.miniblocks.iterator import (
    Chained,
    Positions,
    PushedBack,
    Zipped,
    picklable_iter,
)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: Positions(range(5)), id="positions"),
        pytest.param(lambda: Zipped([Positions("abc"), Positions(range(3))]), id="zipped"),
        pytest.param(
            lambda: Chained([Positions("ab"), Positions(""), Positions("c")]), id="chained"
        ),
        pytest.param(lambda: PushedBack("first", Positions("ab")), id="pushed-back"),
        pytest.param(lambda: picklable_iter([1, 2, 3]), id="list"),
        pytest.param(lambda: picklable_iter(numpy.arange(3)), id="array"),
    ],
)
def test_pickled_anywhere_it_goes_on_where_it_was(make):
    whole = list(make())
    for taken in range(len(whole) + 1):
        iterator = make()
        begin = [next(iterator) for _ in range(taken)]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            rest = pickle.loads(pickle.dumps(iterator))
        assert begin + list(rest) == whole
        assert begin + list(iterator) == whole


def test_pushed_back_element_comes_next():
    iterator = Positions("bc")
    assert list(PushedBack("a", iterator)) == ["a", "b", "c"]


def test_zipped_ends_with_the_shortest():
    assert list(Zipped([Positions("ab"), Positions("x")])) == [("a", "x")]


@pytest.mark.parametrize(
    "iterable", [{"a": 1, "b": 2}, {3}, count(7)], ids=["dict", "set", "count"]
)
def test_other_iterables_give_their_own_iterator(iterable):
    assert next(picklable_iter(iterable)) in ("a", 3, 7)
