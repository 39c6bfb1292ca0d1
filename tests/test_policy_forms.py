"""Policies as arguments are short for, and as a manifest holds them."""

import json

import pytest

from blocks_checkpoint.retention import (
    KeepAll,
    KeepAny,
    KeepBest,
    KeepEvery,
    KeepFor,
    KeepLast,
    Policy,
)
from blocks_checkpoint.retention.policy_forms import from_plain, policy_of, to_plain

BEST = KeepBest(2, "error", "max")


@pytest.mark.parametrize(
    ("arguments", "policy"),
    [
        pytest.param({}, None, id="nothing"),
        pytest.param({"keep": KeepFor(24)}, KeepFor(24), id="policy"),
        pytest.param({"keep_last": 3}, KeepLast(3), id="last"),
        pytest.param({"keep_best": "error"}, KeepBest(1, "error"), id="best-by-name"),
        pytest.param({"keep_best": (2, "error")}, KeepBest(2, "error"), id="best-by-two"),
        pytest.param({"keep_best": (2, "error", "max")}, BEST, id="best-by-three"),
        pytest.param({"keep_best": BEST}, BEST, id="best"),
        pytest.param(
            {"keep": KeepFor(24), "keep_last": 3, "keep_best": BEST},
            KeepAny((KeepFor(24), KeepLast(3), BEST)),
            id="all-three",
        ),
    ],
)
def test_shorthand_means(arguments, policy):
    assert policy_of(**arguments) == policy


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param({"keep": 3}, "keep is 3; use KeepLast", id="policy"),
        pytest.param({"keep": KeepLast}, "keep is <class", id="policy-not-made"),
        pytest.param({"keep_last": 0}, "n is 0", id="last"),
        pytest.param({"keep_best": 3}, "keep_best is 3; use the name", id="best"),
        pytest.param({"keep_best": ("error",)}, "keep_best is", id="best-too-short"),
        pytest.param({"keep_best": ("error", 2)}, "n is 'error'", id="best-turned-round"),
        pytest.param({"keep_best": (1, "error", "up")}, "mode is 'up'", id="best-mode"),
    ],
)
def test_bad_shorthand_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        policy_of(**arguments)


@pytest.mark.parametrize(
    "policy",
    [
        KeepAll(),
        KeepLast(3),
        BEST,
        KeepEvery(epochs=10),
        KeepEvery(iterations=10),
        KeepFor(0.5),
        KeepLast(3) | BEST | KeepEvery(iterations=7),
    ],
    ids=str,
)
def test_policy_comes_back_from_json(policy):
    assert from_plain(json.loads(json.dumps(to_plain(policy)))) == policy


def test_rule_of_a_users_own_is_left_out_of_a_manifest():
    class KeepOdd(Policy):
        pass

    assert to_plain(KeepOdd() | KeepLast(1)) == [{"rule": "KeepLast", "n": 1}]
    assert to_plain(None) == []


@pytest.mark.parametrize(
    "plain",
    [
        None,
        3,
        "KeepAll",
        [],
        {},
        [3],
        [{}],
        [{"rule": "Exec"}],
        [{"rule": ["KeepAll"]}],
        [{"rule": "KeepLast"}],
        [{"rule": "KeepLast", "n": 0}],
        [{"rule": "KeepLast", "n": 1, "m": 1}],
        [{"rule": "KeepLast", "n": 1}, {"rule": "KeepFor", "hours": "1"}],
    ],
    ids=repr,
)
def test_what_a_stranger_wrote_is_no_policy(plain):
    assert from_plain(plain) is None
