"""``blocks-checkpoint ls``."""

import inspect
import json
import os
import re
import subprocess
import sys
from datetime import datetime, timedelta, timezone

import pytest
from click.testing import CliRunner

from blocks_checkpoint.cli.inspecting import main
from blocks_checkpoint.cli.listing import chosen_policy
from blocks_checkpoint.retention import KeepBest, KeepEvery, KeepFor, KeepLast
from blocks_checkpoint.retention.policy_forms import to_plain

NO_OPTIONS = {
    "keep_last": None,
    "keep_best": (),
    "keep_every_epochs": None,
    "keep_every_iterations": None,
    "keep_hours": None,
}


def run(*arguments):
    # Before click 8.2, standard error is kept apart only on request.
    can_mix = "mix_stderr" in inspect.signature(CliRunner).parameters
    runner = CliRunner(**({"mix_stderr": False} if can_mix else {}))
    return runner.invoke(main, ["ls", *map(str, arguments)])


def hours_ago(hours):
    return {"time": (datetime.now(timezone.utc) - timedelta(hours=hours)).isoformat()}


@pytest.fixture
def folder(tmp_path, write_checkpoint):
    """Return a folder with a series of four, and a file that belongs to none."""
    keep = to_plain(KeepLast(1) | KeepBest(1, "error"))
    for number, error in enumerate([0.5, 0.25, float("nan"), 0.3], 1):
        write_checkpoint(
            tmp_path / f"run-{number}.zip",
            iteration=90 + 10 * number,
            epoch=number,
            saved=hours_ago(10 - 2 * number + 0.1),
            records={"error": error, "cost [b]": 1.5, "phase": "late"},
            series={"id": "abcdef0123456789", "number": number, "keep": keep},
        )
    write_checkpoint(tmp_path / "weights.zip")
    return tmp_path


def test_table_for_people(folder):
    text = "\n".join(line.rstrip() for line in run(folder).stdout.splitlines())
    assert re.sub(r"\b8\.\d kB", "size", re.sub(r"(?<=, )[\d.]+ kB$", "SIZE", text)) == (
        "file         series    iteration  epoch  error    size  age  verified     kept because\n"
        "weights.zip  none              ?      ?      -  size    ?  not checked  no rule\n"
        "run-1.zip    abcdef01        100      1    0.5  size  8 h  not checked  not kept\n"
        "run-2.zip    abcdef01        110      2   0.25  size  6 h  not checked  "
        "best 1 by lowest error\n"
        "run-3.zip    abcdef01        120      3    nan  size  4 h  not checked  not kept\n"
        "run-4.zip    abcdef01        130      4    0.3  size  2 h  not checked  last 1, newest\n"
        "5 checkpoints, SIZE"
    )


def column(text, title):
    """Return the cells of a column: between two are two spaces or more."""
    rows = [re.split(r" {2,}", line.strip()) for line in text.splitlines()[:-1]]
    return [row[rows[0].index(title)] for row in rows[1:]]


def test_rules_given_replace_those_recorded(folder):
    assert column(run(folder, "--keep-last", 2).stdout, "kept because") == [
        "no rule",
        "not kept",
        "not kept",
        "last 2",
        "last 2, newest",
    ]


def test_values_are_those_asked_for(folder):
    text = run(folder, "--value", "phase", "--value", "cost [b]").stdout
    assert "phase  cost [b]" in text
    assert " error " not in text
    assert column(text, "phase") == ["-", "late", "late", "late", "late"]


def test_value_that_nobody_recorded_is_refused(folder):
    result = run(folder, "--value", "eror")
    assert result.exit_code == 2
    assert "no checkpoint here has a value of 'eror'. There are: cost [b], error" in result.stderr


def test_one_series_needs_no_column(folder):
    (folder / "weights.zip").unlink()
    assert "series" not in run(folder).stdout


def test_verify_reads_every_byte(folder):
    damaged = folder / "run-4.zip"
    content = bytearray(damaged.read_bytes())
    content[content.index(b"\x93NUMPY") + 300] ^= 1
    damaged.write_bytes(content)
    text = run(folder, "--verify").stdout
    assert column(text, "verified") == ["yes", "yes", "yes", "yes", "damaged"]
    assert column(text, "kept because") == [
        "no rule",
        "not kept",
        "best 1 by lowest error",
        "last 1, last good",
        "newest, damaged",
    ]


def test_json_has_everything(folder):
    (folder / "run-9.zip").touch()
    told = json.loads(run(folder, "--json").stdout)
    first = told["checkpoints"][1]
    assert 8 * 3600 < first.pop("age_seconds") < 9 * 3600
    assert first.pop("time") > 1e9
    assert first == {
        "path": os.path.realpath(folder / "run-1.zip"),
        "file_bytes": (folder / "run-1.zip").stat().st_size,
        "format": "blocks_checkpoint",
        "iteration": 100,
        "epoch": 1,
        "records": {"error": 0.5, "cost [b]": 1.5, "phase": "late"},
        "is_complete": True,
        "series": "abcdef0123456789",
        "number": 1,
        "verified": None,
        "kept": [],
    }
    assert [row["kept"] for row in told["checkpoints"]] == [
        None,
        [],
        ["best 1 by lowest error"],
        [],
        ["last 1", "newest"],
    ]
    (unreadable,) = told["unreadable"]
    assert unreadable["path"].endswith("run-9.zip")
    assert "empty" in unreadable["reason"]


def test_json_has_no_nan_that_other_programs_refuse(folder):
    def refuse(word):
        raise AssertionError(word)

    told = json.loads(run(folder, "--json").stdout, parse_constant=refuse)
    assert told["checkpoints"][3]["records"]["error"] is None


def test_what_cannot_be_read_has_a_line_each(folder):
    (folder / "run-9.zip").touch()
    result = run(folder)
    assert result.exit_code == 0
    (line,) = [line for line in result.stdout.splitlines() if "run-9" in line]
    assert line.startswith("cannot be read: run-9.zip: ")


def test_names_from_files_do_not_steer_the_terminal(tmp_path, write_checkpoint):
    name = "\x1b[2Jerror"
    keep = [{"rule": "KeepBest", "n": 1, "record": name}]
    write_checkpoint(
        tmp_path / "a\x1b[2J.zip",
        iteration=1,
        records={name: "\x1b[2J"},
        series={"id": "\x1b[2J", "keep": keep},
    )
    write_checkpoint(tmp_path / "b.zip")
    (tmp_path / "c\x1b[2J.zip").touch()
    text = run(tmp_path).stdout
    assert "\x1b" not in text
    assert text.count(r"\x1b[2J") >= 5


def test_empty_folder_has_none(tmp_path):
    assert run(tmp_path).stdout == "0 checkpoints, 0 B\n"


def test_folder_is_the_working_one_unless_given(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert run().stdout == run(folder).stdout


def test_missing_folder_is_one_line_on_standard_error(tmp_path):
    result = run(tmp_path / "gone")
    assert result.exit_code == 1
    assert result.stderr == f"error: {tmp_path / 'gone'}: No such file or directory\n"


@pytest.mark.parametrize(
    ("options", "policy"),
    [
        ({"keep_last": 3}, [KeepLast(3)]),
        ({"keep_best": ("error",)}, [KeepBest(1, "error")]),
        ({"keep_best": ("error:2",)}, [KeepBest(2, "error")]),
        ({"keep_best": ("error:max",)}, [KeepBest(1, "error", "max")]),
        ({"keep_best": ("a:b:2:min", "c")}, [KeepBest(2, "a:b"), KeepBest(1, "c")]),
        (
            {"keep_every_epochs": 10, "keep_every_iterations": 5, "keep_hours": 0.5},
            [KeepEvery(epochs=10), KeepEvery(iterations=5), KeepFor(0.5)],
        ),
    ],
)
def test_options_make_up_a_policy(options, policy):
    assert list(chosen_policy(**{**NO_OPTIONS, **options}).rules()) == policy


@pytest.mark.parametrize(
    "options",
    [
        ("--keep-last", 0),
        ("--keep-best", ""),
        ("--keep-best", "error:0"),
        ("--keep-every-epochs", -1),
        ("--keep-hours", "nan"),
        ("--keep-last", "x"),
    ],
)
def test_bad_option_is_refused(folder, options):
    result = run(folder, *options)
    assert result.exit_code == 2
    assert "Error: " in result.stderr


def test_no_engine_is_imported(folder):
    program = (
        "import sys; from blocks_checkpoint.cli.inspecting import main\n"
        f"main(['ls', {str(folder)!r}, '--verify'], standalone_mode=False)\n"
        "print(sorted({'pytensor', 'theano', 'aesara', 'blocks'}.intersection(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def test_help_says_what_there_is():
    text = run("--help").stdout
    for word in ("FOLDER", "--json", "--value", "--keep-last", "--keep-best", "--verify"):
        assert word in text
    assert max(map(len, text.splitlines())) <= 80
