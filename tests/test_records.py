"""The last value of each record."""

import pickle

import numpy
import pytest

from blocks_checkpoint.miniblocks.log import TrainingLog
from blocks_checkpoint.retention import records
from blocks_checkpoint.retention.records import LastRecords, current_value


class CountingLog(TrainingLog):
    """Counts how many rows are looked at."""

    def __init__(self):
        super().__init__()
        self.looks = 0

    def get(self, time, default=None):
        self.looks += 1
        return super().get(time, default)


def make_log(done, rows):
    log = CountingLog()
    log.status["iterations_done"] = done
    for iteration, row in rows.items():
        log[iteration].update(row)
    return log


def test_current_row_wins_and_older_rows_fill_in():
    log = make_log(9, {2: {"cost": 5.0, "error": 0.5}, 9: {"cost": 3.0}, 12: {"cost": 1.0}})
    assert LastRecords().update(log) == {"cost": 3.0, "error": 0.5}


def test_looking_makes_no_rows():
    log = make_log(9, {2: {"cost": 5.0}})
    LastRecords().update(log, ["error"])
    assert current_value(log, "cost") is None
    assert set(log) == {2}


@pytest.mark.parametrize(
    ("value", "known"),
    [
        pytest.param(numpy.float32(0.5), 0.5, id="scalar"),
        pytest.param(numpy.array(0.5), 0.5, id="array-of-no-dimensions"),
        pytest.param(numpy.int64(3), 3, id="integer"),
        pytest.param(True, True, id="truth"),
        pytest.param("adam", "adam", id="short-text"),
    ],
)
def test_value_becomes_pythons_own(value, known):
    found = LastRecords().update(make_log(1, {1: {"x": value}}))
    assert found == {"x": known}
    assert type(found["x"]) is type(known)


@pytest.mark.parametrize(
    "value",
    [None, ("run.zip",), numpy.zeros(3), "x" * 1000, {"a": 1}, numpy.array(None), 1j],
    ids=["none", "tuple", "array", "long-text", "dict", "object-array", "complex"],
)
def test_value_that_is_neither_number_nor_short_text_is_left_out(value):
    assert LastRecords().update(make_log(1, {1: {"x": value, 3: 4}})) == {}


def test_each_row_is_looked_at_once():
    log = make_log(1000, {})
    last = LastRecords()
    last.update(log, ["error"])
    log.looks = 0
    log.status["iterations_done"] = 1010
    log[1005]["error"] = 0.5
    assert last.update(log, ["error"]) == {"error": 0.5}
    assert log.looks <= 11


def test_record_that_is_not_there_is_looked_for_once():
    log = make_log(1000, {})
    last = LastRecords()
    last.update(log, ["error"])
    log.looks = 0
    assert last.update(log, ["error"]) == {}
    assert log.looks == 1


def test_what_is_added_to_the_row_seen_last_is_noticed():
    log = make_log(5, {5: {"cost": 1.0}})
    last = LastRecords()
    last.update(log)
    log[5]["error"] = 0.5
    assert last.update(log) == {"cost": 1.0, "error": 0.5}


def test_other_log_is_looked_at_anew():
    last = LastRecords()
    last.update(make_log(5, {5: {"cost": 1.0}}))
    assert last.update(make_log(9, {2: {"error": 0.5}})) == {"error": 0.5}


def test_log_that_went_back_is_looked_at_anew():
    log = make_log(9, {2: {"cost": 5.0}, 9: {"cost": 3.0}})
    last = LastRecords()
    last.update(log)
    log.status["iterations_done"] = 4
    assert last.update(log) == {"cost": 5.0}


def test_named_record_is_looked_for_as_far_back_as_it_takes(monkeypatch):
    monkeypatch.setattr(records, "LOOK_BACK_ITERATIONS", 10)
    log = make_log(100, {3: {"error": 0.5, "cost": 7.0}, 40: {"error": 0.2}})
    assert LastRecords().update(log) == {}
    assert LastRecords().update(log, ["error"]) == {"error": 0.2}


def test_pickle_takes_nothing_along():
    last = LastRecords()
    last.update(make_log(5, {5: {"cost": 1.0}}))
    assert vars(pickle.loads(pickle.dumps(last))) == vars(LastRecords())
