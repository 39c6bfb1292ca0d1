"""Whether one value is better than another."""

import math
from fractions import Fraction

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocks_checkpoint.retention.comparison import as_number, is_better


@pytest.mark.parametrize(
    ("new", "best", "lower_is_better", "higher_is_better"),
    [
        pytest.param(0.1, 0.2, True, False, id="lower"),
        pytest.param(0.2, 0.1, False, True, id="higher"),
        pytest.param(0.1, 0.1, False, False, id="equal"),
        pytest.param(0.1, None, True, True, id="first"),
        pytest.param(0.1, math.nan, True, True, id="after-nan"),
        pytest.param(math.nan, 0.1, False, False, id="nan"),
        pytest.param(math.nan, None, False, False, id="nan-first"),
        pytest.param(None, 0.1, False, False, id="nothing"),
        pytest.param(None, None, False, False, id="nothing-first"),
        pytest.param("0.0", 0.1, False, False, id="text"),
        pytest.param(math.inf, 0.1, False, True, id="infinite"),
        pytest.param(-math.inf, 0.1, True, False, id="negative-infinite"),
        pytest.param(numpy.float32(0.1), 0.2, True, False, id="numpy"),
        pytest.param(numpy.array(3), 2, False, True, id="numpy-array-of-no-dimensions"),
        pytest.param(numpy.array([0.1]), 0.2, False, False, id="numpy-array"),
    ],
)
def test_better_is(new, best, lower_is_better, higher_is_better):
    assert is_better(new, best) is lower_is_better
    assert is_better(new, best, "min") is lower_is_better
    assert is_better(new, best, "max") is higher_is_better


def test_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="mode is 'least'"):
        is_better(1, 2, "least")


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (3, 3.0),
        (True, 1.0),
        (Fraction(1, 2), 0.5),
        (numpy.float16(0.5), 0.5),
        (10**400, None),
        (1j, None),
        (b"1", None),
        ([1], None),
        (object(), None),
    ],
)
def test_number_of_a_value(value, number):
    assert as_number(value) == number


@settings(deadline=None)
@given(st.lists(st.none() | st.floats()), st.sampled_from(["min", "max"]))
def test_following_the_better_ends_at_the_best(values, mode):
    best = None
    for value in values:
        if is_better(value, best, mode):
            best = value
    numbers = [value for value in values if as_number(value) is not None]
    assert best == (min if mode == "min" else max)(numbers, default=None)
