"""Whether a run that starts from a given state may train."""

from functools import partial

import pytest

from blocks_checkpoint.miniblocks.extensions import CompositeExtension, FinishAfter
from blocks_checkpoint.miniblocks.extensions.predicates import OnLogRecord
from blocks_checkpoint.miniblocks.extensions.stopping import (
    EarlyStopping,
    FinishIfNoImprovementAfter,
)
from blocks_checkpoint.miniblocks.limits import (
    Limit,
    Verdict,
    decide,
    describe,
    limits_in_force,
)

TRAIN, FINISH, FINISHED = Verdict.TRAIN, Verdict.FINISH, Verdict.FINISHED

#: Two epochs of five batches are done.
AT_EPOCH_END = {"iterations_done": 10, "epochs_done": 2, "_epoch_ends": [5, 10]}
#: And two batches of the third.
IN_MID_EPOCH = {"iterations_done": 12, "epochs_done": 2, "_epoch_ends": [5, 10]}


def epochs(number):
    return Limit(f"after_n_epochs={number}", "epochs_done", number)


def iterations(number):
    return Limit(f"after_n_batches={number}", "iterations_done", number)


OPAQUE = Limit("after_epoch: OnLogRecord('x')")


@pytest.mark.parametrize(
    ("then", "now", "verdict"),
    [
        pytest.param([epochs(2)], [epochs(2)], FINISHED, id="started-again"),
        pytest.param([epochs(2)], [epochs(3)], TRAIN, id="raised"),
        pytest.param([epochs(2)], [epochs(1)], FINISHED, id="lowered"),
        pytest.param([epochs(2)], [epochs(2), epochs(3)], TRAIN, id="one-added"),
        pytest.param([epochs(2)], [epochs(2), iterations(7)], FINISHED, id="one-added-behind"),
        pytest.param([epochs(2)], [epochs(2), OPAQUE], TRAIN, id="predicate-added"),
        pytest.param([epochs(2), OPAQUE], [OPAQUE, epochs(2)], FINISHED, id="predicate-as-before"),
        pytest.param([epochs(2), epochs(9)], [epochs(2), epochs(9)], FINISHED, id="first-of-two"),
        pytest.param([epochs(9), OPAQUE], [epochs(9)], TRAIN, id="early-stopping-removed"),
        pytest.param([epochs(2)], [], FINISHED, id="all-removed"),
        pytest.param([], [], FINISHED, id="asked-for-by-hand"),
        pytest.param(None, [epochs(2)], FINISHED, id="written-by-blocks"),
        pytest.param(None, [epochs(2), iterations(99)], FINISHED, id="written-by-blocks-two"),
        pytest.param(None, [epochs(3)], TRAIN, id="written-by-blocks-raised"),
        pytest.param(None, [OPAQUE], FINISHED, id="written-by-blocks-predicate"),
    ],
)
def test_finish_that_was_requested_stands_until_the_limits_change(then, now, verdict):
    recorded = None if then is None else [limit.description for limit in then]
    decided = decide(AT_EPOCH_END, now, is_requested=True, is_finished=True, recorded=recorded)
    assert decided is verdict


def test_request_that_was_not_carried_out_is_carried_out():
    recorded = ["after_n_epochs=2"]
    assert (
        decide(AT_EPOCH_END, [epochs(2)], is_requested=True, is_finished=False, recorded=recorded)
        is FINISH
    )


@pytest.mark.parametrize(
    ("status", "limits", "verdict"),
    [
        pytest.param(AT_EPOCH_END, [], TRAIN, id="no-limit"),
        pytest.param(AT_EPOCH_END, [epochs(3)], TRAIN, id="ahead"),
        pytest.param(AT_EPOCH_END, [OPAQUE], TRAIN, id="predicate"),
        pytest.param(AT_EPOCH_END, [epochs(2)], FINISH, id="saved-before-the-request"),
        pytest.param(AT_EPOCH_END, [iterations(10)], FINISH, id="batch-count-reached"),
        pytest.param(AT_EPOCH_END, [epochs(2), iterations(99)], FINISH, id="first-of-two"),
        pytest.param(AT_EPOCH_END, [epochs(1)], FINISH, id="passed"),
        pytest.param(AT_EPOCH_END, [epochs(1), epochs(3)], TRAIN, id="passed-and-raised"),
        pytest.param(AT_EPOCH_END, [epochs(1), OPAQUE], TRAIN, id="passed-and-predicate"),
        pytest.param(IN_MID_EPOCH, [epochs(2), epochs(3)], TRAIN, id="reached-batches-ago"),
        pytest.param(IN_MID_EPOCH, [epochs(2)], FINISH, id="passed-batches-ago"),
    ],
)
def test_without_a_request_the_counts_decide(status, limits, verdict):
    decided = decide(status, limits, is_requested=False, is_finished=False, recorded=None)
    assert decided is verdict


def a_predicate(log):
    return False


@pytest.mark.parametrize(
    ("thing", "description"),
    [
        (a_predicate, "a_predicate"),
        (partial(a_predicate), "a_predicate"),
        (OnLogRecord("stop"), "OnLogRecord(record_name='stop')"),
    ],
)
def test_description_is_what_the_script_says(thing, description):
    assert describe(thing) == description


def test_limits_of_the_extensions_are_found_inside_composites_too():
    extensions = [
        FinishAfter(after_n_epochs=2, after_n_batches=7).add_condition(
            ["after_epoch"], a_predicate
        ),
        CompositeExtension([FinishAfter(after_epoch=True)]),
        EarlyStopping("cost", epochs=3),
    ]
    assert limits_in_force(extensions) == [
        epochs(2),
        iterations(7),
        Limit("after_epoch: a_predicate"),
        Limit("after_epoch: always_true"),
        Limit("FinishIfNoImprovementAfter(cost_best_so_far, epochs=3)"),
    ]


def test_description_of_patience_does_not_change_as_it_runs_out():
    extension = FinishIfNoImprovementAfter("best", iterations=3)
    before = extension.limits()
    extension.last_seen = 7
    assert extension.limits() == before
