"""From what Blocks wrote to a checkpoint of today, and to other files."""

import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from old_checkpoints import FILES

from blocks_checkpoint import load_log, load_parameters, open_checkpoint, save_parameters
from blocks_checkpoint.cli.convert import convert as command
from blocks_checkpoint.conversion import convert, export_npz, export_safetensors
from blocks_checkpoint.errors import LoadError, SaveError
from blocks_checkpoint.legacy import open_legacy

WITH_LOG = [
    "blocks-0.0.1-dump",
    "blocks-2015-06.zip",
    "blocks-0.1.1.zip",
    "blocks-0.2.zip",
    "blocks-2018-09.tar",
]
ALL = [*WITH_LOG, "blocks-0.0.1-dump/params.npz"]
OLD = FILES / "blocks-0.2.zip"


@pytest.fixture
def new(tmp_path):
    return tmp_path / "new.zip"


@pytest.mark.parametrize("file", ALL)
def test_arrays_are_carried_over(file, new):
    convert(FILES / file, new)
    with open_legacy(FILES / file) as old, open_checkpoint(new) as checkpoint:
        assert checkpoint.verify() == []
        assert len(checkpoint.arrays) == len(old.arrays)
        for name, value in old.arrays.items():
            loaded = checkpoint.arrays[name]
            assert loaded.dtype == value.dtype
            np.testing.assert_array_equal(loaded, value)
        assert set(load_parameters(new)) == set(old.parameters)


@pytest.mark.parametrize("file", WITH_LOG)
def test_log_and_status_are_carried_over(file, new):
    convert(FILES / file, new)
    with open_legacy(FILES / file) as old, open_checkpoint(new) as checkpoint:
        expected, log = old.log(), checkpoint.log()
        assert (dict(log), log.status) == (dict(expected), expected.status)
        assert checkpoint.status["iterations_done"] == 8


def test_numpy_reads_the_new_file_by_the_names_of_today(new):
    convert(OLD, new)
    with np.load(new) as arrays:
        assert arrays["mlp/linear_0/W"].shape == (4, 6)
        assert arrays["momentum"] == 0.9


@pytest.mark.parametrize(
    ("file", "left"),
    [
        ("blocks-0.0.1-dump", ["iteration state"]),
        ("blocks-0.2.zip", ["main loop"]),
        ("blocks-2018-09.tar", ["main loop"]),
        ("blocks-0.0.1-dump/params.npz", []),
    ],
)
def test_what_is_not_carried_over_is_listed_and_recorded(file, left, new):
    report = convert(FILES / file, new)
    assert len(report["not_carried_over"]) == len(left)
    for sentence, words in zip(report["not_carried_over"], left):
        assert words in sentence
    with open_checkpoint(new) as checkpoint:
        converted = checkpoint.manifest["converted"]
        assert converted["not_carried_over"] == report["not_carried_over"]
        assert converted["from"] == Path(file).name
        assert checkpoint.manifest["main_loop"] == "absent"
        with pytest.raises(LoadError, match="converted from one of Blocks"):
            checkpoint.main_loop()


def _old_zip(path, stored, pickled):
    with zipfile.ZipFile(path, "w") as archive:
        for name in stored:
            with archive.open(name, "w") as member:
                np.lib.format.write_array(member, np.ones(2))
        archive.writestr("pkl", pickled)


@pytest.mark.filterwarnings("ignore::blocks_checkpoint.errors.CheckpointWarning")
def test_record_that_a_log_may_not_hold_is_left_behind_and_named(tmp_path, new):
    log = (
        b"(cblocks.log\nTrainingLog\no(I3\n(dS'odd'\nctheano\nthing\nsS'cost'\nF0.5\nsd"
        b"}S'status'\n}S'iterations_done'\nI3\nssb"
    )
    log = b"cblocks.log\nTrainingLog\n(tRI3\n}S'odd'\nctheano\nthing\nsS'cost'\nF0.5\nss"
    log += b"}S'status'\n}S'iterations_done'\nI3\nssb"
    _old_zip(
        tmp_path / "old.zip", ["mlp.W"], b"(cblocks.main_loop\nMainLoop\no}S'log'\n" + log + b"sb."
    )
    report = convert(tmp_path / "old.zip", new)
    assert any("'odd' of iteration 3" in sentence for sentence in report["not_carried_over"])
    assert dict(load_log(new)) == {3: {"cost": 0.5}}


def test_log_that_cannot_be_read_is_left_behind_and_the_rest_comes(tmp_path, new):
    _old_zip(tmp_path / "old.zip", ["mlp.W"], b"rubbish")
    report = convert(tmp_path / "old.zip", new)
    assert report["log"] is False
    assert any(sentence.startswith("the log: ") for sentence in report["not_carried_over"])
    assert load_parameters(new)["/mlp.W"].tolist() == [1, 1]


@pytest.mark.filterwarnings("ignore::blocks_checkpoint.errors.ParameterWarning")
def test_doubt_about_a_name_is_recorded(tmp_path, new):
    np.savez(tmp_path / "p.npz", **{"-en-coder-linear_0.W": np.ones(2)})
    report = convert(tmp_path / "p.npz", new)
    assert "'/en/coder/linear_0.W'" in report["not_carried_over"][0]


@pytest.mark.parametrize("write", [convert, export_npz], ids=["convert", "npz"])
def test_file_that_is_there_is_replaced_by_force_only(write, new):
    new.write_bytes(b"precious")
    with pytest.raises(SaveError, match="force"):
        write(OLD, new)
    assert new.read_bytes() == b"precious"
    write(OLD, new, force=True)
    assert zipfile.is_zipfile(new)


def test_file_that_appears_meanwhile_is_not_replaced(new, monkeypatch):
    from blocks_checkpoint import conversion

    def snapshot(*args):
        new.write_bytes(b"precious")
        return made(*args)

    made = conversion._snapshot
    monkeypatch.setattr(conversion, "_snapshot", snapshot)
    with pytest.raises(SaveError):
        convert(OLD, new)
    assert [path.read_bytes() for path in new.parent.iterdir()] == [b"precious"]


def test_old_file_is_never_replaced_by_the_new_one(tmp_path):
    old = tmp_path / "run.zip"
    old.write_bytes(OLD.read_bytes())
    with pytest.raises(SaveError, match="another name"):
        convert(old, old, force=True)
    assert old.read_bytes() == OLD.read_bytes()


def test_failure_leaves_nothing_behind(tmp_path, new):
    (tmp_path / "text").write_text("no checkpoint")
    with pytest.raises(LoadError, match="nothing that Blocks wrote"):
        convert(tmp_path / "text", new)
    assert not new.exists()


def test_checkpoint_of_today_is_not_converted(tmp_path, new):
    save_parameters({"/mlp.W": np.ones(2)}, tmp_path / "run.zip")
    with pytest.raises(LoadError, match="already"):
        convert(tmp_path / "run.zip", new)


NAMES = ["/mlp/linear_0.W", "/my-mlp/a|b.W", "file", "W", "é"]


def test_exported_npz_reads_back_under_the_same_names(tmp_path):
    values = {name: np.arange(6.0).reshape(2, 3) + n for n, name in enumerate(NAMES)}
    values["W"] = np.asfortranarray(values["W"])
    save_parameters(values, tmp_path / "run.zip")
    assert set(export_npz(tmp_path / "run.zip", tmp_path / "p.npz")) == set(NAMES)
    with np.load(tmp_path / "p.npz", allow_pickle=False) as arrays:
        assert set(arrays.files) == set(NAMES)
    loaded = load_parameters(tmp_path / "p.npz")
    assert list(loaded) == list(load_parameters(tmp_path / "run.zip"))
    for name, value in values.items():
        np.testing.assert_array_equal(loaded[name], value)


@pytest.mark.parametrize("file", ALL)
def test_old_checkpoint_is_exported(file, tmp_path):
    export_npz(FILES / file, tmp_path / "p.npz")
    assert load_parameters(tmp_path / "p.npz").keys() == load_parameters(FILES / file).keys()


def test_file_without_parameters_is_not_exported(tmp_path):
    save_parameters({}, tmp_path / "run.zip")
    with pytest.raises(LoadError, match="no parameters"):
        export_npz(tmp_path / "run.zip", tmp_path / "p.npz")


def test_exported_safetensors_read_back(tmp_path):
    numpy_files = pytest.importorskip("safetensors.numpy", exc_type=ImportError)
    values = {
        "/mlp/linear_0.W": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "big": np.arange(3, dtype=">i4"),
        "strided": np.arange(8, dtype="f4")[::2],
        "scalar": np.array(2.5),
    }
    save_parameters(values, tmp_path / "run.zip")
    export_safetensors(tmp_path / "run.zip", tmp_path / "p.safetensors")
    loaded = numpy_files.load_file(str(tmp_path / "p.safetensors"))
    assert set(loaded) == set(values)
    for name, value in values.items():
        assert loaded[name].shape == value.shape
        np.testing.assert_array_equal(loaded[name], value)


def test_type_that_safetensors_lacks_is_named(tmp_path):
    pytest.importorskip("safetensors.numpy", exc_type=ImportError)
    save_parameters({"z": np.ones(2, complex)}, tmp_path / "run.zip")
    with pytest.raises(SaveError, match="no type for z"):
        export_safetensors(tmp_path / "run.zip", tmp_path / "p.safetensors")


def test_missing_safetensors_is_said_with_the_cure(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "safetensors.numpy", None)
    with pytest.raises(SaveError, match="pip install safetensors"):
        export_safetensors(OLD, tmp_path / "p.safetensors")


# The command.


def run(*arguments):
    return CliRunner().invoke(command, list(map(str, arguments)))


def test_command_says_what_it_wrote_and_what_it_did_not(new):
    result = run(FILES / "blocks-0.1.1.zip", new)
    assert result.exit_code == 0
    first, second, third = result.output.splitlines()
    assert first == f"{new}: 4 parameters, 6 other arrays, the log, at iteration 8, epoch 2"
    assert second == "Not carried over:"
    assert third.startswith("- the main loop")


def test_command_fails_in_one_line(new):
    new.write_bytes(b"precious")
    result = run(OLD, new)
    assert result.exit_code == 1
    assert result.output.strip().splitlines() == [
        f"error: {new}: there is a file of that name. force=True (--force) replaces it"
    ]
    assert run(OLD, new, "--force").exit_code == 0


def test_command_exports(new):
    result = run(OLD, new, "--to", "npz")
    assert result.exit_code == 0
    assert len(load_parameters(new)) == 4


def test_command_takes_npz_only_where_told_so(new):
    assert "no npz" in run(OLD, new, "--from-npz").output
    assert not new.exists()
    assert run(FILES / "blocks-0.0.1-dump/params.npz", new, "--from-npz").exit_code == 0
    assert len(load_parameters(new)) == 4


def test_main_loop_that_would_run_code_does_not(tmp_path, new, monkeypatch):
    class Canary:
        def __reduce__(self):
            return __import__("os").system, ("touch canary",)

    monkeypatch.chdir(tmp_path)
    _old_zip(tmp_path / "old.zip", ["mlp.W"], pickle.dumps(Canary()))
    convert(tmp_path / "old.zip", new)
    assert not (tmp_path / "canary").exists()
