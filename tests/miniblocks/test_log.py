"""Rows of the log, and the identity it has."""

import pickle

import pytest

from blocks_checkpoint.miniblocks.log import BACKENDS, TrainingLog


def test_row_that_is_asked_for_is_made():
    log = TrainingLog()
    log[2]["cost"] = 0.5
    assert log[2] == {"cost": 0.5}
    assert log[7] == {}
    assert sorted(log) == [2, 7]


@pytest.mark.parametrize("time", [-1, 1.0, "1", None])
def test_row_is_a_non_negative_integer(time):
    log = TrainingLog()
    with pytest.raises(ValueError, match="non-negative integer"):
        log[time]
    with pytest.raises(ValueError, match="non-negative integer"):
        log[time] = {}


def test_named_rows_follow_the_status():
    log = TrainingLog()
    for time in range(6):
        log[time]["time"] = time
    log.status.update(iterations_done=5, _epoch_ends=[2, 4])
    assert log.current_row == {"time": 5}
    assert log.previous_row == {"time": 4}
    assert log.last_epoch_row == {"time": 4}


def test_resumed_log_is_another_one_and_says_whose():
    log = TrainingLog()
    first = log.h_uuid
    log.resume()
    assert log.h_uuid != first
    assert log.status["resumed_from"] == first


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_log_pickles_with_rows_status_and_identity(protocol):
    log = TrainingLog()
    log[3]["cost"] = 0.25
    log.status["best_cost"] = 0.25
    log.resume()
    loaded = pickle.loads(pickle.dumps(log, protocol))
    assert type(loaded) is TrainingLog
    assert (dict(loaded), loaded.status, loaded.uuid) == (dict(log), log.status, log.uuid)
    assert loaded[9] == {}


def test_python_is_the_one_backend():
    assert {"python": TrainingLog} == BACKENDS
