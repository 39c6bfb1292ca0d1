"""Where saves go, one after another."""

import os
import pickle
import re

import pytest

from blocks_checkpoint.errors import SaveError
from blocks_checkpoint.miniblocks.log import TrainingLog
from blocks_checkpoint.retention import KeepBest, KeepLast
from blocks_checkpoint.retention.best import BestSoFar
from blocks_checkpoint.retention.destination import Destination

NAME = "run-{iterations_done:03d}-{error:.2f}.zip"


def make_log():
    log = TrainingLog()
    log[0]["error"] = 1.0
    return log


@pytest.fixture
def train(write_checkpoint):
    """Return a function that goes on by ten iterations for each error, saving at each."""

    def train(destination, log, errors, **options):
        for error in errors:
            log.status["iterations_done"] += 10
            log.status["epochs_done"] += 1
            if error is not None:
                log.current_row["error"] = error
            target = destination.next(log)
            if target is None:
                continue
            target.begin()
            done = log.status["iterations_done"]
            os.makedirs(os.path.dirname(target.path), exist_ok=True)
            write_checkpoint(target.path, iteration=done, **target.manifest)
            target.done(**options)

    return train


def there(folder):
    return sorted(os.listdir(folder))


def test_plain_path_is_used_as_it_is_and_makes_no_series(tmp_path):
    log = make_log()
    before = dict(log.status)
    target = Destination(tmp_path / "a{{b}}.zip").next(log)
    assert target.path == str(tmp_path / "a{{b}}.zip")
    assert target.manifest == {"records": {"error": 1.0}}
    assert (log.status, target.done()) == (before, [])


def test_series_rotates(tmp_path, train):
    destination = Destination(tmp_path / "runs" / NAME, policy=KeepLast(2) | KeepBest(1, "error"))
    train(destination, make_log(), [0.5, 0.1, None, 0.3, 0.2])
    assert there(tmp_path / "runs") == ["run-020-0.10.zip", "run-040-0.30.zip", "run-050-0.20.zip"]


def test_series_goes_on_with_the_log_and_no_further(tmp_path, train):
    log = make_log()
    train(Destination(tmp_path / NAME, policy=KeepLast(2)), log, [0.5, 0.4, 0.3])
    # A log that is loaded goes on with the series ...
    resumed = pickle.loads(pickle.dumps(log))
    protected = [tmp_path / "run-030-0.30.zip"]
    destination = Destination(tmp_path / NAME, policy=KeepLast(2))
    train(destination, resumed, [0.2, 0.1, 0.05], protected=protected)
    expected = ["run-030-0.30.zip", "run-050-0.10.zip", "run-060-0.05.zip"]
    assert there(tmp_path) == expected
    # ... and a new one begins another.
    train(Destination(tmp_path / NAME, policy=KeepLast(1)), make_log(), [0.9, 0.8])
    assert there(tmp_path) == ["run-020-0.80.zip", *expected]


def test_pickled_destination_goes_on(tmp_path, train):
    log = make_log()
    destination = Destination(tmp_path / NAME, policy=KeepLast(1), latest=True)
    train(destination, log, [0.5])
    destination, log = pickle.loads(pickle.dumps((destination, log)))
    train(destination, log, [0.4])
    assert there(tmp_path) == ["latest.zip", "run-020-0.40.zip"]


def test_two_destinations_of_one_run_leave_each_other_alone(tmp_path, train):
    log = make_log()
    train(Destination(tmp_path / "run-{iterations_done}.zip", policy=KeepLast(1)), log, [0.5, 0.4])
    train(Destination(tmp_path / "run-e{epochs_done}.zip", policy=KeepLast(1)), log, [0.3, 0.2])
    assert there(tmp_path) == ["run-20.zip", "run-e4.zip"]


def test_link_is_at_the_newest_and_holds_nothing_back(tmp_path, train):
    destination = Destination(tmp_path / NAME, policy=KeepLast(1), latest=True)
    train(destination, make_log(), [0.5, 0.4, 0.3])
    assert there(tmp_path) == ["latest.zip", "run-030-0.30.zip"]
    assert os.readlink(tmp_path / "latest.zip") == "run-030-0.30.zip"


def test_incomplete_file_moves_no_link_and_is_rotated_too(tmp_path, train, write_checkpoint):
    log = make_log()
    destination = Destination(tmp_path / NAME, policy=KeepLast(1), latest=True)
    train(destination, log, [0.5])
    for _ in range(2):
        log.status["iterations_done"] += 10
        target = destination.next(log)
        target.begin()
        target.failed()
        target.manifest["main_loop_error"] = "a lambda"
        iteration = log.status["iterations_done"]
        write_checkpoint(target.path, iteration=iteration, **target.manifest)
        target.done(saved_to=target.path)
    assert there(tmp_path) == ["latest.zip", "run-010-0.50.zip", "run-030-0.50.zip"]
    assert os.readlink(tmp_path / "latest.zip") == "run-010-0.50.zip"


def test_only_the_best_is_saved(tmp_path, train):
    log = make_log()
    destination = Destination(tmp_path / "best.zip", best=BestSoFar("error"))
    train(destination, log, [0.5, 0.6, float("nan"), 0.4, None, 0.4, 0.45])
    assert log.status["best_checkpoint_error"] == 0.4
    # Resumed, with the log; and another run, with a log of its own.
    before = (tmp_path / "best.zip").read_bytes()
    train(Destination(tmp_path / "best.zip", best=BestSoFar("error")), log, [0.41])
    train(Destination(tmp_path / "best.zip", best=BestSoFar("error")), make_log(), [0.7, 0.41])
    assert (tmp_path / "best.zip").read_bytes() == before
    train(Destination(tmp_path / "best.zip", best=BestSoFar("error")), make_log(), [0.3])
    assert (tmp_path / "best.zip").read_bytes() != before


def test_best_that_failed_to_be_saved_is_tried_again(tmp_path):
    log = make_log()
    destination = Destination(tmp_path / "best.zip", best=BestSoFar("error"))
    target = destination.next(log)
    target.begin()
    assert destination.next(log) is None
    target.failed()
    assert destination.next(log) is not None


def test_record_that_is_never_made_is_complained_of_in_the_end(tmp_path, caplog):
    destination = Destination(tmp_path / "best.zip", best=BestSoFar("eror"))
    assert destination.next(make_log()) is None
    destination.end(make_log())
    assert "'eror' was never recorded" in caplog.text


def test_missing_field_is_an_error_at_the_first_save(tmp_path):
    with pytest.raises(SaveError, match=r"has \{valid_error\}.* There are: .*error, host"):
        Destination(tmp_path / "{valid_error}.zip").next(make_log())


def test_date_and_host_are_there(tmp_path):
    path = Destination("{date}-{time}-{host}.zip").next(make_log()).path
    assert re.fullmatch(r"\d{4}-\d\d-\d\d-\d\d-\d\d-\d\d-.+\.zip", path)


def test_policy_without_fields_is_refused():
    with pytest.raises(ValueError, match="'run.zip' has no fields"):
        Destination("run.zip", policy=KeepLast(1))


def test_mistake_in_a_field_is_refused():
    with pytest.raises(ValueError, match="is the name of something"):
        Destination("{log.status}.zip")
