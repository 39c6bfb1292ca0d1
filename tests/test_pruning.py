"""``blocks-checkpoint prune``."""

import inspect
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from blocks_checkpoint.cli.inspecting import main

LEGACY = Path(__file__).resolve().parent / "legacy"


def run(*arguments):
    # Before click 8.2, standard error is kept apart only on request.
    can_mix = "mix_stderr" in inspect.signature(CliRunner).parameters
    runner = CliRunner(**({"mix_stderr": False} if can_mix else {}))
    return runner.invoke(main, ["prune", *map(str, arguments)])


@pytest.fixture
def save(tmp_path, write_checkpoint):
    """Return a function that writes ``NAME-ITERATION.zip`` of a series."""

    def write(iteration, name="run", series="abc", **manifest):
        path = tmp_path / f"{name}-{iteration}.zip"
        entry = series and {"id": series, "number": 1}
        return write_checkpoint(path, iteration=iteration, series=entry, **manifest)

    return write


@pytest.fixture
def folder(tmp_path, save):
    """Return a folder with a series of five; the best is the second."""
    for iteration, error in ((8, 0.5), (9, 0.1), (10, 0.4), (11, 0.3), (12, 0.2)):
        save(iteration, records={"error": error})
    return tmp_path


def there(folder):
    return sorted(os.listdir(folder))


def damage(path):
    content = bytearray(path.read_bytes())
    content[content.index(b"\x93NUMPY") + 300] ^= 1
    path.write_bytes(content)


def test_what_no_rule_keeps_is_deleted(folder):
    result = run(folder, "--keep-last", 2, "--keep-best", "error")
    assert result.exit_code == 0
    assert there(folder) == ["run-11.zip", "run-12.zip", "run-9.zip"]
    *lines, last = result.stdout.splitlines()
    assert lines == ["deleted: run-8.zip", "deleted: run-10.zip"]
    assert last.startswith("2 deleted (")
    assert last.endswith("kB), 3 kept")


def test_dry_run_says_so_and_deletes_nothing(folder):
    before = there(folder)
    result = run(folder, "--keep-last", 3, "--dry-run")
    assert result.exit_code == 0
    assert there(folder) == before
    *lines, last = result.stdout.splitlines()
    assert lines == ["would delete: run-8.zip", "would delete: run-9.zip"]
    assert last.startswith("2 to delete (")


def test_dry_run_tells_the_truth(folder):
    said = run(folder, "--keep-last", 3, "--dry-run").stdout.replace("would delete", "deleted")
    assert said.replace("to delete", "deleted") == run(folder, "--keep-last", 3).stdout


def test_without_a_rule_nothing_is_deleted(folder):
    before = there(folder)
    result = run(folder)
    assert result.exit_code == 2
    assert "give at least one rule" in result.stderr
    assert there(folder) == before


def test_each_series_is_looked_at_by_itself(folder, save):
    for iteration in (1, 2, 3):
        save(iteration, name="other", series="def")
    run(folder, "--keep-last", 1)
    assert there(folder) == ["other-3.zip", "run-12.zip"]


def test_what_belongs_to_no_series_is_left_alone(folder, save, write_checkpoint):
    save(1, name="best", series=None)
    write_checkpoint(folder / "weights.zip", series={"id": "abc"})
    result = run(folder, "--keep-last", 1)
    assert there(folder) == ["best-1.zip", "run-12.zip", "weights.zip"]
    assert "left alone: best-1.zip: belongs to no series\n" in result.stdout
    assert "left alone: weights.zip: belongs to no series\n" in result.stdout


def test_what_cannot_be_read_is_left_alone_and_named(folder):
    (folder / "run-13.zip").touch()
    result = run(folder, "--keep-last", 1)
    assert there(folder) == ["run-12.zip", "run-13.zip"]
    assert "left alone: run-13.zip: " in result.stdout
    assert result.exit_code == 0


def test_last_good_one_stays_when_newer_ones_are_damaged(folder):
    damage(folder / "run-12.zip")
    damage(folder / "run-11.zip")
    assert run(folder, "--keep-best", "other").exit_code == 0
    assert there(folder) == ["run-10.zip", "run-11.zip", "run-12.zip"]


def test_last_good_one_has_a_main_loop(folder, save):
    save(13, main_loop_error="a lambda")
    run(folder, "--keep-last", 1)
    assert there(folder) == ["run-12.zip", "run-13.zip"]


def test_last_good_one_is_looked_for_behind_one_without_a_main_loop(folder, save):
    save(13, main_loop_error="a lambda")
    damage(folder / "run-12.zip")
    run(folder, "--keep-best", "other")
    assert there(folder) == ["run-11.zip", "run-12.zip", "run-13.zip"]


def test_damaged_ones_do_not_count(folder):
    damage(folder / "run-12.zip")
    run(folder, "--keep-last", 2)
    assert there(folder) == ["run-10.zip", "run-11.zip", "run-12.zip"]


def test_what_a_link_points_to_stays(folder):
    os.symlink("run-8.zip", folder / "favourite.zip")
    link = folder / "link"
    os.symlink(folder, link)
    run(link, "--keep-last", 1)
    assert there(folder) == ["favourite.zip", "link", "run-12.zip", "run-8.zip"]


def test_old_checkpoints_of_blocks_are_left_alone(folder):
    shutil.copy(LEGACY / "blocks-2018-09.tar", folder)
    assert "blocks-2018-09.tar: belongs to no series" in run(folder, "--keep-last", 1).stdout
    assert (folder / "blocks-2018-09.tar").exists()


def test_what_cannot_be_deleted_is_said_and_the_exit_code_is_1(folder, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "unlink", refuse)
    result = run(folder, "--keep-last", 4)
    assert result.exit_code == 1
    assert result.stderr.startswith("warning: ")
    assert "run-8.zip was to be deleted, and cannot be: " in result.stderr
    assert result.stdout == "0 deleted (0 B), 5 kept\n"


def test_missing_folder_is_one_line_on_standard_error(tmp_path):
    result = run(tmp_path / "gone", "--keep-last", 1)
    assert result.exit_code == 1
    assert result.stderr == f"error: {tmp_path / 'gone'}: No such file or directory\n"


def test_help_says_what_there_is():
    text = run("--help").stdout
    for word in ("FOLDER", "--dry-run", "--keep-last", "--keep-best", "symbolic link"):
        assert word in text
    assert max(map(len, text.splitlines())) <= 80
