"""A run that is not the same when it is run again is found out."""

import json
import os
import zipfile

import pytest
from click.testing import CliRunner
from drifting import interrupt, make_main_loop
from erratic import AtBatch, Erratic, ErraticRecord, ErraticStream
from event_counting import NoteEvents
from interventions import Do

from blocks_checkpoint import Checkpoint, LoadError, load_log
from blocks_checkpoint.cli.inspecting import main
from blocks_checkpoint.replay import Difference, replay


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return a checkpoint per kind of run, in mid-epoch, and a later one of the first."""
    folder = tmp_path_factory.mktemp("runs")
    made = {}
    for name, extras in {
        "exact": {},
        "variable": {"first": [Erratic(at=8, after_batch=True)]},
        "record": {"first": [ErraticRecord(at=9, after_batch=True)]},
        "batch": {"stream": ErraticStream(at=10)},
    }.items():
        saver = Checkpoint(None)
        for count in (6, 8, 12):
            path = folder / f"{name}-{count}.zip"
            made[name, count] = str(path)
            saver.add_condition(["after_batch"], AtBatch(count), (str(path),))
        main_loop = make_main_loop(saver, **extras)
        main_loop.run()
    return made


def test_run_that_depends_on_nothing_else_is_identical(files):
    result = replay(files["exact", 6], batches=4)
    assert result.is_identical
    assert str(result) == "identical after 4 batches"


@pytest.mark.parametrize(
    ("kind", "name", "iteration"),
    [("variable", "mlp/linear_0/W", 8), ("record", "noise", 9), ("batch", "features", 10)],
)
def test_first_difference_is_named(files, kind, name, iteration):
    difference = replay(files[kind, 6], batches=5).difference
    assert (difference.kind, difference.iteration) == (kind, iteration)
    assert difference.name == name or kind == "variable"
    assert (difference.amount is not None) == (kind == "variable")


def test_difference_says_by_how_much():
    text = str(Difference("variable", "mlp/linear_0/W", 8, 1.25e-7))
    assert text == (
        "variable 'mlp/linear_0/W' differs first at iteration 8, by at most 1.25e-07 at the end"
    )


def test_second_checkpoint_is_reached_from_the_first(files):
    assert str(replay(files["exact", 6], files["exact", 8])) == "identical after 2 batches"


def test_second_checkpoint_that_is_not_reached_exactly_is_found_out(files):
    difference = replay(files["variable", 6], files["variable", 12]).difference
    assert difference is not None
    assert difference.kind == "variable"


def test_run_is_replayed_up_to_the_file_of_its_end(tmp_path):
    """Which says in its log that it was the end."""
    saver = Checkpoint(tmp_path / "run-{iterations_done}.zip", every_n_batches=6)
    make_main_loop(saver, epochs=2).run()
    assert load_log(tmp_path / "run-8.zip").current_row["training_finished"]
    result = replay(tmp_path / "run-6.zip", tmp_path / "run-8.zip")
    assert str(result) == "identical after 2 batches"


@pytest.mark.parametrize(
    ("event", "batches"),
    [
        pytest.param("after_batch", 4, id="after-a-batch"),
        pytest.param("after_epoch", 6, id="after-an-epoch"),
        pytest.param("before_epoch", 6, id="before-an-epoch"),
        pytest.param("before_batch", 6, id="before-the-first-batch-of-an-epoch"),
        pytest.param("on_interrupt", 3, id="on-an-interrupt"),
        pytest.param("after_training", 10, id="after-training"),
    ],
)
def test_run_is_replayed_up_to_the_very_event_at_which_the_other_file_was_saved(
    tmp_path, event, batches
):
    """What extensions record, and change, at events before it is no difference."""
    early, late = tmp_path / "early.zip", tmp_path / "late.zip"
    saving = Checkpoint(None)
    saving.add_condition(["after_batch"], AtBatch(2), (str(early),))
    saving.add_condition([event], AtBatch(2 + batches), (str(late),))
    events = ("after_batch", "after_epoch", "before_epoch", "before_batch", "on_interrupt")
    noting = NoteEvents(**dict.fromkeys((*events, "after_training"), True))
    interrupting = [Do(interrupt, after_n_batches=5)] if event == "on_interrupt" else []
    make_main_loop(noting, saving, *interrupting).run()
    assert load_log(late).current_row["events"][-1] == event
    assert str(replay(early, late)) == f"identical after {batches} batches"


def test_file_that_does_not_say_at_which_event_it_was_saved_is_reached_by_its_counts(files):
    saved, without = files["exact", 8], files["exact", 8].replace("exact", "without")
    with zipfile.ZipFile(saved) as old, zipfile.ZipFile(without, "w") as new:
        for info in old.infolist():
            content = old.read(info)
            if info.filename == "checkpoint.json":
                manifest = json.loads(content)
                assert manifest.pop("event") == "after_batch"
                content = json.dumps(manifest)
            new.writestr(info.filename, content)
    assert str(replay(files["exact", 6], without)) == "identical after 2 batches"


def test_checkpoints_in_the_wrong_order_are_told_apart_before_anything_is_trained(files):
    with pytest.raises(LoadError, match="of iteration 8: give the earlier one first"):
        replay(files["exact", 8], files["exact", 6])


def test_nothing_is_saved(files):
    before = {path: os.stat(path).st_mtime_ns for path in files.values()}
    replay(files["exact", 6], batches=6)
    assert {path: os.stat(path).st_mtime_ns for path in files.values()} == before


def test_finished_run_cannot_be_replayed(tmp_path):
    path = tmp_path / "run.zip"
    make_main_loop(Checkpoint(path), epochs=1).run()
    with pytest.raises(LoadError, match="nothing to replay"):
        replay(path)


def test_number_of_batches_is_one_or_more(tmp_path):
    with pytest.raises(ValueError, match="1 or more"):
        replay(tmp_path / "run.zip", batches=0)


def test_command_prints_one_line_and_its_exit_code_says_it_too(files):
    done = CliRunner().invoke(main, ["replay", files["exact", 6], "--batches", "2"])
    assert (done.output, done.exit_code) == ("identical after 2 batches\n", 0)
    done = CliRunner().invoke(main, ["replay", files["record", 6], "--batches", "4", "--json"])
    described = json.loads(done.output)
    assert done.exit_code == 1
    assert described["identical"] is False
    assert described["difference"] == {
        "kind": "record",
        "name": "noise",
        "iteration": 9,
        "amount": None,
    }
