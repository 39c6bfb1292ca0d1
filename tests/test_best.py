"""Saving only the best."""

import logging
import math

import numpy
import pytest

from blocks_checkpoint.miniblocks.log import TrainingLog
from blocks_checkpoint.retention.best import BestSoFar, recorded_in


def log_with(value, best=None, key="best_checkpoint_error"):
    log = TrainingLog()
    log.status["iterations_done"] = 5
    log[4]["error"] = -1000.0
    if value is not None:
        log[5]["error"] = value
    if best is not None:
        log.status[key] = best
    return log


@pytest.fixture
def path(tmp_path):
    return tmp_path / "best.zip"


@pytest.mark.parametrize(
    ("value", "in_status", "in_file", "is_due"),
    [
        pytest.param(0.3, None, None, True, id="first"),
        pytest.param(0.3, 0.4, 0.4, True, id="better"),
        pytest.param(0.5, 0.4, 0.4, False, id="worse"),
        pytest.param(0.4, 0.4, 0.4, False, id="equal"),
        pytest.param(0.3, None, 0.4, True, id="other-log-better"),
        pytest.param(0.5, None, 0.4, False, id="other-log-worse"),
        pytest.param(0.5, 0.9, 0.4, False, id="file-is-better-than-the-log-knows"),
        pytest.param(0.5, 0.4, None, False, id="file-was-removed"),
        pytest.param(None, None, None, False, id="not-recorded-now"),
        pytest.param(math.nan, None, None, False, id="nan"),
        pytest.param(0.3, math.nan, None, True, id="after-nan"),
        pytest.param(numpy.float32(0.3), 0.4, 0.4, True, id="numpy"),
        pytest.param(numpy.array(0.3), None, 0.4, True, id="array-of-no-dimensions"),
    ],
)
def test_save_is_due(path, write_checkpoint, value, in_status, in_file, is_due):
    if in_file is not None:
        write_checkpoint(path, records={"error": in_file})
    log = log_with(value, in_status)
    assert BestSoFar("error").is_due(log, path) is is_due
    assert dict(log) == dict(log_with(value, in_status))


def test_higher_may_be_better(path):
    best = BestSoFar("error", "max")
    assert best.is_due(log_with(0.9, 0.5), path)
    assert not best.is_due(log_with(0.4, 0.5), path)


@pytest.mark.parametrize("content", [b"", b"text", None])
def test_file_that_cannot_be_compared_is_replaced_with_a_warning(
    path, write_checkpoint, caplog, content
):
    if content is None:
        write_checkpoint(path)
    else:
        path.write_bytes(content)
    assert BestSoFar("error").is_due(log_with(0.3), path)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert str(path) in caplog.text


@pytest.mark.parametrize("records", [[1], "error", {"error": "0.1"}, {"error": [0.1]}, None])
def test_what_a_stranger_recorded_is_no_value(path, write_checkpoint, records):
    assert recorded_in(write_checkpoint(path, records=records), "error") is None


def test_best_value_is_in_the_status_and_can_be_taken_back(path):
    best = BestSoFar("error")
    log = log_with(numpy.float32(0.25))
    noted = best.note(log)
    assert log.status["best_checkpoint_error"] == 0.25
    assert type(log.status["best_checkpoint_error"]) is float
    assert not best.is_due(log, path)
    best.take_back(log, noted)
    assert best.is_due(log, path)
    log = log_with(0.25, 0.5)
    best.take_back(log, best.note(log))
    assert log.status["best_checkpoint_error"] == 0.5


def test_save_that_fails_after_a_better_one_was_begun_takes_nothing_back():
    best = BestSoFar("error")
    log = log_with(0.5, 0.9)
    worse = best.note(log)
    log[5]["error"] = 0.4
    best.note(log)
    best.take_back(log, worse)
    assert log.status["best_checkpoint_error"] == 0.4


def test_record_that_was_never_made_is_an_error_in_the_log(caplog):
    BestSoFar("eror").complain({"error": 0.5, "cost": 1.0})
    assert "'eror' was never recorded, and nothing was saved. There are: cost, error" in caplog.text
    caplog.clear()
    BestSoFar("error").complain({"error": 0.5})
    assert caplog.records == []


@pytest.mark.parametrize(
    ("spec", "best"),
    [
        ("error", BestSoFar("error", "min")),
        (("accuracy", "max"), BestSoFar("accuracy", "max")),
        (BestSoFar("accuracy", "max"), BestSoFar("accuracy", "max")),
    ],
)
def test_shorthand_means(spec, best):
    assert BestSoFar.of(spec) == best


@pytest.mark.parametrize(
    "spec", ["", None, 3, True, ("accuracy", "up"), ("a", "max", 1), (1, "max")]
)
def test_bad_shorthand_is_refused(spec):
    with pytest.raises(ValueError, match="only_if_best"):
        BestSoFar.of(spec)
