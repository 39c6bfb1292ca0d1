"""Of several files, the newest good one; every other one with its reason."""

import os
import shutil
import zipfile
from pathlib import Path

import numpy
import pytest
from drifting import assert_same_values, make_main_loop

from blocks_checkpoint import (
    Checkpoint,
    CheckpointNotFound,
    LoadError,
    LoadParameters,
    NoGoodCheckpoint,
    NotACheckpoint,
    Resume,
    continue_training,
    load_parameters,
    save_parameters,
)
from blocks_checkpoint.candidates import (
    Candidate,
    candidate_paths,
    newest_first,
    open_newest,
)
from blocks_checkpoint.miniblocks.extensions import FinishAfter


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Checkpoints of one run after 9 and 10 epochs, and a partial one after 11."""
    folder = tmp_path_factory.mktemp("made")
    main_loop = make_main_loop(*(saver(folder, epochs) for epochs in (9, 10)), epochs=11)
    main_loop.run()
    spoilt = make_main_loop(
        Checkpoint(str(folder / "11-partial.zip"), after_epoch=False, on_failure="warn"), epochs=11
    )
    spoilt.thing = lambda: None
    spoilt.run()
    return folder


def saver(folder, epochs):
    path = str(folder / f"{epochs}.zip")
    return Checkpoint(path, after_n_epochs=epochs, after_training=False)


@pytest.fixture
def folder(tmp_path):
    return tmp_path


def put(made, folder, names):
    """Copy checkpoints into a folder; ``names`` is from new name to old one."""
    for number, (new, old) in enumerate(names.items()):
        shutil.copy(made / old, folder / new)
        # File times must not matter: the first is the latest.
        os.utime(folder / new, (2_000_000_000 - number, 2_000_000_000 - number))


def truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 16
    path.write_bytes(content)


def zeros(path):
    path.write_bytes(bytes(path.stat().st_size))


def empty(path):
    path.write_bytes(b"")


def text(path):
    path.write_text("epoch 12\n")


def chosen(place, **options):
    with open_newest(place, **options) as checkpoint:
        return os.path.basename(checkpoint.path)


# The order


@pytest.mark.parametrize(
    ("candidates", "order"),
    [
        pytest.param(
            [Candidate("9", 9), Candidate("10", 10), Candidate("8", 8)], "10 9 8", id="numbers"
        ),
        pytest.param(
            [Candidate("a", 100_000), Candidate("0900000", 900_000)], "0900000 a", id="not-text"
        ),
        pytest.param([Candidate("unknown"), Candidate("0", 0)], "0 unknown", id="unknown-last"),
        pytest.param(
            [Candidate("b", 7, False, "2026-02"), Candidate("a", 7, True, "2026-01")],
            "a b",
            id="main-loop-first",
        ),
        pytest.param(
            [Candidate("z", 7, True, "2026-01"), Candidate("a", 7, True, "2026-02")],
            "a z",
            id="saved-later-first",
        ),
    ],
)
def test_candidates_are_tried_by_what_is_recorded_in_them(candidates, order):
    assert " ".join(each.path for each in newest_first(candidates)) == order
    assert " ".join(each.path for each in newest_first(candidates[::-1])) == order


# Which files a place stands for


def test_single_path_is_itself_whatever_it_is_called(made, folder):
    put(made, folder, {"run[1].zip": "9.zip", "run1.zip": "10.zip"})
    assert candidate_paths(folder / "run[1].zip") is None
    assert chosen(folder / "run[1].zip") == "run[1].zip"


def test_pattern_stands_for_what_it_matches(made, folder):
    (folder / "one").mkdir()
    (folder / "two").mkdir()
    put(made, folder, {"one/run.zip": "9.zip", "two/run.zip": "10.zip", "run.zip": "10.zip"})
    assert candidate_paths(folder / "*" / "run.zip") == [
        str(folder / "one" / "run.zip"),
        str(folder / "two" / "run.zip"),
    ]
    assert len(candidate_paths(folder / "**" / "*.zip")) == 3
    assert candidate_paths(folder / "*") == [str(folder / "run.zip")]


def test_partial_files_are_no_candidates(made, folder):
    put(
        made,
        folder,
        {
            ".run.zip.123-0123456789abcdef.partial": "10.zip",
            "run.zip.partial": "10.zip",
            "run.zip": "9.zip",
        },
    )
    assert candidate_paths(folder) == candidate_paths(folder / "*") == [str(folder / "run.zip")]


def test_other_files_of_a_folder_are_nobodys_candidates(folder, caplog):
    (folder / "train.py").write_text("import this\n")
    (folder / "empty.txt").write_text("")
    (folder / "events.bin").write_bytes(b"\xff\x00\x80" * 100)
    (folder / "sub").mkdir()
    numpy.savez(folder / "data.npz", images=numpy.zeros(3))
    with zipfile.ZipFile(folder / "wheel.zip", "w") as archive:
        archive.writestr("README", "a zip of something else")
    assert candidate_paths(folder) == []
    with pytest.raises(CheckpointNotFound, match="no checkpoint in this folder"):
        open_newest(folder)
    assert open_newest(folder, missing_ok=True) is None
    assert "passed over" not in caplog.text


@pytest.mark.parametrize("harm", [truncate, zeros, empty, text])
@pytest.mark.parametrize("name", ["run.zip", "run.ckpt"])
def test_file_of_a_folder_that_was_a_checkpoint_is_a_candidate(made, folder, harm, name):
    put(made, folder, {name: "9.zip", f"other.{name[4:]}": "10.zip"})
    harm(folder / name)
    assert str(folder / name) in candidate_paths(folder)


def test_link_and_file_are_one_candidate(made, folder):
    put(made, folder, {"400.zip": "9.zip"})
    os.symlink("400.zip", folder / "latest.zip")
    assert candidate_paths(folder) == [str(folder / "400.zip")]


# The newest good one


def test_newest_is_by_the_iteration_recorded_not_by_name_or_time(made, folder):
    put(made, folder, {"z-latest.zip": "9.zip", "a.zip": "10.zip"})
    assert chosen(folder) == chosen(folder / "*.zip") == chosen(str(folder) + os.sep) == "a.zip"


@pytest.mark.parametrize("harm", [truncate, flip, zeros, empty, text])
def test_damaged_newest_gives_way_to_the_one_before_and_says_so(made, folder, harm, caplog):
    put(made, folder, {"9.zip": "9.zip", "10.zip": "10.zip"})
    harm(folder / "10.zip")
    content = (folder / "10.zip").read_bytes()
    assert chosen(folder) == "9.zip"
    assert f"{folder / '10.zip'} is passed over" in caplog.text
    assert (folder / "10.zip").read_bytes() == content


@pytest.mark.parametrize("harm", [truncate, flip, zeros, empty, text])
def test_no_good_one_is_an_error_that_lists_all(made, folder, harm):
    put(made, folder, {"9.zip": "9.zip", "10.zip": "10.zip"})
    for name in ("9.zip", "10.zip"):
        harm(folder / name)
    for missing_ok in (False, True):
        with pytest.raises(NoGoodCheckpoint, match=r"none of the 2 files") as caught:
            open_newest(folder, missing_ok=missing_ok)
        assert sorted(path for path, _ in caught.value.rejected) == [
            str(folder / "10.zip"),
            str(folder / "9.zip"),
        ]
        assert all(reason and reason in str(caught.value) for _, reason in caught.value.rejected)


def test_file_without_main_loop_is_passed_over_only_where_one_is_needed(made, folder, caplog):
    put(made, folder, {"10.zip": "10.zip", "11-partial.zip": "11-partial.zip"})
    assert chosen(folder) == "11-partial.zip"
    assert caplog.text == ""
    assert chosen(folder, needs_main_loop=True) == "10.zip"
    assert "11-partial.zip is passed over: it has no main loop" in caplog.text
    assert "main_loop.thing is a function" in caplog.text


def test_why_there_is_no_main_loop_is_told_by_whoever_wants_to_go_on(made, folder):
    put(made, folder, {"only.zip": "11-partial.zip"})
    for place in (folder, folder / "only.zip"):
        with pytest.raises(LoadError, match=r"main_loop\.thing is a function"):
            continue_training(place)


def test_files_of_parameters_come_behind_everything_that_counts_iterations(made, folder):
    put(made, folder, {"9.zip": "9.zip"})
    save_parameters({"x": numpy.zeros(3)}, folder / "zz.zip")
    numpy.savez(folder / "zzz.npz", x=numpy.zeros(3))
    assert chosen(folder / "*") == "9.zip"
    (folder / "9.zip").unlink()
    assert chosen(folder) == "zz.zip"


def test_checkpoint_that_blocks_wrote_is_a_candidate(folder):
    old = Path(__file__).parent / "legacy" / "blocks-2018-09.tar"
    shutil.copy(old, folder / "old.tar")
    (folder / "newer.zip").write_bytes(b"")
    assert chosen(folder) == "old.tar"


def test_folder_that_is_itself_an_old_checkpoint_is_opened_as_one():
    old = Path(__file__).parent / "legacy" / "blocks-0.0.1-dump"
    assert candidate_paths(old) is None
    with open_newest(old) as checkpoint:
        assert checkpoint.kind == "dump"


def test_file_that_cannot_be_read_is_passed_over_with_the_reason(made, folder, caplog):
    put(made, folder, {"9.zip": "9.zip"})
    os.symlink(folder / "gone.zip", folder / "10.zip")
    assert chosen(folder) == "9.zip"
    assert f"{folder / '10.zip'} is passed over" in caplog.text


# Where it is used


def test_single_damaged_file_is_an_error_not_a_fresh_start(made, folder):
    put(made, folder, {"run.zip": "10.zip"})
    text(folder / "run.zip")
    for extension in (Resume, LoadParameters):
        with pytest.raises(NotACheckpoint):
            make_main_loop(first=[extension(folder / "run.zip", missing_ok=True)]).run()


@pytest.mark.parametrize("pattern", ["", "*.zip"])
def test_resume_and_parameters_come_from_the_newest_good_one(made, folder, pattern):
    put(made, folder, {"9.zip": "9.zip", "10.zip": "10.zip", "11.zip": "11-partial.zip"})
    flip(folder / "11.zip")
    place = str(folder / pattern)
    main_loop = make_main_loop(first=[Resume(place, load_log=True)], epochs=11)
    main_loop.run()
    assert main_loop.log[40]["loaded_from"] == str(folder / "10.zip")
    main_loop = make_main_loop(first=[LoadParameters(place)], epochs=1)
    main_loop.extensions[0].main_loop = main_loop
    main_loop.extensions[0].do()
    for name, values in load_parameters(folder / "10.zip").items():
        assert numpy.array_equal(main_loop.model.get_parameter_values()[name], values)


def test_training_continues_from_the_newest_good_one_that_has_a_main_loop(made, folder):
    put(made, folder, {"9.zip": "9.zip", "10.zip": "10.zip", "11.zip": "11-partial.zip"})
    one = continue_training(folder, extensions=[FinishAfter(after_n_epochs=11)])
    straight = make_main_loop(epochs=11)
    straight.run()
    assert_same_values(one, straight)
    flip(folder / "10.zip")
    assert_same_values(continue_training(str(folder / "*.zip")), straight)


def test_first_run_in_a_folder_starts_afresh_and_the_second_goes_on(folder):
    for epochs in (1, 2):
        main_loop = make_main_loop(
            Checkpoint(folder / "run.zip"),
            first=[Resume(folder, load_log=True, missing_ok=True)],
            epochs=epochs,
        )
        main_loop.run()
        assert main_loop.status["epochs_done"] == epochs


def test_place_with_nothing_is_an_error_with_its_name(folder):
    with pytest.raises(CheckpointNotFound, match="no file matches the pattern") as caught:
        continue_training(folder / "*.zip")
    assert caught.value.path == str(folder / "*.zip")
    with pytest.raises(CheckpointNotFound):
        continue_training(folder / "run.zip")
