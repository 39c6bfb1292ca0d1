"""Which checkpoints are kept, and which may go."""

import math
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocks_checkpoint.retention import (
    KeepAll,
    KeepAny,
    KeepBest,
    KeepEvery,
    KeepFor,
    KeepLast,
    Policy,
    Saved,
    in_order,
    to_delete,
    why_kept,
)

NOW = 1_000_000.0
HOUR = 3600.0
NAN = math.nan


def series(*iterations, **columns):
    """Return saves ``10.zip``, ...; each column has one value a save."""
    rows = [{name: column[i] for name, column in columns.items()} for i in range(len(iterations))]
    for row in rows:
        if "error" in row:
            row["records"] = {"error": row.pop("error")}
        row.setdefault("time", NOW)
    return [Saved(f"{i}.zip", i, **row) for i, row in zip(iterations, rows)]


def names(paths):
    return {int(path.split(".")[0]) for path in paths}


EPOCHS = series(*range(1, 31), epoch=list(range(1, 31)))

KEPT = [
    pytest.param(KeepLast(1), series(10, 20, 30), {30}, id="last-newest-only"),
    pytest.param(KeepLast(2), series(10, 20, 30), {20, 30}, id="last-two"),
    pytest.param(KeepLast(9), series(10, 20), {10, 20}, id="last-more-than-there-are"),
    pytest.param(KeepLast(1), [], set(), id="last-of-none"),
    pytest.param(KeepLast(3), series(10, 11, 12, 8, 9), {10, 11, 12}, id="last-given-in-any-order"),
    pytest.param(KeepLast(1), series(9, 10), {10}, id="last-number-not-text"),
    pytest.param(KeepLast(1), series(900_000, 100_000), {900_000}, id="last-number-not-place"),
    pytest.param(KeepLast(1), series(9, 10, time=[99.0, 1.0]), {10}, id="last-number-not-time"),
    pytest.param(
        KeepLast(2),
        series(10, 20, 30, 40, verified=[None, True, None, False]),
        {20, 30},
        id="last-does-not-count-damaged",
    ),
    pytest.param(
        KeepBest(1, "error"), series(1, 2, 3, error=[0.5, 0.1, 0.3]), {2}, id="best-is-lowest"
    ),
    pytest.param(
        KeepBest(1, "error", "max"),
        series(1, 2, 3, error=[0.5, 0.1, 0.3]),
        {1},
        id="best-is-highest",
    ),
    pytest.param(
        KeepBest(2, "error"), series(1, 2, 3, error=[0.5, 0.1, 0.3]), {2, 3}, id="best-two"
    ),
    pytest.param(
        KeepBest(1, "error"), series(1, 2, 3, error=[NAN, 0.9, NAN]), {2}, id="best-is-no-nan-min"
    ),
    pytest.param(
        KeepBest(1, "error", "max"),
        series(1, 2, 3, error=[NAN, 0.9, NAN]),
        {2},
        id="best-is-no-nan-max",
    ),
    pytest.param(KeepBest(3, "error"), series(1, 2, error=[NAN, NAN]), set(), id="best-of-nans"),
    pytest.param(
        KeepBest(1, "error"), series(1, 2, error=[math.inf, 5.0]), {2}, id="best-infinite-loses"
    ),
    pytest.param(
        KeepBest(1, "error"), series(1, 2, error=[-math.inf, 5.0]), {1}, id="best-infinite-wins"
    ),
    pytest.param(KeepBest(1, "error"), series(1, 2, error=["0.1", 5.0]), {2}, id="best-is-no-text"),
    pytest.param(
        KeepBest(2, "error"), series(1, 2, error=[None, 5.0]), {2}, id="best-needs-a-value"
    ),
    pytest.param(KeepBest(1, "other"), series(1, error=[5.0]), set(), id="best-needs-the-record"),
    pytest.param(
        KeepBest(1, "error"), series(3, 1, 2, error=[0.1] * 3), {1}, id="best-tie-goes-to-first"
    ),
    pytest.param(
        KeepBest(1, "error"),
        series(1, 2, error=[0.1, 0.2], verified=[False, None]),
        {2},
        id="best-is-not-damaged",
    ),
    pytest.param(KeepEvery(epochs=10), EPOCHS, {10, 20, 30}, id="every-ten-epochs"),
    pytest.param(KeepEvery(iterations=10), EPOCHS, {10, 20, 30}, id="every-ten-iterations"),
    pytest.param(
        KeepEvery(epochs=10),
        series(*range(3, 31, 3), epoch=list(range(3, 31, 3))),
        {12, 21, 30},
        id="every-with-no-save-at-the-multiple",
    ),
    pytest.param(
        KeepEvery(epochs=1),
        series(5, 10, 15, 20, epoch=[0, 1, 1, 2]),
        {10, 20},
        id="every-with-several-saves-an-epoch",
    ),
    pytest.param(
        KeepEvery(epochs=10),
        series(10, 11, epoch=[10, 11], verified=[False, None]),
        {11},
        id="every-passes-over-damaged",
    ),
    pytest.param(
        KeepFor(hours=1),
        series(1, 2, 3, time=[NOW - 2 * HOUR, NOW - HOUR, NOW - 1]),
        {2, 3},
        id="for-an-hour",
    ),
    pytest.param(KeepFor(hours=0.5), series(1, time=[NOW - HOUR]), set(), id="for-half-an-hour"),
    pytest.param(KeepFor(hours=1), series(1, time=[NOW + HOUR]), {1}, id="for-clock-went-back"),
    pytest.param(KeepFor(hours=1), series(1, time=[None]), {1}, id="for-time-unknown"),
    pytest.param(KeepAll(), series(1, 2), {1, 2}, id="all"),
    pytest.param(
        KeepLast(1) | KeepBest(1, "error"),
        series(1, 2, 3, error=[0.1, 0.5, 0.5]),
        {1, 3},
        id="joined",
    ),
    pytest.param(
        KeepLast(1) | KeepEvery(epochs=10) | KeepEvery(epochs=25),
        EPOCHS,
        {10, 20, 25, 30},
        id="joined-three",
    ),
]


@pytest.mark.parametrize(("policy", "saves", "kept"), KEPT)
def test_policy_keeps(policy, saves, kept):
    assert names(policy.keep(saves, NOW)) == kept


@pytest.mark.parametrize(
    ("refuse", "words"),
    [
        pytest.param(lambda: KeepLast(0), "n is 0; use a whole number", id="last-none"),
        pytest.param(lambda: KeepLast(-1), "n is -1", id="last-negative"),
        pytest.param(lambda: KeepLast(1.5), "n is 1.5", id="last-fraction"),
        pytest.param(lambda: KeepLast(True), "n is True", id="last-truth"),
        pytest.param(lambda: KeepLast("3"), "n is '3'", id="last-text"),
        pytest.param(lambda: KeepBest(0, "error"), "n is 0", id="best-none"),
        pytest.param(lambda: KeepBest(1, ""), "record is ''", id="best-of-nothing"),
        pytest.param(lambda: KeepBest(1, None), "record is None", id="best-of-none"),
        pytest.param(lambda: KeepBest(1, "e", "lowest"), "mode is 'lowest'", id="best-mode"),
        pytest.param(lambda: KeepEvery(), "either epochs or iterations", id="every-nothing"),
        pytest.param(lambda: KeepEvery(1, 1), "either epochs or iterations", id="every-both"),
        pytest.param(lambda: KeepEvery(epochs=0), "epochs is 0", id="every-zero-epochs"),
        pytest.param(lambda: KeepEvery(iterations=-5), "iterations is -5", id="every-negative"),
        pytest.param(lambda: KeepFor(0), "hours is 0", id="for-no-time"),
        pytest.param(lambda: KeepFor(NAN), "hours is nan", id="for-nan"),
        pytest.param(lambda: KeepFor(math.inf), "hours is inf", id="for-ever"),
        pytest.param(lambda: KeepFor("24"), "hours is '24'", id="for-text"),
        pytest.param(lambda: KeepAny(()), "one rule or more", id="any-of-none"),
        pytest.param(lambda: KeepAny((3,)), "one rule or more", id="any-of-numbers"),
    ],
)
def test_bad_argument_is_refused_at_construction(refuse, words):
    with pytest.raises(ValueError, match=words):
        refuse()


def test_only_policies_are_joined():
    with pytest.raises(TypeError):
        KeepLast(1) | 3


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (KeepLast(3), "last 3"),
        (KeepBest(2, "error"), "best 2 by lowest error"),
        (KeepBest(1, "accuracy", "max"), "best 1 by highest accuracy"),
        (KeepEvery(epochs=10), "every 10 epochs"),
        (KeepEvery(iterations=500), "every 500 iterations"),
        (KeepFor(24), "for 24 hours"),
        (KeepAll(), "all"),
        (KeepLast(1) | KeepAll(), "last 1 or all"),
    ],
)
def test_policy_says_itself_in_words(policy, words):
    assert str(policy) == words


def test_rule_of_a_users_own_is_joined_with_others():
    class KeepEven(Policy):
        def select(self, saves, now):
            return [save for save in saves if save.iteration % 2 == 0]

    policy = KeepEven() | KeepLast(1)
    assert names(policy.keep(series(1, 2, 3, 4, 5), NOW)) == {2, 4, 5}


def test_order_is_that_of_iterations_and_never_depends_on_that_of_the_list():
    saves = [
        Saved("b.zip", 5, 1, 20.0),
        Saved("a.zip", 5, 1, 30.0),
        Saved("c.zip", 5, 0, 40.0),
        Saved("e.zip", 5, 1, None),
        Saved("d.zip", 4, 9, 90.0),
        Saved("A.zip", 5, 1, 30.0),
    ]
    expected = ["d.zip", "c.zip", "e.zip", "b.zip", "A.zip", "a.zip"]
    assert [save.path for save in in_order(saves)] == expected
    assert [save.path for save in in_order(reversed(saves))] == expected


DELETED = [
    pytest.param(KeepLast(1), series(10, 20, 30), (), [10, 20], id="oldest-first"),
    pytest.param(KeepLast(3), series(12, 11, 10, 9, 8), (), [8, 9], id="not-the-newest"),
    pytest.param(KeepBest(1, "x"), series(10, 20, 30), (), [10, 20], id="newest-stays"),
    pytest.param(
        KeepBest(1, "x"),
        series(10, 20, 30, 40, verified=[None, None, False, False]),
        (),
        [10],
        id="last-good-stays",
    ),
    pytest.param(
        KeepLast(1),
        series(10, 20, 30, verified=[True, None, None]),
        (),
        [20],
        id="last-verified-stays",
    ),
    pytest.param(
        KeepLast(1),
        series(10, 20, 30, verified=[True, True, None]),
        (),
        [10],
        id="verified-before-the-last-verified-goes",
    ),
    pytest.param(
        KeepLast(2),
        series(10, 20, 30, 40, is_complete=[True, True, False, False]),
        (),
        [10],
        id="last-with-a-main-loop-stays",
    ),
    pytest.param(
        KeepLast(1),
        series(10, 20, 30, 40, verified=[None, True, None, None], is_complete=[1, 0, 1, 1]),
        (),
        [10, 20, 30],
        id="verified-without-a-main-loop-goes",
    ),
    pytest.param(
        KeepLast(1), series(10, 20, 30), {"10.zip", "elsewhere.zip"}, [20], id="protected-stays"
    ),
    pytest.param(
        KeepLast(1), series(10, 20, 30, verified=[False, None, None]), (), [20], id="damaged-stays"
    ),
    pytest.param(KeepAll(), series(10, 20, 30), (), [], id="all-stay"),
    pytest.param(KeepLast(1), [], (), [], id="nothing-there"),
]


@pytest.mark.parametrize(("policy", "saves", "protected", "deleted"), DELETED)
def test_what_may_go(policy, saves, protected, deleted):
    paths = to_delete(saves, policy, NOW, protected=protected)
    assert paths == [f"{iteration}.zip" for iteration in deleted]


def test_each_kept_one_has_its_reasons():
    saves = series(
        *range(1, 8),
        error=[0.1, 0.2, NAN, NAN, 0.3, 0.3, 0.4],
        verified=[None, None, True, None, None, None, False],
        is_complete=[True] * 5 + [False, True],
    )
    policy = KeepLast(2) | KeepBest(2, "error")
    assert why_kept(saves, policy, NOW, protected={"2.zip"}) == {
        "1.zip": ["best 2 by lowest error"],
        "2.zip": ["best 2 by lowest error", "in use"],
        "3.zip": ["last verified"],
        "5.zip": ["last 2", "last good"],
        "6.zip": ["last 2"],
        "7.zip": ["newest", "damaged"],
    }


def test_newest_needs_no_second_reason():
    assert why_kept(series(1, verified=[True]), KeepLast(1), NOW) == {"1.zip": ["last 1", "newest"]}


policies = st.recursive(
    st.one_of(
        st.builds(KeepLast, st.integers(1, 5)),
        st.builds(KeepBest, st.integers(1, 3), st.just("error"), st.sampled_from(["min", "max"])),
        st.builds(KeepEvery, epochs=st.integers(1, 4)),
        st.builds(KeepEvery, iterations=st.integers(1, 40)),
        st.builds(KeepFor, st.floats(0.1, 100)),
        st.just(KeepAll()),
    ),
    lambda parts: st.builds(lambda one, other: one | other, parts, parts),
    max_leaves=3,
)
saved = st.builds(
    Saved,
    path=st.text(max_size=3),
    iteration=st.integers(0, 100),
    epoch=st.integers(0, 10),
    time=st.none() | st.floats(NOW - 100 * HOUR, NOW + HOUR),
    records=st.fixed_dictionaries({}, optional={"error": st.none() | st.floats()}),
    verified=st.sampled_from([None, True, False]),
    is_complete=st.booleans(),
)
lists = st.lists(saved, max_size=8, unique_by=lambda save: save.path)


@settings(deadline=None)
@given(lists, policies, st.sets(st.text(max_size=3)))
def test_never_deleted_whatever_the_policy(saves, policy, protected):
    deleted = set(to_delete(saves, policy, NOW, protected=protected))
    assert deleted <= {save.path for save in saves}
    assert deleted.isdisjoint(protected)
    assert deleted.isdisjoint(save.path for save in saves if save.verified is False)
    ordered = in_order(saves)
    good = [save for save in ordered if save.verified is not False and save.is_complete]
    sure = [save for save in good if save.verified]
    for kept in (ordered, good, sure):
        assert not kept or kept[-1].path not in deleted


@settings(deadline=None)
@given(lists, policies)
def test_what_is_deleted_is_what_no_rule_keeps(saves, policy):
    deleted = set(to_delete(saves, policy, NOW))
    assert deleted.isdisjoint(policy.keep(saves, NOW))
    assert len(saves) - len(deleted) <= len(policy.keep(saves, NOW)) + 3 + sum(
        save.verified is False for save in saves
    )


@settings(deadline=None)
@given(lists, policies, st.randoms(use_true_random=False))
def test_order_of_the_list_changes_nothing(saves, policy, random):
    shuffled = random.sample(saves, len(saves))
    assert to_delete(saves, policy, NOW) == to_delete(shuffled, policy, NOW)


@settings(deadline=None)
@given(lists, policies)
def test_deleting_again_deletes_nothing(saves, policy):
    """What is kept of a list is kept of what remains of it."""
    deleted = to_delete(saves, policy, NOW)
    remaining = [save for save in saves if save.path not in deleted]
    assert to_delete(remaining, policy, NOW) == []


@settings(deadline=None)
@given(lists, policies, policies)
def test_joining_keeps_what_either_keeps(saves, one, other):
    assert (one | other).keep(saves, NOW) == one.keep(saves, NOW) | other.keep(saves, NOW)


def test_policies_need_neither_numpy_nor_files():
    program = (
        "import sys\n"
        "for name in ('numpy', 'zipfile', 'pytensor', 'theano', 'aesara'):\n"
        "    sys.modules[name] = None\n"
        "import blocks_checkpoint.retention.policy_forms\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
