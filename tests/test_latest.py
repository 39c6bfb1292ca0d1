"""The link to the newest checkpoint."""

import logging
import os
import shutil

from blocks_checkpoint.retention.latest import point_latest_to


def test_link_is_relative_and_follows_its_folder(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "run-1.zip").write_text("one")
    assert point_latest_to(folder / "run-1.zip")
    assert os.readlink(folder / "latest.zip") == "run-1.zip"
    shutil.move(folder, tmp_path / "moved")
    assert (tmp_path / "moved" / "latest.zip").read_text() == "one"


def test_link_is_replaced_and_nothing_else_is_left(tmp_path):
    for number in ("1", "2", "3"):
        (tmp_path / f"run-{number}.zip").write_text(number)
        assert point_latest_to(str(tmp_path / f"run-{number}.zip"))
        assert (tmp_path / "latest.zip").read_text() == number
    assert (tmp_path / "run-1.zip").read_text() == "1"
    assert len(os.listdir(tmp_path)) == 4


def test_link_in_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.zip").write_text("one")
    assert point_latest_to("run.zip", "newest.zip")
    assert (tmp_path / "newest.zip").read_text() == "one"


def test_dangling_link_and_left_over_of_a_killed_process_are_replaced(tmp_path):
    (tmp_path / "run.zip").write_text("one")
    os.symlink("gone.zip", tmp_path / "latest.zip")
    os.symlink("gone.zip", tmp_path / ".latest.zip.partial")
    assert point_latest_to(tmp_path / "run.zip")
    assert sorted(os.listdir(tmp_path)) == ["latest.zip", "run.zip"]
    assert (tmp_path / "latest.zip").read_text() == "one"


def test_file_of_that_name_stays_and_the_error_is_logged(tmp_path, caplog):
    (tmp_path / "latest.zip").write_text("a file of the user's")
    (tmp_path / "run.zip").write_text("one")
    assert not point_latest_to(tmp_path / "run.zip")
    assert (tmp_path / "latest.zip").read_text() == "a file of the user's"
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "latest.zip is no link, and stays as it is" in caplog.text


def test_link_that_cannot_be_made_is_logged_and_no_copy_is_made(tmp_path, caplog):
    assert not point_latest_to(tmp_path / "gone" / "run.zip")
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "cannot be made to point to" in caplog.text
    assert os.listdir(tmp_path) == []


def test_system_without_links_gets_an_error_in_the_log_and_no_copy(tmp_path, caplog, monkeypatch):
    def refuse(target, link):
        raise NotImplementedError("symlink: no such call")

    monkeypatch.setattr(os, "symlink", refuse)
    (tmp_path / "run.zip").write_text("one")
    assert not point_latest_to(tmp_path / "run.zip")
    assert "no such call" in caplog.text
    assert os.listdir(tmp_path) == ["run.zip"]
