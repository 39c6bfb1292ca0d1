"""What the log says of saves, when several begin in one row."""

import pytest

from blocks_checkpoint.extensions.record import SaveRecord
from blocks_checkpoint.miniblocks.log import TrainingLog


@pytest.fixture
def log():
    return TrainingLog()


def begun(log, path):
    record = SaveRecord(log, path)
    record.set_path(path)
    return record


def test_saves_are_recorded_in_their_order(log):
    begun(log, "one.zip")
    begun(log, "other.zip").set_path("elsewhere.zip")
    assert log[0]["saved_to"] == ("one.zip", "elsewhere.zip")


def test_save_that_fails_late_keeps_its_place(log):
    one = begun(log, "one.zip")
    begun(log, "other.zip")
    one.fail(OSError("full"))
    assert log[0]["saved_to"] == (None, "other.zip")
    assert log[0]["save_error"] == "OSError: full"


def test_save_that_is_forgotten_leaves_what_came_after_it(log):
    one, other = begun(log, "one.zip"), begun(log, "other.zip")
    one.forget()
    assert log[0]["saved_to"] == ("other.zip",)
    other.fail(OSError("full"))
    assert log[0]["saved_to"] == (None,)


def test_only_save_that_is_forgotten_leaves_no_record(log):
    begun(log, "one.zip").forget()
    assert "saved_to" not in log[0]
