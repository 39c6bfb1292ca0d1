import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from blocks_checkpoint.archive.member_names import (
    MAX_NAME_BYTES,
    all_plain,
    fault_of_name,
    folded,
    is_plain,
)


@pytest.mark.parametrize(
    "name",
    [
        "log",
        "checkpoint.json",
        "mlp/linear_0/W.npy",
        "a b/c.npy",
        "-x",
        ".hidden/..dots",
        "a...",
        "é/日本/🙂.npy",
        "mid:colon",
        "x" * MAX_NAME_BYTES,
        "|.npy",
    ],
)
def test_name_is_allowed(name):
    assert fault_of_name(name) is None


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("", "empty"),
        ("/W", "absolute"),
        ("//W", "absolute"),
        ("a//W", "component of it is empty"),
        ("a/", "component of it is empty"),
        ("..", "'..'"),
        ("../W", "'..'"),
        ("a/../W", "'..'"),
        ("./W", "'.'"),
        ("a/.", "'.'"),
        ("a\\W", "backslash"),
        ("c:/W", "drive letter"),
        ("C:W", "drive letter"),
        ("a\x00b", "control character"),
        ("a\nb", "control character"),
        ("a\x7fb", "control character"),
        ("a\x85b", "control character"),
        ("a\ud800b", "surrogate"),
        ("x" * (MAX_NAME_BYTES + 1), "longer than"),
        ("é" * (MAX_NAME_BYTES // 2 + 1), "longer than"),
    ],
)
def test_name_is_refused_with_its_fault(name, fault):
    assert fault in fault_of_name(name)
    assert not is_plain(name)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("W.npy", "w.NPY"),
        ("caf\u00e9", "cafe\u0301"),
        ("Stra\u00dfe", "STRASSE"),
        ("\u03a3", "\u03c2"),
        ("\u212b", "a\u030a"),
    ],
)
def test_names_that_a_file_system_may_take_for_one_fold_to_one(one, other):
    assert folded(one) == folded(other)


@pytest.mark.parametrize(("one", "other"), [("a", "b"), ("W_0", "W-0"), ("é", "e"), ("a/b", "a_b")])
def test_names_that_differ_in_more_stay_apart(one, other):
    assert folded(one) != folded(other)


@given(st.lists(st.text("aZ09_.-/\\ \0é\r", max_size=6), min_size=1, max_size=4))
@example(["x" * 1000])
@example(["x" * 1001])
@example(["a/", "b"])
@example(["a", "/b"])
def test_look_at_many_names_sees_what_the_look_at_each_sees(names):
    longest = max(map(len, names))
    assert all_plain("\n".join(names).encode(), longest) is all(map(is_plain, names))
