"""What a run wrote, and what it deletes of it."""

import logging
import os
import pickle
import shutil
import uuid
from contextlib import contextmanager

import pytest

from blocks_checkpoint.retention import KeepAll, KeepBest, KeepFor, KeepLast, Policy
from blocks_checkpoint.retention.path_template import PathTemplate
from blocks_checkpoint.retention.series import Series, apply, series_id

NAME = "run-{iterations_done}.zip"
OURS = "0123"
NOW = 1_000_000_000.0


@contextmanager
def as_nobody():
    """Lose the rights of the superuser, who may write into anything."""
    if os.geteuid() == 0:
        os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(0)
    else:
        yield


@pytest.fixture
def save(tmp_path, write_checkpoint):
    """Return a function that writes ``run-N.zip`` of our series."""

    def write(iteration, *, name=None, series=OURS, **manifest):
        path = tmp_path / (name or f"run-{iteration}.zip")
        entry = {"id": series, "number": 1}
        return write_checkpoint(path, iteration=iteration, series=entry, **manifest)

    return write


@pytest.fixture
def ours(tmp_path):
    return Series(OURS, PathTemplate(str(tmp_path / NAME)))


def there(folder):
    return sorted(os.listdir(folder))


def test_identifier_goes_with_the_log_and_differs_between_names():
    status = {}
    one = series_id(status, "run-{iterations_done}.zip")
    assert series_id(pickle.loads(pickle.dumps(status)), "run-{iterations_done}.zip") == one
    assert series_id(status, "best.zip") != one
    assert series_id({}, "run-{iterations_done}.zip") != one
    assert uuid.UUID(one)


@pytest.mark.parametrize("odd", [None, 3, "x", b"x", "0" * 31])
def test_identifier_is_made_anew_where_the_status_has_none(odd):
    status = {"checkpoint_series": odd}
    assert series_id(status, "a") == series_id(status, "a")
    assert status["checkpoint_series"] != odd


def test_last_ones_are_kept_by_iteration(tmp_path, save, ours):
    for iteration in (8, 9, 10, 11, 12):
        written = save(iteration)
        ours.release(KeepLast(3), written)
    assert there(tmp_path) == ["run-10.zip", "run-11.zip", "run-12.zip"]


def test_times_of_files_mean_nothing(tmp_path, save, ours):
    for iteration in (9, 10, 100):
        os.utime(save(iteration), (1000 - iteration, 1000 - iteration))
    assert ours.release(KeepLast(1), tmp_path / "run-100.zip") == [
        str(tmp_path / "run-9.zip"),
        str(tmp_path / "run-10.zip"),
    ]


def test_what_is_returned_was_deleted(tmp_path, save, ours):
    save(1)
    assert ours.release(KeepLast(1), save(2)) == [os.path.realpath(tmp_path / "run-1.zip")]
    assert there(tmp_path) == ["run-2.zip"]


def test_proofs_go_with_their_files(tmp_path, save, ours):
    for iteration in (1, 2):
        written = save(iteration)
        (tmp_path / f"run-{iteration}.zip.proof.json").write_text("{}")
    ours.release(KeepLast(1), written)
    assert there(tmp_path) == ["run-2.zip", "run-2.zip.proof.json"]


def test_nothing_of_others_is_deleted(tmp_path, save, ours, write_checkpoint):
    save(1, series="4567")
    save(2, name="best.zip")
    save(3, name="run-3.zip", series=None)
    write_checkpoint(tmp_path / "run-4.zip", iteration=4)
    (tmp_path / "run-5.zip").write_text("text")
    (tmp_path / "run-6.zip").mkdir()
    before = there(tmp_path)
    ours.release(KeepLast(1), save(100))
    assert there(tmp_path) == sorted([*before, "run-100.zip"])


def test_new_run_in_an_old_folder_counts_its_own_only(tmp_path, save, ours):
    """Old files with higher numbers are neither deleted nor in the way."""
    for iteration in (9000, 10000):
        save(iteration, series="4567")
    for iteration in (1, 2, 3):
        ours.release(KeepLast(2), save(iteration))
    assert there(tmp_path) == ["run-10000.zip", "run-2.zip", "run-3.zip", "run-9000.zip"]


def test_run_that_went_back_deletes_nothing_ahead_of_it(tmp_path, save, ours):
    for iteration in (10, 20, 30):
        save(iteration)
    for iteration in (11, 12):
        ours.release(KeepLast(1), save(iteration), protected=[tmp_path / "run-10.zip"])
    assert there(tmp_path) == ["run-10.zip", "run-12.zip", "run-20.zip", "run-30.zip"]


def test_file_resumed_from_stays_and_the_rest_is_known_again(tmp_path, save, ours):
    for iteration in (1, 2, 3):
        ours.release(KeepLast(3), save(iteration))
    resumed = Series(OURS, PathTemplate(str(tmp_path / NAME)))
    for iteration in (4, 5, 6, 7):
        resumed.release(KeepLast(3), save(iteration), protected=[tmp_path / "run-3.zip"])
    assert there(tmp_path) == ["run-3.zip", "run-5.zip", "run-6.zip", "run-7.zip"]
    again = Series(OURS, PathTemplate(str(tmp_path / NAME)))
    for iteration in (8, 9):
        again.release(KeepLast(3), save(iteration), protected=[tmp_path / "run-7.zip"])
    assert there(tmp_path) == ["run-7.zip", "run-8.zip", "run-9.zip"]


def test_earlier_files_are_known_in_a_moved_folder(tmp_path, save, write_checkpoint):
    for iteration in (1, 2, 3):
        save(iteration)
    moved = tmp_path / "moved"
    moved.mkdir()
    for iteration in (1, 2, 3):
        shutil.move(tmp_path / f"run-{iteration}.zip", moved)
    resumed = Series(OURS, PathTemplate(str(moved / NAME)))
    written = write_checkpoint(moved / "run-4.zip", iteration=4, series={"id": OURS})
    resumed.release(KeepLast(2), written)
    assert there(moved) == ["run-3.zip", "run-4.zip"]


def test_other_folder_is_not_touched(tmp_path, save, write_checkpoint):
    save(1)
    (tmp_path / "new").mkdir()
    resumed = Series(OURS, PathTemplate(str(tmp_path / "new" / NAME)))
    for iteration in (2, 3):
        path = tmp_path / "new" / f"run-{iteration}.zip"
        resumed.release(
            KeepLast(1), write_checkpoint(path, iteration=iteration, series={"id": OURS})
        )
    assert there(tmp_path) == ["new", "run-1.zip"]
    assert there(tmp_path / "new") == ["run-3.zip"]


def test_best_is_kept_beside_the_last(tmp_path, save, ours):
    for iteration, error in enumerate([0.5, 0.1, float("nan"), 0.3, 0.2]):
        written = save(iteration, records={"error": error})
        ours.release(KeepLast(1) | KeepBest(1, "error"), written)
    assert there(tmp_path) == ["run-1.zip", "run-4.zip"]


def test_what_a_link_points_to_stays(tmp_path, save, ours):
    save(1)
    os.symlink("run-1.zip", tmp_path / "favourite.zip")
    save(2)
    ours.release(KeepLast(1), save(3))
    assert there(tmp_path) == ["favourite.zip", "run-1.zip", "run-3.zip"]


def test_last_with_a_main_loop_stays(tmp_path, save, ours):
    save(1)
    for iteration in (2, 3, 4):
        ours.release(KeepLast(1), save(iteration, main_loop_error="a lambda"))
    assert there(tmp_path) == ["run-1.zip", "run-4.zip"]


def test_last_verified_stays(tmp_path, save, ours):
    ours.release(KeepLast(1), save(1), is_verified=True)
    for iteration in (2, 3):
        ours.release(KeepLast(1), save(iteration))
    assert there(tmp_path) == ["run-1.zip", "run-3.zip"]
    ours.release(KeepLast(1), save(4), is_verified=True)
    assert there(tmp_path) == ["run-4.zip"]


def test_file_that_cannot_be_read_is_left_and_reported_once(tmp_path, save, ours, caplog):
    damaged = tmp_path / "run-5.zip"
    damaged.write_bytes(save(5).read_bytes()[:-40])
    for iteration in (6, 7, 8):
        ours.release(KeepLast(1), save(iteration))
    assert there(tmp_path) == ["run-5.zip", "run-8.zip"]
    assert [str(damaged) in record.getMessage() for record in caplog.records] == [True]


def test_nothing_is_deleted_for_a_file_that_is_not_of_the_series(tmp_path, save, ours):
    save(1)
    save(2)
    assert ours.release(KeepLast(1), save(3, series="4567")) == []
    assert ours.release(KeepLast(1), tmp_path / "gone.zip") == []


def test_path_through_a_link_to_the_folder_is_the_same_file(tmp_path, save):
    os.symlink(tmp_path, tmp_path / "link")
    series = Series(OURS, PathTemplate(str(tmp_path / "link" / NAME)))
    save(1)
    save(2)
    save(3)
    protected = [tmp_path / "link" / "run-1.zip"]
    series.release(KeepLast(1), tmp_path / "run-3.zip", protected=protected)
    assert there(tmp_path) == ["link", "run-1.zip", "run-3.zip"]


def test_each_file_is_opened_once_unless_it_changes(save, ours):
    save(1)
    (first,) = ours.entries()
    assert ours.entries()[0] is first
    save(1, records={"error": 0.25})
    assert ours.entries()[0].records == {"error": 0.25}


def test_numbers_go_on_after_a_resume(save, ours, write_checkpoint, tmp_path):
    assert [ours.manifest_entry()["number"] for _ in "ab"] == [1, 2]
    entry = ours.manifest_entry(KeepLast(2))
    assert entry == {
        "id": OURS,
        "number": 3,
        "template": NAME,
        "keep": [{"rule": "KeepLast", "n": 2}],
    }
    write_checkpoint(tmp_path / "run-1.zip", iteration=1, series=entry)
    resumed = pickle.loads(pickle.dumps(ours))
    assert resumed.manifest_entry()["number"] == 4


def test_pickle_takes_nothing_of_what_was_found(save, ours):
    save(1)
    ours.entries()
    loaded = pickle.loads(pickle.dumps(ours))
    assert vars(loaded) == vars(Series(OURS, ours.template))


def test_file_that_somebody_removed_is_no_error(tmp_path, save, ours):
    path = save(1)
    ours.entries()
    path.unlink()
    assert ours.release(KeepLast(1), save(2)) == []
    assert apply([str(path)]) == []


def test_folder_that_is_read_only_is_logged_and_not_raised(tmp_path, save, ours, caplog):
    save(1)
    written = save(2)
    tmp_path.chmod(0o500)
    try:
        ours.entries()
        with as_nobody():
            assert apply([str(tmp_path / "run-1.zip")]) == []
            assert ours.release(KeepLast(1), written) == []
    finally:
        tmp_path.chmod(0o700)
    assert there(tmp_path) == ["run-1.zip", "run-2.zip"]
    assert caplog.records[0].levelno == logging.WARNING
    assert "run-1.zip was to be deleted, and cannot be: " in caplog.text


def test_one_that_cannot_be_deleted_does_not_save_the_others(tmp_path, save, caplog):
    (tmp_path / "folder").mkdir()
    paths = [str(tmp_path / "folder"), str(tmp_path / "gone.zip"), str(save(1))]
    assert apply(paths) == paths[2:]
    assert there(tmp_path) == ["folder"]
    assert len(caplog.records) == 1


def test_fault_of_a_policy_does_not_reach_the_training(save, ours, caplog):
    class Faulty(Policy):
        def select(self, saves, now):
            return 1 / 0

    assert ours.release(Faulty(), save(1)) == []
    assert "ZeroDivisionError" in caplog.text


def test_time_of_day_is_that_given(tmp_path, save, ours):
    save(1, saved={"time": "2001-09-09T00:46:40+00:00"})
    save(2, saved={"time": "2001-09-09T01:46:00+00:00"})
    ours.release(KeepFor(hours=0.5), save(3), now=NOW)
    assert there(tmp_path) == ["run-2.zip", "run-3.zip"]


def test_everything_may_be_kept(tmp_path, save, ours):
    for iteration in (1, 2, 3):
        ours.release(KeepAll(), save(iteration))
    assert len(there(tmp_path)) == 3
