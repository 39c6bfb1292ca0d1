"""Every kind of checkpoint that Blocks wrote opens, without Blocks."""

import io
import os
import pickle
import subprocess
import sys
import tarfile
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

from blocks_checkpoint import (
    load_log,
    load_parameters,
    open_checkpoint,
)
from blocks_checkpoint.errors import (
    CheckpointError,
    CheckpointNotFound,
    CheckpointWarning,
    DamagedCheckpoint,
    HostileCheckpoint,
    LoadError,
    ParameterWarning,
)
from blocks_checkpoint.legacy import LegacyCheckpoint, open_legacy
from blocks_checkpoint.miniblocks.log import TrainingLog

FILES = Path(__file__).resolve().parent / "legacy"

#: File, kind, file of the true values.
KINDS = {
    "0.0.1": ("blocks-0.0.1-dump", "dump", "blocks-0.0.1-truth.npz"),
    "2015-06": ("blocks-2015-06.zip", "zip", "blocks-2015-06-truth.npz"),
    "0.1.1": ("blocks-0.1.1.zip", "zip", "blocks-0.1.1-truth.npz"),
    "0.2": ("blocks-0.2.zip", "zip", "blocks-0.2-truth.npz"),
    "2018-09": ("blocks-2018-09.tar", "tar", "blocks-2018-09-truth.npz"),
    "npz": ("blocks-0.0.1-dump/params.npz", "npz", "blocks-0.0.1-truth.npz"),
}
OTHER_ARRAYS = {
    "2015-06": {"tmp/tmp6mohqghn", "None_2", "None_3", "None_4", "None_5", "None_6"},
    "0.1.1": {"momentum", "learning_rate", "velocity", "velocity_2", "velocity_3", "velocity_4"},
    "0.2": {"momentum", "learning_rate", "velocity", "velocity_2", "velocity_3", "velocity_4"},
}


class MainLoop:
    """Stands in for the one of Blocks."""


class Stand:
    """Stands in for a brick, a container, a tag."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Role:
    """Stands in for a role."""


class SharedVariable:
    """Stands in for the one of Theano."""

    def __init__(self, name, value, **tag):
        self.name = name
        self.container = Stand(storage=[np.array(value) if isinstance(value, float) else value])
        self.tag = Stand(**tag)


def truth(version):
    with np.load(FILES / KINDS[version][2]) as npz:
        return {name.replace("|", "/"): npz[name] for name in npz.files}


@pytest.mark.parametrize("version", KINDS)
def test_parameters_come_back_under_the_names_of_the_model(version):
    with open_legacy(FILES / KINDS[version][0]) as checkpoint:
        assert checkpoint.kind == KINDS[version][1]
        expected = truth(version)
        assert set(checkpoint.parameters) == set(expected)
        for name, value in expected.items():
            loaded = checkpoint.parameters[name]
            assert loaded.dtype == value.dtype
            np.testing.assert_array_equal(loaded, value)


@pytest.mark.parametrize("version", KINDS)
def test_it_is_opened_as_a_checkpoint_of_today_is(version):
    path = FILES / KINDS[version][0]
    with open_checkpoint(path) as checkpoint:
        assert isinstance(checkpoint, LegacyCheckpoint)
    loaded, expected = load_parameters(path), truth(version)
    assert set(loaded) == set(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(loaded[name], value)
    if version != "npz":
        assert load_log(path).status["iterations_done"] == 8


@pytest.mark.parametrize("mark", ["/", "|", "-"])
def test_npz_of_parameters_is_opened_as_a_checkpoint_is(mark, tmp_path):
    path = tmp_path / "p.npz"
    np.savez(path, **{f"{mark}mlp{mark}linear_0.W": np.ones(2)})
    assert list(load_parameters(path)) == ["/mlp/linear_0.W"]


@pytest.mark.parametrize("version", KINDS)
def test_other_arrays_keep_the_names_they_have(version):
    with open_legacy(FILES / KINDS[version][0]) as checkpoint:
        others = set(checkpoint.arrays) - set(checkpoint.parameters)
        assert others == OTHER_ARRAYS.get(version, set())
        if "momentum" in others:
            assert checkpoint.arrays["momentum"] == 0.9
            assert checkpoint.arrays["velocity"].shape == (3,)


@pytest.mark.parametrize("version", [version for version in KINDS if version != "npz"])
def test_log_and_status_are_read(version):
    with open_legacy(FILES / KINDS[version][0]) as checkpoint:
        log = checkpoint.log()
        # Blocks' own where Blocks is imported, else that of miniblocks.
        assert type(log).__name__ == "TrainingLog"
        assert log.status["iterations_done"] == 8
        assert log.status["_epoch_ends"] == [4, 8]
        assert sorted(log) == list(range(1, 9))
        assert log[8]["training_finished"] is True
        assert checkpoint.status["epochs_done"] == 2


def test_nothing_of_it_needs_blocks_or_an_engine_or_unpickling():
    script = """
import pickle, sys
for name in ("blocks", "fuel", "theano", "pytensor", "aesara"):
    sys.modules[name] = None
def refuse(*args, **kwargs):
    raise AssertionError("unpickled")
pickle.load = pickle.loads = pickle.Unpickler = refuse
from blocks_checkpoint.legacy import LegacyCheckpoint, open_legacy
for path in sys.argv[1:]:
    with open_legacy(path) as checkpoint:
        assert checkpoint.parameters["/mlp/linear_0.W"].shape == (4, 6)
        assert len(checkpoint.log()) == 8
"""
    paths = [str(FILES / KINDS[version][0]) for version in KINDS if version != "npz"]
    # The unpickler that the package has for its own files is a subclass.
    script = script.replace("pickle.Unpickler = refuse", "refuse", 1)
    subprocess.run([sys.executable, "-c", script, *paths], check=True, timeout=120)


@pytest.mark.parametrize("version", [v for v in KINDS if v not in ("0.0.1", "npz")])
def test_parameters_need_no_pickle_that_can_be_read(version, tmp_path):
    old = FILES / KINDS[version][0]
    new = tmp_path / old.name
    copy = _copy_zip if old.suffix == ".zip" else _copy_tar
    copy(old, new, lambda name, content: b"rubbish" if name in _PICKLES else content)
    with open_legacy(new) as checkpoint:
        for name, value in truth(version).items():
            np.testing.assert_array_equal(checkpoint.parameters[name], value)
        assert checkpoint.status == {}
        with pytest.raises(DamagedCheckpoint):
            checkpoint.log()
        assert checkpoint.verify()


_PICKLES = ("pkl", "_pkl", "log")


def _copy_zip(old, new, change):
    with zipfile.ZipFile(old) as source, zipfile.ZipFile(new, "w") as target:
        for info in source.infolist():
            target.writestr(info.filename, change(info.filename, source.read(info)))


def _copy_tar(old, new, change):
    with tarfile.open(old) as source, tarfile.open(new, "w") as target:
        for info in source:
            content = change(info.name, source.extractfile(info).read())
            info.size = len(content)
            target.addfile(info, io.BytesIO(content))


@pytest.mark.parametrize("version", [version for version in KINDS if version != "0.0.1"])
def test_open_file_is_read_and_left_open(version):
    with open(FILES / KINDS[version][0], "rb") as file:
        with open_legacy(file) as checkpoint:
            assert checkpoint.kind == KINDS[version][1]
            assert "/mlp/linear_0.W" in checkpoint.parameters
        assert not file.closed


def test_kind_is_recognised_by_content_and_not_by_name(tmp_path):
    for version, (file, kind, _) in KINDS.items():
        if version == "0.0.1":
            continue
        renamed = tmp_path / f"{version}.dat"
        renamed.write_bytes((FILES / file).read_bytes())
        with open_legacy(renamed) as checkpoint:
            assert checkpoint.kind == kind


@pytest.mark.parametrize("version", KINDS)
def test_whole_file_verifies(version):
    done = []
    with open_legacy(FILES / KINDS[version][0]) as checkpoint:
        assert checkpoint.verify(done.append) == []
    assert sum(done) > 900


@pytest.mark.parametrize("version", KINDS)
def test_manifest_describes_the_arrays(version):
    with open_legacy(FILES / KINDS[version][0]) as checkpoint:
        manifest = checkpoint.manifest
        assert manifest["format"] == "blocks"
        rows = {row["parameter_name"]: row for row in manifest["arrays"]}
        assert set(rows) == set(checkpoint.arrays)
        row = rows["/mlp/linear_0.W"]
        assert (row["dtype"], row["shape"], row["kind"]) == ("<f8", [4, 6], "parameter")
        np.testing.assert_array_equal(
            checkpoint.read_row(row), checkpoint.parameters["/mlp/linear_0.W"]
        )


@pytest.mark.parametrize(
    "version", [pytest.param(v, id=v) for v in KINDS if v not in ("0.0.1", "npz")]
)
def test_main_loop_without_blocks_is_an_error_that_says_what_it_needs(version, monkeypatch):
    monkeypatch.setitem(sys.modules, "blocks", None)
    monkeypatch.setitem(sys.modules, "blocks.main_loop", None)
    with open_legacy(FILES / KINDS[version][0]) as checkpoint:
        for load in (checkpoint.main_loop, checkpoint.iteration_state):
            with pytest.raises(LoadError, match=r"needs that Blocks.*load_parameters"):
                load()


@pytest.mark.blocks
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("version", ["0.1.1", "0.2", "2018-09"])
def test_main_loop_is_unpickled_where_blocks_is(version):
    pytest.importorskip("blocks.main_loop")
    with open_legacy(FILES / KINDS[version][0]) as checkpoint:
        main_loop = checkpoint.main_loop()
        assert main_loop.log.status["iterations_done"] == 8
        for name, parameter in main_loop.model.get_parameter_dict().items():
            np.testing.assert_array_equal(parameter.get_value(), checkpoint.parameters[name])


# Main loops without an archive.


@pytest.fixture(params=["2015-06", "0.1.1", "0.2"])
def bare(request, tmp_path):
    """Return a pickled main loop as Blocks 0.0.1 saved it, and the true values."""
    with zipfile.ZipFile(FILES / KINDS[request.param][0]) as archive:
        (tmp_path / "main_loop.pkl").write_bytes(archive.read("pkl"))
    return tmp_path / "main_loop.pkl", truth(request.param)


def test_parameters_are_found_in_a_bare_pickle(bare):
    path, expected = bare
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.kind == "pickle"
        assert set(checkpoint.parameters) == set(expected)
        for name, value in expected.items():
            np.testing.assert_array_equal(checkpoint.parameters[name], value)
        assert len(checkpoint.arrays) == 10
        assert checkpoint.log().status["iterations_done"] == 8
        assert checkpoint.verify() == []
    assert set(load_parameters(path)) == set(expected)


def test_parameters_are_found_in_a_tar_without_an_npz(bare, tmp_path):
    with tarfile.open(tmp_path / "new.tar", "w") as archive:
        archive.add(bare[0], "_pkl")
    with open_legacy(tmp_path / "new.tar") as checkpoint:
        assert checkpoint.kind == "tar"
        for name, value in bare[1].items():
            np.testing.assert_array_equal(checkpoint.parameters[name], value)


def test_names_in_a_pickle_are_whole_and_without_doubt(tmp_path):
    brick = Stand(name="my-mlp|x", parents=[Stand(name="top", parents=[])])
    ring = Stand(name="ring", parents=[])
    ring.parents.append(ring)
    variables = [
        SharedVariable("W", 1.0, annotations=[brick], roles=[Stand()]),
        SharedVariable("W", 2.0, annotations=[brick]),
        SharedVariable("velocity", 3.0),
        SharedVariable(None, 4.0),
        SharedVariable("lost", 5.0, annotations=[Stand(name="application"), ring]),
        SharedVariable("text", "no array"),
    ]
    path = tmp_path / "main_loop.pkl"
    path.write_bytes(pickled_main_loop(None, algorithm=variables))
    with open_legacy(path) as checkpoint:
        values = {name: float(value) for name, value in checkpoint.arrays.items()}
        (lost,) = [name for name in values if name.endswith("ring.lost")]
        assert values.pop(lost) == 5
        assert values == {
            "/top/my-mlp|x.W_0": 1,
            "/top/my-mlp|x.W_1": 2,
            "velocity": 3,
            "parameter": 4,
        }
        assert set(checkpoint.parameters) == {"/top/my-mlp|x.W_0", "/top/my-mlp|x.W_1", lost}


@pytest.mark.parametrize(
    ("brick", "role", "is_parameter"),
    [
        pytest.param(True, "WeightRole", True, id="weight-of-a-brick"),
        pytest.param(True, "BatchNormPopulationMeanRole", False, id="statistic-of-a-brick"),
        pytest.param(False, "ParameterRole", True, id="parameter-outside-bricks"),
        pytest.param(False, "AlgorithmBufferRole", False, id="buffer"),
        pytest.param(False, "AlgorithmHyperparameterRole", False, id="learning-rate"),
    ],
)
def test_role_tells_parameters_from_others(brick, role, is_parameter, tmp_path):
    annotations = [Stand(name="mlp", parents=[])] if brick else []
    variable = SharedVariable("v", 1.0, annotations=annotations, roles=[Role()])
    content = pickled_main_loop(None, variable=variable)
    stand_in = f"c{Role.__module__}\nRole\n".encode()
    path = tmp_path / "main_loop.pkl"
    path.write_bytes(content.replace(stand_in, f"cblocks.roles\n{role}\n".encode()))
    with open_legacy(path) as checkpoint:
        assert len(checkpoint.arrays) == 1
        assert len(checkpoint.parameters) == is_parameter


# Files of other contents, put together as Blocks put them together.


def write_npz(path, names):
    np.savez(path, **{name: np.full(2, float(place)) for place, name in enumerate(names)})


def npy(value):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(value))
    return buffer.getvalue()


def write_zip(path, names, pickled):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for place, name in enumerate(names):
            archive.writestr(name, npy(np.full(2, float(place))))
        archive.writestr("pkl", pickled)


def write_tar(path, names, pickled=None, **others):
    parameters = io.BytesIO()
    write_npz(parameters, names)
    contents = {"_parameters": parameters.getvalue(), "_pkl": pickled, **others}
    with tarfile.open(path, "w") as archive:
        for name, content in contents.items():
            if content is not None:
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))


def names_of(path):
    """Names of parameters and of other arrays, in the order of the file."""
    with open_legacy(path) as checkpoint:
        for place, name in enumerate(checkpoint.arrays):
            assert checkpoint.arrays[name][0] == place
        parameters = list(checkpoint.parameters)
        return parameters, [name for name in checkpoint.arrays if name not in parameters]


@pytest.mark.parametrize(
    ("stored", "names"),
    [
        pytest.param(["-mlp-linear_0.W"], ["/mlp/linear_0.W"], id="hyphens"),
        pytest.param(["|mlp|linear_0.W"], ["/mlp/linear_0.W"], id="bars"),
        pytest.param(["/mlp/linear_0.W"], ["/mlp/linear_0.W"], id="slashes"),
        pytest.param(["|my-mlp|a_b.W"], ["/my-mlp/a_b.W"], id="hyphen-among-bars"),
        pytest.param(["/my-mlp/a|b.W"], ["/my-mlp/a|b.W"], id="others-among-slashes"),
        pytest.param(["|a|b.W", "plain"], ["/a/b.W", "plain"], id="plain-variable"),
        pytest.param(["|a|b.W", "c|d"], ["/a/b.W", "c|d"], id="plain-variable-with-bar"),
        pytest.param(["|a|b.W", "c-d"], ["/a/b.W", "c-d"], id="plain-variable-with-hyphen"),
        pytest.param(["-mlp.W", "c-d"], ["/mlp.W", "c-d"], id="plain-beside-hyphens"),
        pytest.param(["|mlp.W|x"], ["/mlp.W/x"], id="no-dot-behind-the-last-bar"),
        pytest.param(["|mlp|é ü.W"], ["/mlp/é ü.W"], id="not-ascii"),
        pytest.param(["|mlp|linear.W", "|mlp|linear.W_2"], None, id="numbered"),
        pytest.param(["W", "b"], ["W", "b"], id="no-bricks"),
    ],
)
def test_npz_of_any_delimiter_is_read(stored, names, tmp_path):
    path = tmp_path / "p.npz"
    write_npz(path, stored)
    expected = names or [name.replace("|", "/") for name in stored]
    assert names_of(path) == (expected, [])


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(["-encoder-decoder-linear_0.W"], id="names-that-users-gave"),
        pytest.param(["-my-mlp-linear_0.W", "-mlp.b"], id="one-of-them"),
        pytest.param(["|a||b.W"], id="empty-name"),
    ],
)
def test_name_that_can_be_read_in_two_ways_is_reported(stored, tmp_path):
    path = tmp_path / "p.npz"
    write_npz(path, stored)
    with open_legacy(path) as checkpoint:
        with pytest.warns(ParameterWarning, match="guesses") as caught:
            assert len(checkpoint.parameters) == len(stored)
        assert str(path) in str(caught[0].message)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert checkpoint.parameters


def test_two_names_that_become_one_are_kept_apart_and_reported(tmp_path):
    path = tmp_path / "old.zip"
    write_zip(path, ["mlp-linear.W", "/mlp/linear.W"], pickle.dumps(None))
    with open_legacy(path) as checkpoint:
        with pytest.warns(ParameterWarning, match="guesses"):
            arrays = checkpoint.arrays
        assert {name: arrays[name][0] for name in arrays} == {"mlp-linear.W": 0, "/mlp/linear.W": 1}


@pytest.mark.parametrize("protocol", [1, 2, 4])
@pytest.mark.parametrize(
    ("bricks", "stored", "name"),
    [
        pytest.param(["my-mlp", "linear_0"], "my-mlp-linear_0.W", "/my-mlp/linear_0.W", id="first"),
        pytest.param(["my", "mlp", "x"], "my-mlp-x.W", "/my/mlp/x.W", id="no-hyphen"),
        pytest.param(["a", "b-c"], "a-b-c.W", "/a/b-c.W", id="last"),
        pytest.param(["a-b-c"], "a-b-c.W", "/a-b-c.W", id="only"),
        pytest.param(["a-", "-b"], "a---b.W", "/a-/-b.W", id="at-the-edges"),
    ],
)
def test_hyphen_in_the_name_of_a_brick_is_told_by_the_pickle(
    bricks, stored, name, protocol, tmp_path
):
    path = tmp_path / "old.zip"
    write_zip(path, [stored], pickle.dumps([bricks, "noise " + stored], protocol))
    assert names_of(path) == ([name], [])


@pytest.mark.parametrize("raw", [b"U\x06my-mlp", b"T\x06\0\0\0my-mlp"], ids=["short", "long"])
def test_names_are_found_in_pickles_of_python_2(raw, tmp_path):
    path = tmp_path / "old.zip"
    write_zip(path, ["my-mlp-linear_0.W"], b"(" + raw + b"q\x01U\x08linear_0q\x02t.")
    assert names_of(path) == (["/my-mlp/linear_0.W"], [])


def test_bar_in_the_name_of_a_brick_is_told_by_the_pickle(tmp_path):
    path = tmp_path / "new.tar"
    write_tar(path, ["|my|mlp|linear_0.W", "extra|b"], pickle.dumps(["my|mlp", "linear_0"]))
    assert names_of(path) == (["/my|mlp/linear_0.W", "extra|b"], [])


def test_plain_variable_with_a_dot_is_no_brick(tmp_path):
    path = tmp_path / "old.zip"
    write_zip(path, ["plain.c", "brick.W"], pickle.dumps(["plain.c", "brick"]))
    assert names_of(path) == (["/brick.W"], ["plain.c"])


def test_pickle_in_which_both_readings_stand_leaves_a_doubt(tmp_path):
    path = tmp_path / "old.zip"
    write_zip(path, ["a-b.W"], pickle.dumps(["a", "b", "a-b"]))
    with open_legacy(path) as checkpoint, pytest.warns(ParameterWarning, match="or /a-b.W"):
        assert list(checkpoint.parameters) == ["/a/b.W"]


@pytest.mark.parametrize("name", ["/encoder-decoder/linear_0.W", "/encoder/decoder/linear_0.W"])
def test_model_that_asks_by_its_names_has_no_doubt(name, tmp_path):
    path = tmp_path / "p.npz"
    write_npz(path, ["-encoder-decoder-linear_0.W"])
    with open_legacy(path) as checkpoint, warnings.catch_warnings():
        warnings.simplefilter("error")
        (row,) = checkpoint.rows_for([name, "/other.b"])
        assert (row["parameter_name"], row["kind"]) == (name, "parameter")
        assert checkpoint.read_rows([row])[0].shape == (2,)


def test_plain_parameter_of_a_model_is_found_among_other_arrays(tmp_path):
    path = tmp_path / "old.zip"
    write_zip(path, ["W_extra", "velocity"], pickle.dumps(None))
    with open_legacy(path) as checkpoint:
        kinds = {row["name"]: row["kind"] for row in checkpoint.rows_for(["W_extra"])}
        assert kinds == {"W_extra": "parameter", "velocity": "shared"}


# Logs.


def pickled_main_loop(log, **others):
    loop = MainLoop()
    loop.__dict__.update(others, log=log)
    return _as_of_blocks(loop)


def _as_of_blocks(thing):
    """Pickle as if the classes were those of Blocks."""
    content = pickle.dumps(thing, 2)
    old = f"c{MainLoop.__module__}\nMainLoop\n".encode()
    return content.replace(old, b"cblocks.main_loop\nMainLoop\n").replace(
        b"cblocks_checkpoint.miniblocks.log\n", b"cblocks.log.log\n"
    )


class Canary:
    def __reduce__(self):
        return os.system, ("touch canary",)


@pytest.fixture
def log():
    log = TrainingLog()
    log[2]["cost"] = np.float32(0.5)
    log.status["iterations_done"] = 2
    return log


def test_log_is_taken_out_of_a_main_loop_that_would_run_code(log, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "old.zip"
    write_zip(path, ["mlp.W"], pickled_main_loop(log, before=Canary(), z=[Canary()]))
    with open_legacy(path) as checkpoint:
        assert checkpoint.log()[2] == {"cost": 0.5}
        assert checkpoint.parameters["/mlp.W"].shape == (2,)
        assert checkpoint.verify() == []
    assert not (tmp_path / "canary").exists()


def test_record_that_is_no_plain_value_is_inert_and_reported(log, tmp_path):
    log[1]["odd"] = Canary()
    path = tmp_path / "old.zip"
    write_zip(path, ["mlp.W"], pickled_main_loop(log))
    with open_legacy(path) as checkpoint, pytest.warns(CheckpointWarning, match=r"\.system"):
        loaded = checkpoint.log()
    assert repr(loaded[1]["odd"]) == "<inert object of posix.system>"


def test_log_of_its_own_member_is_read_by_the_restricted_unpickler(log, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log[1]["odd"] = Canary()
    path = tmp_path / "new.tar"
    write_tar(path, ["|mlp.W"], log=_as_of_blocks(log))
    with open_legacy(path) as checkpoint, pytest.raises(LoadError, match=r"system.*allow="):
        checkpoint.log()
    assert not (tmp_path / "canary").exists()


def test_log_in_a_database_is_said_to_be_there(tmp_path):
    sqlite = b"(cblocks.log.sqlite\nSQLiteLog\no}S'database'\nS'here.db'\nsb"
    main_loop = b"(cblocks.main_loop\nMainLoop\no}S'log'\n" + sqlite + b"sb."
    path = tmp_path / "old.zip"
    write_zip(path, ["mlp.W"], main_loop)
    with open_legacy(path) as checkpoint, pytest.raises(LoadError, match=r"database 'here\.db'"):
        checkpoint.log()


@pytest.mark.parametrize(
    ("pickled", "why"),
    [
        pytest.param(b"(cblocks.model\nModel\no.", "is a blocks.model.Model", id="a-model"),
        pytest.param(pickle.dumps([1]), "is a list", id="a-list"),
        pytest.param(
            b"(cblocks.main_loop\nMainLoop\no}S'log'\n(cmy.log\nMine\nosb.",
            "the log is a my.log.Mine",
            id="a-log-of-another-class",
        ),
        pytest.param(
            b"(cblocks.main_loop\nMainLoop\no}S'log'\nS'x'\nsb.", "the log is a str", id="no-log"
        ),
    ],
)
def test_pickle_without_a_log_says_what_it_is(pickled, why, tmp_path):
    path = tmp_path / "old.zip"
    write_zip(path, ["mlp.W"], pickled)
    with open_legacy(path) as checkpoint:
        with pytest.raises(LoadError, match=why):
            checkpoint.log()
        assert checkpoint.status == {}
        assert checkpoint.verify() == []


@pytest.mark.parametrize("protocol", [0, 1, 2])
def test_log_pickled_into_a_file_of_its_own_is_read(protocol, log, tmp_path):
    path = tmp_path / "run_log.pkl"
    content = pickle.dumps(log, protocol)
    path.write_bytes(content.replace(b"blocks_checkpoint.miniblocks.log", b"blocks.log"))
    with open_legacy(path) as checkpoint:
        assert checkpoint.kind == "pickle"
        assert checkpoint.log()[2] == {"cost": 0.5}
        assert len(checkpoint.parameters) == 0


def test_file_without_a_log_says_so():
    with open_legacy(FILES / KINDS["npz"][0]) as checkpoint:
        with pytest.raises(LoadError, match="no log in it"):
            checkpoint.log()
        with pytest.raises(LoadError, match="no main loop in it"):
            checkpoint.main_loop()
        assert checkpoint.status == {}


# What is none of them, is damaged, or hostile.


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"some text\n" * 100, id="text"),
        pytest.param(b"\0" * 1024, id="zeros"),
        pytest.param(pickle.dumps({"a": 1}), id="another-pickle"),
        pytest.param(b"PK\x03\x04 and no more", id="beginning-of-a-zip"),
    ],
)
def test_something_else_is_none(content, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(content)
    assert open_legacy(path) is None
    assert open_legacy(io.BytesIO(content)) is None


def test_archives_of_other_things_are_none(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("readme.txt", "x")
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr("checkpoint.json", "{}")
        archive.writestr("pkl", b"N.")
    with tarfile.open(tmp_path / "c.tar", "w") as archive:
        archive.add(__file__, "x.py")
    with zipfile.ZipFile(tmp_path / "d.zip", "w"):
        pass
    for name in ("a.zip", "b.zip", "c.tar", "d.zip", "."):
        assert open_legacy(tmp_path / name) is None


def test_missing_file_is_not_found(tmp_path):
    with pytest.raises(CheckpointNotFound):
        open_legacy(tmp_path / "none.zip")


@pytest.mark.parametrize("version", [version for version in KINDS if version != "0.0.1"])
def test_every_truncation_is_noticed(version):
    content = (FILES / KINDS[version][0]).read_bytes()
    for length in [*range(0, len(content), 997), len(content) - 1]:
        try:
            checkpoint = open_legacy(io.BytesIO(content[:length]))
        except (DamagedCheckpoint, HostileCheckpoint):
            continue
        if checkpoint is not None:
            # The padding at the end of a tar means nothing.
            assert not content[length:].strip(b"\0") or checkpoint.verify()


@pytest.mark.filterwarnings("ignore::blocks_checkpoint.errors.ParameterWarning")
def test_every_flipped_bit_of_a_parameter_is_noticed():
    content = bytearray((FILES / "blocks-2018-09.tar").read_bytes())
    with open_legacy(io.BytesIO(bytes(content))) as checkpoint:
        expected = {name: checkpoint.parameters[name] for name in checkpoint.parameters}
    start = content.index(b"PK\x03\x04")
    end = content.index(b"_pkl")
    for position in range(start, end, 7):
        content[position] ^= 4
        try:
            checkpoint = open_legacy(io.BytesIO(bytes(content)))
            loaded = {name: checkpoint.parameters[name] for name in checkpoint.parameters}
        except CheckpointError:
            loaded = None
        # Names are covered by no checksum; a changed one is another name.
        for name in set(loaded or ()) & set(expected):
            np.testing.assert_array_equal(loaded[name], expected[name])
        content[position] ^= 4


def _zip_with(tmp_path, content, **attributes):
    path = tmp_path / "old.zip"
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo("mlp.W")
        archive.writestr(info, content)
        archive.writestr("pkl", b"N.")
        for name, value in attributes.items():
            setattr(info, name, value)
    return path


def test_object_array_is_refused(tmp_path):
    path = tmp_path / "p.npz"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.savez(path, W=np.array([Canary()], dtype=object))
    with open_legacy(path) as checkpoint, pytest.raises(DamagedCheckpoint, match="objects"):
        checkpoint.parameters["W"]


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        pytest.param({"file_size": 1 << 40}, "promises", id="size-beyond-the-file"),
        pytest.param({"flag_bits": 1}, "encrypted", id="encrypted"),
        pytest.param({"compress_type": 14}, "compressed in a way", id="another-compression"),
    ],
)
def test_list_of_members_that_nobody_wrote_is_refused(attributes, why, tmp_path):
    path = _zip_with(tmp_path, npy([1.0]), **attributes)
    with pytest.raises(HostileCheckpoint, match=why):
        open_legacy(path)


@pytest.fixture
def repeating(tmp_path):
    """Return a function that writes an archive with members of one name."""

    def write(*members):
        path = tmp_path / "repeating.zip"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with zipfile.ZipFile(path, "w") as archive:
                for name, content in members:
                    archive.writestr(name, content)
        return path

    return write


def test_members_to_which_blocks_gave_one_name_are_numbered(repeating):
    """As in a checkpoint that was once committed to blocks-examples."""
    names = ["mlp.W", "shared_None", "shared_None_2", "shared_None_2", "shared_None_2_0"]
    path = repeating(
        *((name, npy(np.full(2, float(n)))) for n, name in enumerate(names)), ("pkl", b"N.")
    )
    with open_legacy(path) as checkpoint:
        values = {name: checkpoint.arrays[name][0] for name in checkpoint.arrays}
        assert checkpoint.verify() == []
    assert sorted(values.values()) == [0, 1, 2, 3, 4]
    assert values["/mlp.W"] == 0
    assert values["shared_None_2_0"] == 4


@pytest.mark.parametrize("name", ["pkl", "W.npy"])
def test_two_members_of_one_name_that_blocks_never_wrote_are_refused(name, repeating):
    content = npy([1.0]) if name == "W.npy" else b"N."
    with pytest.raises(HostileCheckpoint, match="two members"):
        open_legacy(repeating((name, content), (name, content)))


def test_shape_that_promises_more_than_there_is_is_refused(tmp_path):
    header = npy(np.zeros(2)).replace(b"(2,), ", b"(2" + b"0" * 12 + b",), ")[:128]
    path = _zip_with(tmp_path, header + b"\0" * 16)
    with open_legacy(path) as checkpoint, pytest.raises(DamagedCheckpoint, match="promises"):
        _ = checkpoint.arrays["/mlp.W"]


def _tar_with(*infos):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for info in infos:
            archive.addfile(info, io.BytesIO(b"x" * max(info.size, 0)))
    return buffer


def _info(name, **attributes):
    info = tarfile.TarInfo(name)
    for attribute, value in attributes.items():
        setattr(info, attribute, value)
    return info


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param({"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}, id="symbolic-link"),
        pytest.param({"type": tarfile.LNKTYPE, "linkname": "_parameters"}, id="hard-link"),
        pytest.param({"type": tarfile.CHRTYPE}, id="device"),
        pytest.param({"type": tarfile.FIFOTYPE}, id="pipe"),
    ],
)
def test_member_of_a_tar_that_is_no_file_is_refused(attributes):
    with pytest.raises(HostileCheckpoint, match="no regular file"):
        open_legacy(_tar_with(_info("_pkl", **attributes)))


def test_size_in_a_tar_that_leads_back_ends():
    content = bytearray(_tar_with(_info("_pkl", size=512)).getvalue())
    # A negative number in the binary form of sizes.
    content[124:136] = (-1024).to_bytes(12, "big", signed=True)
    content[148:156] = b" " * 8
    content[148:156] = b"%06o\0 " % sum(content[:512])
    with pytest.raises((HostileCheckpoint, DamagedCheckpoint)):
        open_legacy(io.BytesIO(bytes(content)))


def test_member_that_add_to_dump_replaced_counts_once(log, tmp_path):
    path = tmp_path / "new.tar"
    write_tar(path, ["|mlp.W"], log=b"rubbish")
    content = _as_of_blocks(log)
    with tarfile.open(path, "a") as archive:
        archive.addfile(_info("log", size=len(content)), io.BytesIO(content))
    with open_legacy(path) as checkpoint:
        assert checkpoint.log()[2] == {"cost": 0.5}


def test_names_of_absurd_length_take_no_time(tmp_path):
    path = tmp_path / "old.zip"
    write_zip(path, ["-".join(["a"] * 20_000) + ".W"], pickle.dumps(["a"] * 1000))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with open_legacy(path) as checkpoint:
            assert len(checkpoint.arrays) == 1
