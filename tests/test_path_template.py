"""Paths with fields."""

import os
from datetime import datetime
from pathlib import Path

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocks_checkpoint.errors import SaveError
from blocks_checkpoint.retention.path_template import PathTemplate, is_template, template_values

NOW = datetime(2024, 5, 1, 14, 3, 59)
VALUES = template_values(
    {"epochs_done": 7, "iterations_done": 1234, "_epoch_ends": [1, 2], "resumed_from": None},
    {"valid_error": 0.061249, "train-cost": 2.5, "epochs_done": 99},
    now=NOW,
    host="node3",
)


def path_of(template, **values):
    return PathTemplate(template).format({**VALUES, **values})


@pytest.mark.parametrize(
    ("template", "path"),
    [
        pytest.param(
            "runs/digits-{epochs_done:03d}-{valid_error:.4f}.zip",
            "runs/digits-007-0.0612.zip",
            id="the-example",
        ),
        pytest.param("{iterations_done}.zip", "1234.zip", id="field-first"),
        pytest.param("run.{iterations_done}", "run.1234", id="field-last"),
        pytest.param("{train-cost}.zip", "2.5.zip", id="name-that-is-no-identifier"),
        pytest.param("{date}_{time}.zip", "2024-05-01_14-03-59.zip", id="date-and-time"),
        pytest.param("{date:%y%m%d}{time:%H%M}.zip", "2405011403.zip", id="form-of-a-date"),
        pytest.param("{host}/{epochs_done}/x.zip", "node3/7/x.zip", id="folders"),
        pytest.param("/a//b/../{epochs_done}.zip", "/a//b/../7.zip", id="own-text-is-left"),
        pytest.param("{{{epochs_done}}}{{}}.zip", "{7}{}.zip", id="braces"),
        pytest.param("{epochs_done}-{epochs_done}.", "7-7.", id="field-twice"),
    ],
)
def test_path_is(template, path):
    assert is_template(template)
    assert is_template(Path("runs") / template)
    assert path_of(template) == path


@pytest.mark.parametrize(
    "path",
    ["run.zip", "a{b.zip", "a}b.zip", "a{{b}}.zip", "}{", os.path.join("a", "{{}}", "b.zip"), ""],
)
def test_path_without_fields_is_no_template(path):
    assert not is_template(path)


@pytest.mark.parametrize(
    "template",
    [
        "{0.__class__}.zip",
        "{epochs_done.__class__}.zip",
        "{epochs_done[0]}.zip",
        "{}.zip",
        "{0}.zip",
        "{epochs_done!r}.zip",
        "{epochs_done:{valid_error}}.zip",
        "{epochs_done:{}}.zip",
    ],
)
def test_field_that_is_no_plain_name_is_refused(template):
    with pytest.raises(ValueError, match="is the name of something"):
        is_template(template)
    with pytest.raises(ValueError, match="is the name of something"):
        PathTemplate(template)


@pytest.mark.parametrize("template", ["{epochs_done}-{valid_error.zip", "{epochs_done}}.zip"])
def test_brace_without_counterpart_beside_a_field_is_refused(template):
    with pytest.raises(ValueError, match="without a counterpart"):
        is_template(template)


def test_missing_field_is_an_error_that_names_those_there_are():
    with pytest.raises(SaveError) as caught:
        path_of("runs/{valid_eror:.4f}-{other}-{epochs_done}.zip")
    text = str(caught.value)
    assert "'runs/{valid_eror:.4f}-{other}-{epochs_done}.zip' has {valid_eror}, {other}," in text
    assert "Do you mean {valid_error}?" in text
    assert (
        "There are: date, epochs_done, host, iterations_done, time, train-cost, valid_error."
        in text
    )


def test_none_is_no_value():
    with pytest.raises(SaveError, match="has {resumed_from}"):
        path_of("{resumed_from}.zip")


@pytest.mark.parametrize(
    ("template", "value"),
    [("{x:03d}", 0.5), ("{x:.4f}", "text"), ("{x:.4f}", numpy.zeros(3)), ("{x:c}", 2**40)],
)
def test_value_that_does_not_fit_its_format_is_an_error(template, value):
    with pytest.raises(SaveError, match="the value of x is .* does not fit"):
        path_of(template, x=value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (numpy.float32(0.25), "0.2500"),
        (numpy.array(0.25), "0.2500"),
        (float("nan"), "nan"),
        (numpy.int64(2), "2.0000"),
    ],
)
def test_numbers_of_every_kind_are_formatted(value, text):
    assert path_of("{x:.4f}.zip", x=value) == f"{text}.zip"


@pytest.mark.parametrize(
    ("template", "value", "path"),
    [
        pytest.param(
            "runs/{x}.zip", "../../etc/passwd", "runs/..%2F..%2Fetc%2Fpasswd.zip", id="up"
        ),
        pytest.param("runs/{x}/a.zip", "..", "runs/%2E%2E/a.zip", id="parent"),
        pytest.param("runs/{x}./a.zip", ".", "runs/%2E%2E/a.zip", id="parent-in-parts"),
        pytest.param("runs/{x}/a.zip", ".", "runs/%2E/a.zip", id="same-folder"),
        pytest.param("{x}/a.zip", "", "_/a.zip", id="empty-folder-is-not-the-root"),
        pytest.param("{x}", "/etc/passwd", "%2Fetc%2Fpasswd", id="absolute"),
        pytest.param("{x}", r"C:\x", "C%3A%5Cx", id="drive"),
        pytest.param("a{x}.zip", "\0\n\x1b", "a%00%0A%1B.zip", id="control"),
        pytest.param("a{x}.zip", "\u202e", "a%E2%80%AE.zip", id="direction"),
        pytest.param("a{x}.zip", "\u00a0", "a%C2%A0.zip", id="other-space"),
        pytest.param("a{x}.zip", "\ud800", "a%ED%A0%80.zip", id="lone-surrogate"),
        pytest.param("a{x}.zip", '<>:"|?*', "a%3C%3E%3A%22%7C%3F%2A.zip", id="windows"),
        pytest.param("{x}.zip", "NUL", "_NUL.zip", id="device"),
        pytest.param("{x}.zip", "com1.tar", "_com1.tar.zip", id="device-with-suffix"),
        pytest.param("co{x}.zip", "n", "_con.zip", id="device-in-parts"),
        pytest.param("{x}", "a. ", "a%2E%20", id="end"),
        pytest.param("{x}.zip", "é ü", "é ü.zip", id="letters-are-kept"),
        pytest.param("{x}.zip", "{epochs_done}", "{epochs_done}.zip", id="no-field-in-a-value"),
    ],
)
def test_value_stays_one_legal_file_name(template, value, path):
    assert path_of(template, x=value) == path


def test_long_value_is_shortened_and_keeps_the_suffix():
    one, other = (path_of("{x}-{epochs_done}.zip", x="é" * 300 + end) for end in "ab")
    assert one != other
    assert len(os.fsencode(one)) <= 200
    assert one.endswith(".zip")


texts = st.text(max_size=4) | st.sampled_from(["..", "/", ".", "", "con", "x" * 300, "\0", "~"])


@settings(deadline=None)
@given(texts, texts, st.sampled_from(["r/{x}{y}.zip", "r/{x}", "r/{x}.{y}", "r/a-{x}-b{y}"]))
def test_any_value_gives_one_name_in_the_folder_that_the_template_knows_again(x, y, text):
    template = PathTemplate(text)
    path = template.format({"x": x, "y": y})
    folder, name = path.split("/")
    assert (folder, name in {"", ".", ".."}) == ("r", False)
    assert name.isprintable()
    assert not set(name) & set('\\<>:"|?*')
    assert 0 < len(name.encode()) <= 200
    assert template.matches(path)


@pytest.mark.parametrize(
    ("template", "name", "is_match"),
    [
        pytest.param("run-{x}.zip", "run-12.zip", True, id="number"),
        pytest.param("run-{x}.zip", "elsewhere/run-12.zip", True, id="any-folder"),
        pytest.param("run-{x}.zip", "run-.zip", True, id="empty"),
        pytest.param("run-{x}.zip", "best.zip", False, id="other"),
        pytest.param("run-{x}.zip", "run-1.zip.partial", False, id="longer"),
        pytest.param("run-{x}.zip", "my-run-1.zip", False, id="longer-in-front"),
        pytest.param("a{x}b{y}b", "a1b2b", True, id="two"),
        pytest.param("a{x}b{y}b", "a1b", False, id="no-overlap"),
        pytest.param("a{x}a", "a", False, id="no-overlap-of-ends"),
        pytest.param("{x}.zip", "_con.zip", True, id="device"),
        pytest.param("{x}.zip", "%2E%2E.zip", True, id="escaped"),
        pytest.param("run.zip", "run.zip", True, id="no-fields"),
        pytest.param("run.zip", "other.zip", False, id="no-fields-other"),
    ],
)
def test_name_may_be_of_the_template(template, name, is_match):
    assert PathTemplate(template).matches(name) is is_match


def test_files_are_found_in_folders_with_fields(tmp_path):
    names = ["n1/run-1.zip", "n1/run-2.zip", "n2/run-1.zip", "n1/best.zip", "other/run-1.zip"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "n1/run-dir.zip").mkdir()
    os.symlink("run-1.zip", tmp_path / "n1" / "run-link.zip")
    (tmp_path / "n3").touch()
    template = PathTemplate(str(tmp_path / "n{host}" / "run-{epochs_done}.zip"))
    assert template.find() == [str(tmp_path / name) for name in names[:3]]
    assert template.name == "run-{epochs_done}.zip"


def test_files_are_found_beside_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("7.zip").touch()
    assert PathTemplate("{epochs_done}.zip").find() == ["7.zip"]
    assert PathTemplate("gone/{epochs_done}.zip").find() == []


def test_names_with_many_dashes_are_compared_at_once():
    template = PathTemplate("-".join(f"{{x{number}}}" for number in range(12)) + ".zip")
    assert not template.matches("-" * 200 + ".tar")
