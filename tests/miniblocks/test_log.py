"""Rows of the log, and the identity it has."""

import copy
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


def log_of(*times):
    log = TrainingLog()
    for time in times:
        log[time]["time"] = time
    return log


EVERY_ROW = {0, 1, 2}


@pytest.mark.parametrize(
    ("get_hold", "touched"),
    [
        pytest.param(lambda log: log[1], {1}, id="index"),
        pytest.param(lambda log: log[7], {7}, id="index-missing"),
        pytest.param(lambda log: log.current_row, {0}, id="current"),
        pytest.param(lambda log: log.get(1), {1}, id="get"),
        pytest.param(lambda log: log.get(7), set(), id="get-missing"),
        pytest.param(lambda log: log.setdefault(1, {}), {1}, id="setdefault"),
        pytest.param(lambda log: log.setdefault(7, {}), {7}, id="setdefault-missing"),
        pytest.param(lambda log: next(iter(log.values())), {0}, id="first-value"),
        pytest.param(lambda log: list(log.values()), EVERY_ROW, id="values"),
        pytest.param(lambda log: next(reversed(log.values())), {2}, id="last-value"),
        pytest.param(lambda log: list(log.items()), EVERY_ROW, id="items"),
        pytest.param(lambda log: next(reversed(log.items())), {2}, id="last-item"),
        pytest.param(dict, EVERY_ROW, id="dict"),
        pytest.param(lambda log: {**log}, EVERY_ROW, id="double-star"),
        pytest.param(lambda log: {}.update(log), EVERY_ROW, id="update-another"),
        pytest.param(lambda log: list(zip(*log.items())), EVERY_ROW, id="zip"),
        pytest.param(list, set(), id="keys"),
        pytest.param(lambda log: [len(log), 1 in log, log == {}], set(), id="no-row"),
        pytest.param(lambda log: (1, {"time": 1}) in log.items(), set(), id="in-items"),
        pytest.param(lambda log: {"time": 1} in log.values(), set(), id="in-values"),
    ],
)
def test_row_that_is_given_out_is_noted(get_hold, touched):
    log = log_of(0, 1, 2)
    watch = log.watch()
    get_hold(log)
    assert watch.touched == touched
    assert not watch.lost_rows


@pytest.mark.parametrize(
    ("put", "touched"),
    [
        pytest.param(lambda log: log.__setitem__(1, {}), {1}, id="replace"),
        pytest.param(lambda log: log.update({1: {}, 7: {}}), {1, 7}, id="update"),
        pytest.param(lambda log: log.update([(1, {})]), {1}, id="update-pairs"),
        pytest.param(lambda log: log.__ior__({1: {}}), {1}, id="or"),
    ],
)
def test_row_that_is_put_in_is_noted(put, touched):
    log = log_of(0, 1, 2)
    watch = log.watch()
    put(log)
    assert watch.touched == touched
    assert log[1] == {}


@pytest.mark.parametrize(
    "lose",
    [
        pytest.param(lambda log: log.__delitem__(1), id="del"),
        pytest.param(lambda log: log.pop(1), id="pop"),
        pytest.param(lambda log: log.popitem(), id="popitem"),
        pytest.param(lambda log: log.clear(), id="clear"),
        pytest.param(pickle.dumps, id="pickle"),
        pytest.param(copy.deepcopy, id="deepcopy"),
    ],
)
def test_loss_of_rows_is_noted(lose):
    log = log_of(0, 1, 2)
    watch = log.watch()
    lose(log)
    assert watch.lost_rows


@pytest.mark.parametrize(
    "take", [copy.copy, lambda log: log.copy(), lambda log: log | {}, lambda log: {} | log]
)
def test_rows_cannot_be_taken_unnoticed_by_copying(take):
    log = log_of(0, 1, 2)
    log.watch()
    with pytest.raises(TypeError):
        take(log)


def test_watch_is_no_part_of_the_state():
    log = log_of(0, 1)
    before = pickle.dumps(log)
    watch = log.watch()
    assert pickle.dumps(log) == before
    log.unwatch(watch)
    log[0]["a"] = 1
    assert watch.touched == set()


def test_two_watches_note_the_same():
    log = log_of(0, 1)
    watches = [log.watch(), log.watch()]
    log[1]["a"] = 1
    watches[0].touched.clear()
    log[0]["a"] = 1
    assert [watch.touched for watch in watches] == [{0}, {0, 1}]


def test_views_are_as_those_of_a_dictionary():
    log, plain = log_of(2, 0, 1), {time: {"time": time} for time in (2, 0, 1)}
    assert list(log.values()) == list(plain.values())
    assert list(reversed(log.items())) == list(reversed(list(plain.items())))
    assert len(log.values()) == len(log.items()) == 3
    assert (0, {"time": 0}) in log.items()
    assert (9, {}) not in log.items()
    assert 9 not in log
