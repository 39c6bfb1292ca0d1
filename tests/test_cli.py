"""The commands: what they print, their exit codes, and what they never do."""

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
from click.testing import CliRunner

from blocks_checkpoint import dump
from blocks_checkpoint.cli import continuing, inspecting
from blocks_checkpoint.cli.text import readable_bytes, readable_dtype, readable_shape
from blocks_checkpoint.engines import current
from blocks_checkpoint.miniblocks.utils.testing import MockMainLoop

ROOT = Path(__file__).resolve().parent.parent


class Canary:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


def run(*arguments, command=inspecting.main):
    # Before click 8.2, standard error is kept apart only on request.
    can_mix = "mix_stderr" in inspect.signature(CliRunner).parameters
    runner = CliRunner(**({"mix_stderr": False} if can_mix else {}))
    return runner.invoke(command, list(map(str, arguments)))


def error_lines(result):
    """Return what a command that failed as it should wrote to standard error."""
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    return result.stderr.splitlines()


def shared(name, *shape, dtype="float32"):
    return current().shared(numpy.zeros(shape, dtype), name=name)


@pytest.fixture(autouse=True)
def own_search_path(monkeypatch):
    """Keep from other tests what ``blocks-continue`` adds for its own process."""
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture
def saved(tmp_path):
    """Return the path of a checkpoint of a main loop in its third epoch."""
    weights, bias = shared("W", 64, 10), shared("b", 10)
    main_loop = MockMainLoop(extensions=[])
    main_loop.status.update(epochs_done=2, iterations_done=90)
    main_loop.buffers = [shared("velocity", 64, 10), numpy.zeros(20_000, ">i4")]
    path = tmp_path / "run.zip"
    dump(main_loop, path, parameters=[weights, bias])
    return path


def test_info_is_a_table_for_people(saved, monkeypatch):
    monkeypatch.chdir(saved.parent)
    text = run("info", "run.zip").stdout
    text = "\n".join(line.rstrip() for line in text.splitlines())
    text = re.sub(r"(?<=run.zip \()[\d.]+ kB", "SIZE", text)
    text = re.sub(r"^(saved {6}|versions {3}|cost {7}).*", r"\1...", text, flags=re.MULTILINE)
    assert text == (
        "file       run.zip (SIZE)\n"
        "status     2 epochs done, 90 iterations done\n"
        "saved      ...\n"
        "versions   ...\n"
        "format     blocks_checkpoint 1\n"
        "main loop  present\n"
        "cost       ...\n"
        "pickles    iteration_state, log, pkl (loading them runs code; this did not)\n"
        "\n"
        "Parameters    shape  type       size\n"
        "W           64 × 10  float32  2.6 kB\n"
        "b                10  float32    40 B\n"
        "2 in all, 2.6 kB\n"
        "\n"
        "Other arrays  kind      shape  type        size\n"
        "velocity      shared  64 × 10  float32   2.6 kB\n"
        "arrays/0      array     20000  >i4      80.0 kB\n"
        "2 in all, 82.6 kB"
    )


def test_info_says_when_where_and_with_what_it_was_saved(saved):
    text = run("info", saved).stdout
    assert re.search(r"^saved +\d{4}-\d\d-\d\dT\S+ on \S+", text, re.MULTILINE)
    assert re.search(rf"^versions +python \S+, numpy {numpy.__version__},", text, re.MULTILINE)
    assert f"{current().name} {current().version}" in text


def test_info_as_json_has_the_same_and_totals(saved):
    told = json.loads(run("info", saved, "--json").stdout)
    assert told["path"] == str(saved)
    assert told["file_bytes"] == saved.stat().st_size
    assert told["status"]["epochs_done"] == 2
    assert told["parameters"][0] == {
        "name": "W",
        "kind": "parameter",
        "shape": [64, 10],
        "dtype": "<f4",
        "nbytes": 2560,
        "member": "W.npy",
    }
    assert told["totals"] == {"parameters": 2600, "others": 82560}
    assert told["pickles"] == ["iteration_state", "log", "pkl"]


def test_info_gives_the_size_of_types_numpy_cannot_name(tmp_path):
    pairs = numpy.zeros(20_000, [("x", "<i4"), ("y", "<f8")])
    dump([pairs], tmp_path / "pairs.zip")
    told = json.loads(run("info", tmp_path / "pairs.zip", "--json").stdout)
    assert [array["nbytes"] for array in told["others"]] == [240_000]


def test_info_keeps_long_names_whole(tmp_path):
    name = "/".join(["a_rather_long_brick_name"] * 5)
    dump([shared(name, 1)], tmp_path / "long.zip")
    assert name in run("info", tmp_path / "long.zip").stdout


def test_info_escapes_what_would_steer_the_terminal(tmp_path):
    dump([shared("W\x1b[2J[bold]", 1)], tmp_path / "odd.zip")
    text = run("info", tmp_path / "odd.zip").stdout
    assert "\x1b" not in text
    assert r"W\x1b[2J[bold]" in text


@pytest.mark.parametrize("command", ["info", "verify"])
def test_command_imports_no_engine_and_unpickles_nothing(tmp_path, command):
    canary = tmp_path / "canary"
    path = tmp_path / "trap.zip"
    dump([Canary(str(canary)), shared("W", 2)], path)
    program = (
        "import sys; from blocks_checkpoint.cli.inspecting import main\n"
        f"main([{command!r}, {str(path)!r}], standalone_mode=False)\n"
        "print(sorted({'pytensor', 'theano', 'aesara', 'blocks'}.intersection(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
    assert not canary.exists()


LEGACY = ROOT / "tests" / "legacy"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("blocks-0.0.1-dump", "dump"),
        ("blocks-2015-06.zip", "zip"),
        ("blocks-0.2.zip", "zip"),
        ("blocks-2018-09.tar", "tar"),
    ],
)
def test_info_and_verify_take_what_blocks_wrote(name, kind):
    text = run("info", LEGACY / name).stdout
    assert "status     2 epochs done, 8 iterations done" in text
    assert re.search(r"^versions +Blocks ", text, re.MULTILINE)
    assert re.search(rf"^format +blocks {kind}", text, re.MULTILINE)
    assert re.search(r"^/mlp/linear_0\.W +4 × 6 +float64 +192 B", text, re.MULTILINE)
    assert run("verify", LEGACY / name).exit_code == 0


def test_info_prints_a_warning_as_one_line(tmp_path):
    """Names that have the delimiter of an old file in them are guesses."""
    numpy.savez(tmp_path / "odd.npz", **{"-mlp-foo-bar.W": numpy.zeros(3)})
    result = run("info", tmp_path / "odd.npz")
    assert result.exit_code == 0
    assert re.fullmatch(
        r"warning: .*odd\.npz: 1 names of parameters are guesses.*\n", result.stderr
    )


def make_missing(path):
    return "there is no such file"


def make_text(path):
    path.write_text("not a checkpoint")
    return "no checkpoint"


def make_empty(path):
    path.touch()
    return "empty"


def make_cut_short(path):
    dump([shared("W", 100)], path)
    path.write_bytes(path.read_bytes()[:-30])
    return ""


@pytest.mark.parametrize("make", [make_missing, make_text, make_empty, make_cut_short])
@pytest.mark.parametrize(
    "command",
    [
        pytest.param((inspecting.main, "info"), id="info"),
        pytest.param((continuing.main,), id="continue"),
    ],
)
def test_bad_file_is_one_line_on_standard_error(tmp_path, command, make):
    path = tmp_path / "bad.zip"
    expected = make(path)
    lines = error_lines(run(*command[1:], path, command=command[0]))
    assert len(lines) == 1
    assert lines[0].startswith(f"error: {path}")
    assert expected in lines[0]


def test_verify_prints_one_line_a_file(saved, tmp_path):
    damaged = tmp_path / "damaged.zip"
    content = bytearray(saved.read_bytes())
    with_values = content.index(b"\x93NUMPY") + 300
    content[with_values] ^= 1
    damaged.write_bytes(content)
    result = run("verify", saved, damaged, tmp_path / "gone.zip")
    assert result.exit_code == 1
    good, bad, gone = result.stdout.splitlines()
    assert good == f"good {saved}"
    assert re.match(rf"bad {re.escape(str(damaged))}: member '[\w/]+\.npy': ", bad)
    assert gone.startswith(f"bad {tmp_path / 'gone.zip'}: there is no such file")


def test_verify_succeeds_when_all_files_are_good(saved):
    assert run("verify", saved, saved).exit_code == 0


def test_verify_as_json_has_member_and_reason(saved):
    content = bytearray(saved.read_bytes())
    content[content.index(b"\x93NUMPY") + 300] ^= 1
    saved.write_bytes(content)
    result = run("verify", saved, "--json")
    assert result.exit_code == 1
    (verdict,) = json.loads(result.stdout)
    assert (verdict["path"], verdict["good"], verdict["error"]) == (str(saved), False, None)
    assert [set(found) for found in verdict["damage"]] == [{"member", "reason"}]


@pytest.mark.parametrize(
    ("command", "says"),
    [
        pytest.param((inspecting.main,), ["convert", "info", "verify", "is run"], id="group"),
        pytest.param((inspecting.main, "info"), ["PATH", "--json", "unpickled"], id="info"),
        pytest.param((inspecting.main, "verify"), ["PATH...", "--json", "exit code"], id="verify"),
        pytest.param((continuing.main,), ["PATH", "--main SCRIPT", "trust"], id="continue"),
    ],
)
def test_help_says_what_there_is(command, says):
    text = run(*command[1:], "--help", command=command[0]).stdout
    assert [word for word in says if word not in text] == []
    assert max(map(len, text.splitlines())) <= 80


def test_installed_commands_are_these():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    scripts = dict(re.findall(r'^(blocks-\w+) = "blocks_checkpoint\.cli\.(\w+):main"$', text, re.M))
    assert scripts == {"blocks-checkpoint": "inspecting", "blocks-continue": "continuing"}


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (None, "?"),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (2_500_000_000, "2.5 GB"),
        (3 * 10**15, "3000.0 TB"),
    ],
)
def test_readable_bytes_has_a_fitting_unit(number, text):
    assert readable_bytes(number) == text


def test_readable_shape_and_dtype():
    assert readable_shape(()) == "scalar"
    assert readable_shape((3, 4)) == "3 × 4"
    assert readable_dtype("<f8") == "float64"
    assert readable_dtype(">f8") == ">f8"
    assert readable_dtype("bfloat16") == "bfloat16"
    assert readable_dtype("[('x', '<i4')]") == "[('x', '<i4')]"
