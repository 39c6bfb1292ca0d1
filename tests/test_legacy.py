"""Every kind of checkpoint that Blocks wrote opens, without Blocks."""

import io
import subprocess
import sys
import tarfile
import zipfile

import numpy as np
import pytest
from old_checkpoints import (
    FILES,
    KINDS,
    Role,
    SharedVariable,
    Stand,
    pickled_main_loop,
    truth,
)

from blocks_checkpoint import load_log, load_parameters, open_checkpoint
from blocks_checkpoint.errors import (
    DamagedCheckpoint,
    LoadError,
)
from blocks_checkpoint.legacy import LegacyCheckpoint, open_legacy

OTHER_ARRAYS = {
    "2015-06": {"tmp/tmp6mohqghn", "None_2", "None_3", "None_4", "None_5", "None_6"},
    "0.1.1": {"momentum", "learning_rate", "velocity", "velocity_2", "velocity_3", "velocity_4"},
    "0.2": {"momentum", "learning_rate", "velocity", "velocity_2", "velocity_3", "velocity_4"},
}


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
