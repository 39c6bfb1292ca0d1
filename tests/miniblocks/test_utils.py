"""Small helpers."""

import io
import sys
from unittest import SkipTest

import numpy
import pytest

from blocks_checkpoint.engines import current
from blocks_checkpoint.miniblocks.config import Configuration
from blocks_checkpoint.miniblocks.utils import (
    change_recursion_limit,
    dict_subset,
    pack,
    shared_floatx,
    shared_floatx_nans,
    shared_floatx_zeros,
    shared_floatx_zeros_matching,
    shared_like,
    unpack,
)
from blocks_checkpoint.miniblocks.utils.profile import Profile, Timer
from blocks_checkpoint.miniblocks.utils.testing import skip_if_configuration_set


@pytest.mark.parametrize(
    ("arg", "packed", "unpacked"),
    [
        ([1, 2], [1, 2], [1, 2]),
        ((1,), [1], 1),
        ("ab", ["ab"], "ab"),
        ([], [], []),
    ],
)
def test_one_thing_or_several(arg, packed, unpacked):
    assert pack(arg) == packed
    assert unpack(arg) == unpacked


@pytest.mark.parametrize("arg", [[], [1, 2]])
def test_singleton_is_one_element(arg):
    with pytest.raises(ValueError, match="one element"):
        unpack(arg, singleton=True)


def test_subset_has_the_order_of_the_keys():
    assert list(dict_subset({"a": 1, "b": 2, "c": 3}, ["c", "a"]).items()) == [("c", 3), ("a", 1)]
    with pytest.raises(KeyError):
        dict_subset({}, ["a"])


def test_recursion_limit_is_raised_for_a_while_and_never_lowered():
    before = sys.getrecursionlimit()
    with change_recursion_limit(before + 500):
        assert sys.getrecursionlimit() == before + 500
        with change_recursion_limit(10):
            assert sys.getrecursionlimit() == before + 500
    assert sys.getrecursionlimit() == before


def test_recursion_limit_is_restored_after_an_error():
    before = sys.getrecursionlimit()
    with pytest.raises(ZeroDivisionError), change_recursion_limit(before + 500):
        _ = 1 / 0
    assert sys.getrecursionlimit() == before


def test_shared_variables_have_the_default_type():
    made = [shared_floatx([1, 2], "a"), shared_floatx_zeros((2,)), shared_floatx_nans((2,), "n")]
    assert {variable.dtype for variable in made} == {current().floatX}
    assert [variable.name for variable in made] == ["a", None, "n"]
    numpy.testing.assert_equal([v.get_value() for v in made], [[1, 2], [0, 0], [numpy.nan] * 2])
    assert shared_floatx([1], dtype="int32").dtype == "int32"


def test_matching_zeros_fit_into_an_update_of_the_variable():
    """Shape, type and the axes that broadcast are the same."""
    one_row = "broadcastable" if current().name == "theano" else "shape"
    pattern = {"broadcastable": (True, False), "shape": (1, None)}
    variable = current().shared(numpy.ones((1, 3), dtype="float32"), **{one_row: pattern[one_row]})
    zeros = shared_floatx_zeros_matching(variable, name="zeros")
    assert zeros.get_value().tolist() == [[0, 0, 0]]
    assert (zeros.type, zeros.name) == (variable.type, "zeros")


def test_variable_like_another_has_its_type_and_no_elements():
    matrix = current().tensor.imatrix("m")
    like = shared_like(matrix)
    assert (like.dtype, like.ndim, like.name) == ("int32", 2, "m")
    assert like.get_value().size == 0
    assert shared_like(3, name="three").get_value().shape == ()


def test_profile_adds_up_and_reports_nested_sections():
    profile = Profile()
    for _ in range(2):
        with Timer("training", profile), Timer("read_data", profile):
            pass
    assert list(profile.total) == [("training",), ("training", "read_data")]
    assert profile.current == []
    report = io.StringIO()
    profile.report(report)
    lines = report.getvalue().splitlines()
    assert [line.split("  ")[0].strip() or line.split()[0] for line in lines[:2]] == [
        "Section",
        "training",
    ]
    assert "  read data" in lines[2]


def test_profile_of_nothing_can_be_reported():
    report = io.StringIO()
    Profile().report(report)
    assert len(report.getvalue().splitlines()) == 1


def test_settings_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("BLOCKS_DEFAULT_SEED", "7")
    monkeypatch.setenv("BLOCKS_PROFILE", "true")
    monkeypatch.delenv("BLOCKS_TEMPDIR", raising=False)
    settings = Configuration()
    assert (settings.default_seed, settings.profile, settings.temp_dir) == (7, True, None)
    monkeypatch.setenv("BLOCKS_PROFILE", "false")
    assert not Configuration().profile


def test_test_can_be_skipped_for_a_setting():
    skip_if_configuration_set("log_backend", "sqlite")
    with pytest.raises(SkipTest, match="not with python"):
        skip_if_configuration_set("log_backend", "python", "not with python")
