"""JSON of many rows: the same from both libraries."""

import json
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from blocks_checkpoint import fast_json

TEXTS = st.text(st.characters())
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
)
ROWS = st.lists(st.dictionaries(TEXTS, TEXTS | st.lists(st.integers(0, 2**62)) | st.none()))


def exactly(value):
    """Write a value so that equal texts mean equal values of equal types."""
    return repr(value)


@given(VALUES)
@example(2**64)
@example(-(2**63) - 1)
@example([10**18, 10**19, 123456789012345678901234567890])
@example([math.nan, math.inf, -math.inf, -0.0, 1e-320])
@example({"\ud800": "\udfff"})
def test_what_python_writes_is_parsed_as_python_parses_it(value):
    encoded = json.dumps(value).encode()
    assert exactly(fast_json.loads(encoded)) == exactly(json.loads(encoded))


@given(st.binary() | st.text().map(str.encode))
@example(b'{"a": 1, "a": 2}')
@example(b"\xef\xbb\xbf{}")
@example('{"a": 1}'.encode("utf-16"))
@example(b"[1,]")
@example(b"-0")
@example(b"1E400")
@example(b"01")
def test_bytes_that_may_be_no_json_are_taken_and_refused_as_python_does(encoded):
    try:
        expected = exactly(json.loads(encoded))
    except ValueError as error:
        with pytest.raises(type(error)):
            fast_json.loads(encoded)
    else:
        assert exactly(fast_json.loads(encoded)) == expected


@pytest.mark.parametrize("around", [b"%s", b"[1, %s]", b'{"a": -%s.0}'])
def test_number_that_would_take_quadratic_time_is_refused(around):
    with pytest.raises(ValueError, match="4300 digits"):
        fast_json.loads(around % (b"7" * 4301))


@pytest.mark.parametrize("digits", range(15, 24))
@pytest.mark.parametrize("places", range(8))
def test_whole_numbers_stay_whole_wherever_they_are(digits, places):
    number = int("9" * digits)
    assert fast_json.loads(b" " * places + b"[%d]" % number) == [number]
    assert type(fast_json.loads(b" " * places + b"[%d]" % number)[0]) is int


@given(ROWS)
@example([{"name": "\ud800"}])
@example([{"name": "é"}, {"name": "\x00\u2028"}])
def test_rows_come_back(rows):
    assert json.loads(fast_json.rows_to_json(rows)) == rows


@pytest.mark.parametrize("rows", [[], [{"name": "W", "shape": [2, 3], "id": None}]])
def test_rows_are_written_alike_without_the_fast_library(rows, monkeypatch):
    fast = fast_json.rows_to_json(rows)
    monkeypatch.setattr(fast_json, "orjson", None)
    assert json.loads(fast_json.rows_to_json(rows)) == json.loads(fast)
    assert fast_json.loads(fast) == rows
