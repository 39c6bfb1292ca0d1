"""Following the best value, early stopping, changing a learning rate."""

import pickle
from unittest.mock import Mock

import numpy
import pytest

from blocks_checkpoint.miniblocks.extensions import FinishAfter, TrainingExtension
from blocks_checkpoint.miniblocks.extensions.predicates import OnLogRecord
from blocks_checkpoint.miniblocks.extensions.stopping import (
    EarlyStopping,
    FinishIfNoImprovementAfter,
)
from blocks_checkpoint.miniblocks.extensions.training import (
    SharedVariableModifier,
    TrackTheBest,
)
from blocks_checkpoint.miniblocks.utils import shared_floatx
from blocks_checkpoint.miniblocks.utils.testing import MockMainLoop


class Costs(TrainingExtension):
    """Writes a given cost into the log after each batch."""

    def __init__(self, values):
        super().__init__()
        self.values = values

    def after_batch(self, batch):
        done = self.main_loop.status["iterations_done"]
        self.main_loop.log.current_row["cost"] = self.values[done - 1]


def bests(values, **kwargs):
    loop = MockMainLoop(
        extensions=[
            Costs(values),
            TrackTheBest("cost", after_epoch=False, after_batch=True, **kwargs),
            FinishAfter(after_n_batches=len(values)),
        ]
    )
    loop.run()
    rows = [time for time in loop.log if loop.log[time].get("cost_best_so_far")]
    return rows, loop.status.get("best_cost")


@pytest.mark.parametrize(
    ("values", "kwargs", "expected"),
    [
        pytest.param([5, 6, 5, 4], {}, ([1, 4], 4), id="least-and-no-tie"),
        pytest.param([5, 6, 5, 7], {"choose_best": max}, ([1, 2, 4], 7), id="greatest"),
        pytest.param([numpy.nan, 5, numpy.nan, 4], {}, ([2, 4], 4), id="nan-is-never-best"),
        pytest.param([None, None], {}, ([], None), id="no-record"),
    ],
)
def test_best_value_is_noted_when_it_comes(values, kwargs, expected):
    assert bests(values, **kwargs) == expected


def test_best_value_survives_a_pickle():
    values = [5, 4, 6, 3]
    loop = MockMainLoop(
        extensions=[
            Costs(values),
            TrackTheBest("cost", after_epoch=False, after_batch=True),
            FinishAfter(after_n_batches=2),
        ]
    )
    loop.run()
    loop = pickle.loads(pickle.dumps(loop))
    loop.find_extension("FinishAfter").set_conditions(after_n_batches=4)
    loop.run()
    assert [bool(loop.log[time].get("cost_best_so_far")) for time in (1, 2, 3, 4)] == [
        True,
        True,
        False,
        True,
    ]


def test_modifier_sets_the_variable_from_the_iteration():
    rate = shared_floatx(1.0, "rate")
    modifier = SharedVariableModifier(rate, lambda iteration: numpy.float64(10 / iteration))
    MockMainLoop(extensions=[modifier, FinishAfter(after_n_batches=5)]).run()
    assert rate.get_value() == 2


def test_modifier_may_use_the_old_value():
    rate = shared_floatx(1.0, "rate")
    modifier = SharedVariableModifier(rate, lambda iteration, old: old / 2)
    MockMainLoop(extensions=[modifier, FinishAfter(after_n_batches=3)]).run()
    assert rate.get_value() == 0.125


def stopping_loop(values, **kwargs):
    return MockMainLoop(
        extensions=[
            Costs(values),
            EarlyStopping("cost", after_epoch=False, after_batch=True, **kwargs),
            FinishAfter(after_n_batches=len(values)),
        ]
    )


@pytest.mark.parametrize(
    ("values", "patience", "ended_at"),
    [
        pytest.param([5, 4, 6, 6, 6, 6, 6, 6], 3, 5, id="no-better-one-comes"),
        pytest.param([5, 6, 6, 4, 6, 6, 6, 3], 3, 7, id="a-better-one-came-in-time"),
        pytest.param([5, 4, 3, 2, 1], 3, 5, id="always-better"),
    ],
)
def test_run_ends_when_patience_is_used_up(values, patience, ended_at):
    loop = stopping_loop(values, iterations=patience)
    loop.run()
    assert loop.status["iterations_done"] == ended_at
    assert loop.log[1]["cost_best_so_far_patience_iterations"] == patience


def test_patience_goes_on_in_a_newly_built_main_loop_with_the_old_log():
    values = [5, 4, 6, 6, 6, 6, 6, 6]
    old = stopping_loop(values, iterations=3)
    old.extensions.append(FinishAfter(after_n_batches=3))
    old.run()
    new = stopping_loop(values, iterations=3)
    new.log = old.log
    new.run()
    assert new.status["iterations_done"] == 5


def test_run_that_lost_patience_goes_on_with_more_of_it():
    values = [5, 6, 6, 6, 6, 6, 6, 6, 6, 6]
    loop = stopping_loop(values, iterations=2)
    loop.run()
    assert loop.status["iterations_done"] == 3
    loop.run()
    assert loop.status["iterations_done"] == 3
    loop.extensions[1].sub_extensions[1].iterations = 4
    loop.run()
    assert loop.status["iterations_done"] == 5


@pytest.mark.parametrize("kwargs", [{}, {"epochs": 1, "iterations": 1}])
def test_patience_is_counted_in_epochs_or_in_iterations(kwargs):
    with pytest.raises(ValueError, match="either"):
        FinishIfNoImprovementAfter("best", **kwargs)


@pytest.mark.parametrize(
    ("triggers", "events"),
    [
        ({}, [["after_epoch"], ["after_batch"]]),
        ({"after_epoch": False, "after_batch": True}, [["after_batch"]]),
    ],
)
def test_early_stopping_tells_the_checkpoint_to_save_the_best(triggers, events):
    checkpoint = Mock()
    EarlyStopping("cost", checkpoint, "best.zip", epochs=2, **triggers)
    calls = [call.args for call in checkpoint.add_condition.call_args_list]
    best = OnLogRecord("cost_best_so_far")
    assert calls == [(event, best, ("best.zip",)) for event in events]


def test_early_stopping_takes_in_a_checkpoint_that_the_main_loop_lacks():
    checkpoint = Mock()
    stopping = EarlyStopping("cost", checkpoint, "best.zip", epochs=2)
    loop = MockMainLoop(extensions=[stopping])
    stopping.main_loop = loop
    stopping.dispatch("before_training")
    assert checkpoint in stopping.sub_extensions
    assert checkpoint.main_loop is loop


def test_early_stopping_warns_of_a_checkpoint_in_front_of_it(caplog):
    checkpoint = Mock()
    stopping = EarlyStopping("cost", checkpoint, "best.zip", epochs=2)
    stopping.main_loop = MockMainLoop(extensions=[checkpoint, stopping])
    stopping.dispatch("before_training")
    assert "behind EarlyStopping" in caplog.text
    assert checkpoint not in stopping.sub_extensions


def test_early_stopping_wants_checkpoint_and_path_together():
    with pytest.raises(ValueError, match="both"):
        EarlyStopping("cost", Mock(), epochs=2)
