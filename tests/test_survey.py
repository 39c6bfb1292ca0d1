"""What there is in a folder."""

import os
from pathlib import Path

import pytest

from blocks_checkpoint.errors import LoadError
from blocks_checkpoint.retention import KeepLast, Saved
from blocks_checkpoint.retention.policy_forms import to_plain
from blocks_checkpoint.retention.survey import Entry, is_whole, read_entry, survey

LEGACY = Path(__file__).resolve().parent / "legacy"


def test_entry_has_what_the_manifest_says(tmp_path, write_checkpoint):
    path = write_checkpoint(
        tmp_path / "run.zip",
        iteration=90,
        epoch=2,
        saved={"time": "2024-05-01T12:00:00.500+00:00"},
        records={"error": 0.5},
        series={"id": "abc", "number": 4, "keep": to_plain(KeepLast(2))},
    )
    assert read_entry(path) == Entry(
        path=str(path),
        file_bytes=path.stat().st_size,
        iteration=90,
        epoch=2,
        time=1714564800.5,
        records={"error": 0.5},
        series="abc",
        number=4,
        policy=KeepLast(2),
    )
    assert read_entry(path).as_saved(True) == Saved(
        str(path), 90, 2, 1714564800.5, {"error": 0.5}, True, True
    )


def test_entry_without_its_main_loop_is_not_complete(tmp_path, write_checkpoint):
    path = write_checkpoint(tmp_path / "run.zip", iteration=1, main_loop_error="a lambda")
    assert not read_entry(path).is_complete


@pytest.mark.parametrize(
    "odd",
    [
        {"status": {"iterations_done": "9", "epochs_done": -1}},
        {"status": {"iterations_done": True, "epochs_done": 1.5}},
        {"saved": {"time": "yesterday"}, "series": {"id": 3, "number": "4", "keep": 3}},
        {"saved": {"time": 5}, "series": ["abc"], "records": [1]},
        {"series": None, "records": None},
    ],
)
def test_what_is_not_of_its_kind_is_as_good_as_not_there(tmp_path, write_checkpoint, odd):
    path = write_checkpoint(tmp_path / "run.zip", **odd)
    assert read_entry(path) == Entry(path=str(path), file_bytes=path.stat().st_size)


def test_survey_is_in_the_order_of_iterations(tmp_path, write_checkpoint):
    write_checkpoint(tmp_path / "c.zip", iteration=9)
    write_checkpoint(tmp_path / "a.zip", iteration=10)
    write_checkpoint(tmp_path / "b.zip", iteration=100)
    write_checkpoint(tmp_path / "d.zip")
    for place, name in enumerate(["b.zip", "c.zip", "a.zip", "d.zip"]):
        os.utime(tmp_path / name, (place, place))
    found = survey(tmp_path)
    assert [entry.iteration for entry in found.entries] == [None, 9, 10, 100]
    assert list(found.by_series()) == [None]


def test_survey_reports_what_cannot_be_read_and_passes_over_what_is_something_else(
    tmp_path, write_checkpoint
):
    whole = write_checkpoint(tmp_path / "a.zip", iteration=1).read_bytes()
    (tmp_path / "empty.zip").touch()
    (tmp_path / "cut.zip").write_bytes(whole[:-30])
    (tmp_path / "newer.zip").touch()
    write_checkpoint(tmp_path / "newer.zip", format_version=99)
    (tmp_path / "train.log").write_text("text")
    (tmp_path / ".b.zip.1-00.partial").write_bytes(whole)
    (tmp_path / "folder.zip").mkdir()
    found = survey(tmp_path)
    assert [os.path.basename(entry.path) for entry in found.entries] == ["a.zip"]
    assert {os.path.basename(path) for path, _ in found.unreadable} == {
        "empty.zip",
        "cut.zip",
        "newer.zip",
    }
    assert all(reason for _, reason in found.unreadable)


def test_survey_lists_what_links_point_to_once(tmp_path, write_checkpoint):
    path = write_checkpoint(tmp_path / "a.zip", iteration=1)
    os.symlink("a.zip", tmp_path / "latest.zip")
    found = survey(os.path.realpath(tmp_path))
    assert [entry.path for entry in found.entries] == [os.path.realpath(path)]
    assert found.linked == {os.path.realpath(path)}


def test_link_out_of_the_folder_is_nobodys_to_delete(tmp_path, write_checkpoint):
    write_checkpoint(tmp_path / "a.zip", iteration=1, series={"id": "abc"})
    (tmp_path / "runs").mkdir()
    os.symlink("../a.zip", tmp_path / "runs" / "b.zip")
    (entry,) = survey(tmp_path / "runs").entries
    assert (os.path.basename(entry.path), entry.iteration, entry.series) == ("b.zip", 1, None)


def test_survey_has_what_blocks_wrote():
    found = survey(LEGACY)
    assert {"blocks-0.2.zip", "blocks-2018-09.tar"} <= {
        os.path.basename(entry.path) for entry in found.entries
    }
    assert {(entry.format, entry.series) for entry in found.entries} == {("blocks", None)}


def test_folder_that_is_a_checkpoint_itself_is_the_one_there_is():
    (entry,) = survey(LEGACY / "blocks-0.0.1-dump").entries
    assert (entry.path, entry.iteration) == (str(LEGACY / "blocks-0.0.1-dump"), 8)
    assert entry.file_bytes > 0


def test_survey_of_no_folder_is_an_error(tmp_path):
    with pytest.raises(OSError, match="gone"):
        survey(tmp_path / "gone")


def test_entry_of_no_checkpoint_is_an_error(tmp_path):
    (tmp_path / "a.zip").write_text("text")
    with pytest.raises(LoadError):
        read_entry(tmp_path / "a.zip")


def test_one_bit_makes_a_file_no_longer_whole(tmp_path, write_checkpoint):
    path = write_checkpoint(tmp_path / "a.zip", iteration=1)
    assert is_whole(path)
    content = bytearray(path.read_bytes())
    content[content.index(b"\x93NUMPY") + 300] ^= 1
    path.write_bytes(content)
    assert not is_whole(path)
    assert not is_whole(tmp_path / "gone.zip")
