"""Plain values go through JSON and come back as what they were."""

import json
import math
from collections import Counter, OrderedDict, defaultdict, deque

import numpy
import pytest

from blocks_checkpoint.pickling.exact_json import from_json, to_json


def through_json(value):
    return from_json(json.loads(json.dumps(to_json(value))))


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -(2**70),
        0.1,
        -0.0,
        math.inf,
        "text",
        "=array",
        b"\x00\xff",
        bytearray(b"ab"),
        1 + 2j,
        [1, [2.5, "three"]],
        (1, ("two",)),
        {1, 2},
        frozenset([3]),
        {"a": 1, "b": [2]},
        {1: "one", (2, 3): "two"},
        {"=tuple": [1]},
        OrderedDict([("b", 1), ("a", 2)]),
        Counter("abracadabra"),
        defaultdict(int, {5: 6}),
        defaultdict(None, {5: 6}),
        deque([1, 2, 3], maxlen=3),
    ],
    ids=repr,
)
def test_value_comes_back_as_it_was(value):
    back = through_json(value)
    assert type(back) is type(value)
    assert repr(back) == repr(value)
    assert getattr(back, "default_factory", None) == getattr(value, "default_factory", None)
    assert getattr(back, "maxlen", None) == getattr(value, "maxlen", None)


@pytest.mark.parametrize(
    "value",
    [
        numpy.float32(0.1),
        numpy.int8(-3),
        numpy.datetime64("2020-01-01"),
        numpy.arange(6, dtype="int16").reshape(2, 3),
        numpy.array(2.5),
        numpy.zeros((0, 3)),
        numpy.arange(6.0).reshape(2, 3).T,
        numpy.array(["ab", "c"]),
        numpy.array([numpy.nan, -0.0]),
    ],
    ids=repr,
)
def test_array_comes_back_with_its_dtype_bit_for_bit(value):
    back = through_json(value)
    assert type(back) is type(value)
    assert (back.dtype, back.shape) == (value.dtype, value.shape)
    assert back.tobytes() == value.tobytes()


def test_array_that_came_back_can_be_added_to():
    back = through_json(numpy.zeros(3))
    back += 1
    assert back.tolist() == [1, 1, 1]


class Own(dict):
    """Is more than a dictionary, for all that anybody knows."""


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (print, "builtin_function_or_method"),
        (Own(), "Own"),
        ({"deep": [object()]}, "object"),
        (defaultdict(lambda: 1), "defaultdict"),
        (numpy.array([None]), "array of object"),
        (numpy.ma.array([1]), "MaskedArray"),
    ],
)
def test_what_is_no_plain_value_is_refused_with_what_it_is(value, reason):
    with pytest.raises(TypeError, match=reason):
        to_json(value)


@pytest.mark.parametrize(
    "stored",
    [
        {"=type": "int"},
        {"=tuple": 5},
        {"=tuple": [1], "a": 2},
        {"=array": ["O", [1], "AAAAAAAAAAA="]},
        {"=array": ["<f8", [2], "AAAAAAAAAAA="]},
        {"=array": ["<f8", [-1, -1], "AAAAAAAAAAA="]},
        {"=array": ["<f8", [1], "not base64"]},
        {"=array": ["no dtype", [1], "AAAAAAAAAAA="]},
        {"=scalar": []},
        {"=set": [[1]]},
        {"=defaultdict": ["eval", []]},
        {"=deque": [-1, []]},
        {"=complex": ["1+2j", 3]},
    ],
    ids=str,
)
def test_what_nobody_wrote_is_refused(stored):
    with pytest.raises(ValueError, match="this is no|there is no value"):
        from_json(stored)
