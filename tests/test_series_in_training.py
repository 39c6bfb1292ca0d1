"""Retention, fields in paths and saves in the background, in a running loop."""

import os
import signal
from pathlib import Path

import numpy
import pytest
from drifting import BATCHES_PER_EPOCH, At, make_main_loop
from interventions import Do

from blocks_checkpoint import (
    Checkpoint,
    KeepBest,
    KeepLast,
    LoadParameters,
    Resume,
    SaveError,
    continue_training,
    load_log,
    load_parameters,
    open_checkpoint,
)
from blocks_checkpoint.miniblocks.extensions import FinishAfter
from blocks_checkpoint.miniblocks.extensions.predicates import OnLogRecord
from blocks_checkpoint.miniblocks.extensions.training import TrackTheBest

#: By epoch. The best comes second.
ERRORS = (0.5, 0.2, 0.4, 0.3)


def note_error(main_loop):
    log = main_loop.log
    log.current_row["valid_error"] = ERRORS[(log.status["epochs_done"] - 1) % len(ERRORS)]


def run(*extensions, epochs=4):
    main_loop = make_main_loop(At(note_error, after_epoch=True), *extensions, epochs=epochs)
    main_loop.run()
    return main_loop


#: By iteration; filled by ``note_values``.
VALUES = {}


def note_values(main_loop):
    parameters = main_loop.model.get_parameter_dict()
    VALUES[main_loop.status["iterations_done"]] = {
        name: parameter.get_value() for name, parameter in parameters.items()
    }


def send_signal(main_loop):
    if main_loop.status["iterations_done"] == 6:
        os.kill(os.getpid(), signal.SIGUSR1)


def put_a_folder_in_the_way(main_loop):
    checkpoint = main_loop.find_extension("Checkpoint")
    path = Path(checkpoint.path)
    if main_loop.status["epochs_done"] == 2:
        checkpoint._background.wait()
        path.unlink()
        path.mkdir()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def epochs_in(path):
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.verify() == []
        return checkpoint.manifest["status"]["epochs_done"]


@pytest.mark.parametrize(
    ("keeping", "kept"),
    [
        pytest.param({}, ["1-0.50", "2-0.20", "3-0.40", "4-0.30"], id="all"),
        pytest.param({"keep_last": 2}, ["3-0.40", "4-0.30"], id="last"),
        pytest.param({"keep_best": (1, "valid_error")}, ["2-0.20", "4-0.30"], id="best"),
        pytest.param(
            {"keep": KeepLast(1) | KeepBest(2, "valid_error")},
            ["2-0.20", "4-0.30"],
            id="last-or-best",
        ),
    ],
)
def test_only_what_a_policy_keeps_is_left(tmp_path, keeping, kept):
    run(Checkpoint(tmp_path / "run-{epochs_done}-{valid_error:.2f}.zip", **keeping))
    assert names(tmp_path) == [f"run-{name}.zip" for name in kept]


def test_resumed_series_knows_its_files_in_a_moved_folder(tmp_path):
    folder, moved = tmp_path / "runs", tmp_path / "moved"
    run(Checkpoint(folder / "run-{epochs_done}.zip", keep_last=2))
    folder.rename(moved)
    (moved / "run-9.zip").write_bytes(b"somebody else's")
    run(
        Resume(moved / "run-4.zip", load_log=True, load_iteration_state=True),
        Checkpoint(moved / "run-{epochs_done}.zip", keep_last=2),
        epochs=7,
    )
    # Two kept, the one it was resumed from, and the file that is not ours.
    assert names(moved) == ["run-4.zip", "run-6.zip", "run-7.zip", "run-9.zip"]


def test_missing_field_is_an_error_at_the_first_save(tmp_path):
    with pytest.raises(SaveError, match="nowhere"):
        run(Checkpoint(tmp_path / "run-{nowhere}.zip"))
    assert names(tmp_path) == []


def test_latest_is_a_link_to_the_newest(tmp_path):
    run(Checkpoint(tmp_path / "run-{epochs_done}.zip", latest=True))
    assert os.readlink(tmp_path / "latest.zip") == "run-4.zip"
    assert epochs_in(tmp_path / "latest.zip") == 4


def test_best_is_overwritten_by_better_only(tmp_path):
    main_loop = run(Checkpoint(tmp_path / "best.zip", only_if_best="valid_error"))
    assert epochs_in(tmp_path / "best.zip") == 2
    saved = [time for time in main_loop.log if "saved_to" in main_loop.log[time]]
    assert saved == [BATCHES_PER_EPOCH, 2 * BATCHES_PER_EPOCH]


def test_run_that_begins_with_loaded_parameters_does_not_overwrite_a_better_file(tmp_path):
    path = tmp_path / "best.zip"
    run(Checkpoint(path, only_if_best="valid_error"))
    before = path.read_bytes()
    run(LoadParameters(path), Checkpoint(path, only_if_best="valid_error"), epochs=1)
    assert path.read_bytes() == before


def test_idiom_of_old_scripts_for_the_best_file_works(tmp_path):
    track = TrackTheBest("valid_error")
    checkpoint = Checkpoint(tmp_path / "run.zip").add_condition(
        ["after_epoch"],
        OnLogRecord("valid_error_best_so_far"),
        (str(tmp_path / "best.zip"),),
    )
    run(track, checkpoint)
    assert epochs_in(tmp_path / "best.zip") == 2
    assert epochs_in(tmp_path / "run.zip") == 4


@pytest.mark.parametrize("when_busy", ["wait", "skip", "replace"])
def test_save_in_the_background_has_the_state_at_its_time(tmp_path, when_busy):
    checkpoint = Checkpoint(
        tmp_path / "run-{iterations_done}.zip",
        background=True,
        when_busy=when_busy,
        every_n_batches=1,
        after_training=False,
    )
    log = run(At(note_values, after_batch=True), checkpoint).log
    saved = {int(name[len("run-") : -len(".zip")]) for name in names(tmp_path)}
    assert saved == {time for time in log if log[time].get("saved_to")}
    assert 1 in saved
    for time in saved:
        stored = load_parameters(tmp_path / f"run-{time}.zip")
        assert stored.keys() == VALUES[time].keys()
        assert all(numpy.array_equal(stored[name], VALUES[time][name]) for name in stored)


def test_background_save_goes_on_like_any_other(tmp_path):
    path = tmp_path / "run.zip"
    run(Checkpoint(path, background=True))
    assert (
        continue_training(path, extensions=[FinishAfter(after_n_epochs=5)]).status["epochs_done"]
        == 5
    )
    assert load_log(path).status["epochs_done"] == 5


@pytest.mark.parametrize("on_failure", ["raise", "warn"])
def test_failure_in_the_background_is_heard_of(tmp_path, on_failure):
    checkpoint = Checkpoint(tmp_path / "run.zip", background=True, on_failure=on_failure)
    extensions = At(put_a_folder_in_the_way, before_epoch=True), checkpoint
    if on_failure == "raise":
        with pytest.raises(SaveError, match="this is a folder"):
            run(*extensions)
        return
    log = run(*extensions).log
    assert log[3 * BATCHES_PER_EPOCH]["saved_to"] == (None,)
    assert "this is a folder" in log[3 * BATCHES_PER_EPOCH]["save_error"]


def test_clock_and_signal_save_beside_the_usual_events(tmp_path):
    checkpoint = Checkpoint(
        tmp_path / "run.zip",
        every_n_seconds=1000,
        on_signal=signal.SIGUSR1,
        after_training=False,
    )
    log = run(At(send_signal, after_batch=True), checkpoint).log
    assert [time for time in log if "saved_to" in log[time]] == [6]
    assert log[6]["signal_to_saved_seconds"] > 0


def test_share_of_time_decides_and_the_decision_is_in_the_log(tmp_path):
    main_loop = run(Checkpoint(tmp_path / "run.zip", max_overhead=0.5))
    first = main_loop.log[1]
    assert first["saved_to"] == (str(tmp_path / "run.zip"),)
    assert first["save_expected_stall_seconds"] == 0
    assert main_loop.log.current_row["save_expected_stall_seconds"] > 0
    assert {"save_credit_seconds", "save_interval_seconds"} <= first.keys()


def test_clock_goes_on_where_a_run_is_resumed(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("blocks_checkpoint.extensions.checkpoint.time.monotonic", lambda: clock[0])

    def train_for_a_minute(main_loop):
        clock[0] += 60

    def extensions(folder):
        # The files of the clock are not those that are resumed from.
        return (
            Checkpoint(tmp_path / folder / "{iterations_done}.zip", every_n_seconds=5 * 60),
            Checkpoint(tmp_path / "run.zip", every_n_batches=3, after_training=False),
            Do(train_for_a_minute, before_batch=True),
        )

    (tmp_path / "first").mkdir()
    with pytest.raises(ZeroDivisionError):
        run(*extensions("first"), Do(lambda _: 1 / 0, after_n_batches=4))
    clock[0] = 0.0
    (tmp_path / "second").mkdir()
    whole = Resume(tmp_path / "run.zip", load_log=True, load_iteration_state=True)
    run(whole, *extensions("second"))
    assert names(tmp_path / "first") == []
    assert names(tmp_path / "second") == ["10.zip", "15.zip", "16.zip", "5.zip"]


def test_share_of_time_is_kept_where_a_run_is_resumed(tmp_path):
    def extensions():
        return (
            Checkpoint(tmp_path / "{iterations_done}.zip", max_overhead=1e-6, after_training=False),
            Checkpoint(tmp_path / "run.zip", every_n_batches=3, after_training=False),
        )

    with pytest.raises(ZeroDivisionError):
        run(*extensions(), Do(lambda _: 1 / 0, after_n_batches=4))
    run(Resume(tmp_path / "run.zip", load_log=True, load_iteration_state=True), *extensions())
    # What a save costs is known by now.
    assert names(tmp_path) == ["1.zip", "run.zip"]


def test_what_saves_write_into_the_log_cannot_change(tmp_path):
    # Or rows would have to be pickled anew, at each save to the end of the run.
    log = run(
        Checkpoint(tmp_path / "run.zip", max_overhead=0.9, every_n_batches=1, record_cost=True),
        Checkpoint(tmp_path / "no" / "{nothing}.zip", every_n_batches=3, on_failure="warn"),
    ).log
    written = {
        name: value
        for row in log.values()
        for name, value in row.items()
        if name.startswith("save")
    }
    assert len(written) > 10
    for name, value in written.items():
        assert type(value) in (float, str, tuple), name


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param({"keep_last": 2}, id="nothing-to-rotate"),
        pytest.param({"every_n_seconds": 1, "max_overhead": 0.1}, id="two-clocks"),
        pytest.param({"at_least_every": 1}, id="bound-without-share"),
        pytest.param({"background": True, "when_busy": "panic"}, id="busy"),
        pytest.param({"on_signal": signal.SIGTERM}, id="signal-that-ends"),
    ],
)
def test_arguments_that_make_no_sense_are_refused_at_once(arguments):
    with pytest.raises(ValueError):  # noqa: PT011 - the rooms test their words
        Checkpoint("run.zip", **arguments)
