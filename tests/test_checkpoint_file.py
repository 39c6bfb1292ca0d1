"""Opening a checkpoint, and reading its parts one by one."""

import io
import json
import os
import shutil
import subprocess
import sys
import zipfile

import numpy
import pytest
from drifting import assert_same_values, make_main_loop, make_model

from blocks_checkpoint import (
    Checkpoint,
    CheckpointError,
    CheckpointNotFound,
    DamagedCheckpoint,
    LoadError,
    LoadParameters,
    NotACheckpoint,
    dump,
    load_log,
    load_parameters,
    open_checkpoint,
    save_parameters,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A checkpoint, and the main loop that it was saved from."""
    path = tmp_path_factory.mktemp("made") / "run.zip"
    main_loop = make_main_loop(Checkpoint(path), epochs=2)
    main_loop.run()
    return str(path), main_loop


@pytest.fixture
def path(made, tmp_path):
    """A copy that a test may spoil."""
    return shutil.copy(made[0], tmp_path / "run.zip")


def rewritten(path, change=None, **options):
    """Pack a checkpoint anew with the zipfile module, changing members on the way."""
    target = path.with_name("rewritten.zip")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(target, "w", **options) as new:
        for name in old.namelist():
            content = old.read(name)
            content = change(name, content) if change else content
            if content is not None:
                new.writestr(name, content)
    return target


# What is in it


def test_opening_reads_the_manifest_and_runs_nothing(made):
    path, _ = made
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.path == path
        assert checkpoint.status["iterations_done"] == 8
        assert checkpoint.manifest["format"] == "blocks_checkpoint"
        assert checkpoint.manifest["saved"]["pid"] == os.getpid()
        assert checkpoint.manifest["versions"]["numpy"] == numpy.__version__
        assert set(checkpoint.manifest["cost"]) >= {"pickle", "write"}
        assert "run.zip" in repr(checkpoint)
        assert checkpoint.verify() == []


def test_arrays_are_found_by_the_true_name_and_by_the_models(made):
    path, main_loop = made
    with open_checkpoint(path) as checkpoint:
        values = main_loop.model.get_parameter_values()
        assert set(checkpoint.parameters) == {name[1:].replace(".", "/") for name in values}
        for name, value in values.items():
            assert name in checkpoint.parameters
            for each in (name, name[1:].replace(".", "/")):
                assert numpy.array_equal(checkpoint.parameters[each], value)
        assert set(checkpoint.arrays) > set(checkpoint.parameters)
        assert len(checkpoint.arrays) == 9
        assert checkpoint.arrays["rate"] == 0.5
        assert "gone" not in checkpoint.arrays
        with pytest.raises(KeyError, match="gone"):
            checkpoint.arrays["gone"]
        assert "rate" not in checkpoint.parameters
        assert "9 arrays: " in repr(checkpoint.arrays)


def test_numpy_reads_every_array_without_pickles(made):
    path, _ = made
    with numpy.load(path, allow_pickle=False) as arrays, open_checkpoint(path) as checkpoint:
        for name, value in checkpoint.arrays.items():
            assert numpy.array_equal(arrays[name], value)


def test_parts_load_by_themselves_and_are_those_of_the_run(made):
    path, main_loop = made
    with open_checkpoint(path) as checkpoint:
        log = checkpoint.log()
        assert {t: log[t] for t in log if t < 8} == {t: main_loop.log[t] for t in log if t < 8}
        stream, _ = checkpoint.iteration_state()
        assert type(stream) is type(main_loop.data_stream)
        assert_same_values(checkpoint.main_loop(), main_loop)
        assert checkpoint.load("log")[3] == main_loop.log[3]
        assert checkpoint.load("pkl").status == checkpoint.main_loop().status


def test_what_is_one_object_in_the_loop_is_one_after_loading(made):
    with open_checkpoint(made[0]) as checkpoint:
        loaded = checkpoint.main_loop()
    assert all(extension.main_loop is loaded for extension in loaded.extensions)
    assert loaded.iteration_state[0] is loaded.data_stream
    assert loaded.algorithm.parameters[0] in loaded.model.parameters
    assert loaded.algorithm.velocities[0].tag.for_parameter is loaded.algorithm.parameters[0]


def test_reading_parameters_and_log_imports_no_engine(made):
    code = (
        "import sys; from blocks_checkpoint import *; from blocks_checkpoint import load_log\n"
        "p = sys.argv[1]\n"
        "assert len(load_parameters(p)) == 4 and load_log(p).status['epochs_done'] == 2\n"
        "with open_checkpoint(p) as c: assert c.verify() == []\n"
        "bad = {'pytensor', 'theano', 'aesara', 'blocks', 'fuel'} & set(sys.modules)\n"
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code, made[0]], check=True)


# From where


@pytest.mark.parametrize("opened", ["path", "pathlike", "file", "bytes", "unbuffered"])
def test_source_is_a_path_or_any_seekable_file(path, opened):
    with open(path, "rb") as file, open(path, "rb", buffering=0) as raw:
        file.seek(100)
        source = {
            "path": str(path),
            "pathlike": path,
            "file": file,
            "bytes": io.BytesIO(path.read_bytes()),
            "unbuffered": raw,
        }[opened]
        with open_checkpoint(source) as checkpoint:
            assert len(checkpoint.parameters) == 4
        if opened not in ("path", "pathlike"):
            assert not source.closed
        # Again, and for something else, from the same source.
        assert load_log(source).status["epochs_done"] == 2
        assert len(load_parameters(source)) == 4


def test_arrays_stay_when_the_file_is_closed_and_gone(path):
    with open_checkpoint(path) as checkpoint:
        rate = checkpoint.arrays["rate"]
    path.unlink()
    rate += 1
    assert rate == 1.5


def test_memory_maps_are_copies_on_write(path):
    content = path.read_bytes()
    with open_checkpoint(path, mmap=True) as checkpoint:
        mapped = checkpoint.arrays["mlp/linear_0/W"]
        expected = checkpoint.archive.read_array("mlp/linear_0/W.npy")
        assert numpy.array_equal(mapped, expected)
        mapped[:] = 7
    assert path.read_bytes() == content


def test_checkpoint_packed_anew_by_another_program_is_read(made, tmp_path, path):
    for options in ({}, {"compression": zipfile.ZIP_DEFLATED}):
        again = rewritten(path, **options)
        with open_checkpoint(again) as checkpoint:
            assert checkpoint.verify() == []
            assert_same_values(checkpoint.main_loop(), made[1])
    if shutil.which("zip") and shutil.which("unzip"):
        folder = tmp_path / "unpacked"
        subprocess.run(["unzip", "-q", path, "-d", folder], check=True)
        subprocess.run(["zip", "-q", "-r", "../by-hand.zip", "."], cwd=folder, check=True)
        assert len(load_parameters(tmp_path / "by-hand.zip")) == 4


# What is no checkpoint


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "an empty file"),
        (b"hello\n" * 50, "text"),
        (bytes(1000), "a file of zeros"),
        (b"\x89HDF\r\n\x1a\n" + bytes(600), "HDF5"),
        (b"\x80\x04K\x01.", "a plain pickle"),
    ],
    ids=["empty", "text", "zeros", "hdf5", "pickle"],
)
def test_other_files_are_named_as_what_they_seem(tmp_path, content, words):
    (tmp_path / "run.zip").write_bytes(content)
    with pytest.raises(NotACheckpoint, match=words) as caught:
        open_checkpoint(tmp_path / "run.zip")
    assert caught.value.path == str(tmp_path / "run.zip")


def test_zip_of_something_else_and_folder_are_no_checkpoints(tmp_path):
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("README", "hello")
    with pytest.raises(NotACheckpoint, match=r"without a checkpoint\.json"):
        open_checkpoint(tmp_path / "other.zip")
    with pytest.raises(NotACheckpoint):
        open_checkpoint(tmp_path)


def test_missing_file_is_two_errors_in_one(tmp_path):
    with pytest.raises(CheckpointNotFound) as caught:
        open_checkpoint(tmp_path / "gone.zip")
    assert isinstance(caught.value, FileNotFoundError)
    assert isinstance(caught.value, CheckpointError)


# What is missing or damaged


def test_part_that_is_missing_is_named_with_those_there_are(tmp_path):
    dump([1], tmp_path / "run.zip")
    with open_checkpoint(tmp_path / "run.zip") as checkpoint:
        assert checkpoint.load("pkl") == [1]
        with pytest.raises(LoadError, match=r"no pickle 'log' in it \(it has: pkl\)"):
            checkpoint.log()
        with pytest.raises(LoadError, match="no pickle 'iteration_state'"):
            checkpoint.iteration_state()
        with pytest.raises(LoadError, match="no pickle 'child'"):
            checkpoint.load("child")


@pytest.mark.parametrize("member", ["pkl", "log", "iteration_state", "random_state"])
@pytest.mark.parametrize("how", ["in place", "packed anew", "left out"])
def test_damaged_pickles_are_named_and_cost_nothing_else(made, path, member, how):
    if how == "in place":
        with open_checkpoint(path) as checkpoint:
            place = checkpoint.archive.members[member]
        with open(path, "r+b") as file:
            file.seek(place.data_offset)
            file.write(b"rubbish"[: place.size])
    else:
        rubbish = b"rubbish" if how == "packed anew" else None
        path = rewritten(path, lambda name, content: rubbish if name == member else content)
    with open_checkpoint(path) as checkpoint:
        if how == "in place":
            assert [damage.member for damage in checkpoint.verify()] == [member]
        values = dict(checkpoint.arrays)
        with open_checkpoint(made[0]) as whole:
            assert all(numpy.array_equal(values[name], whole.arrays[name]) for name in whole.arrays)
        if member != "log":
            assert checkpoint.log().status["epochs_done"] == 2
        if how == "left out" and member == "random_state":
            assert checkpoint.restore_random_state() is False
        else:
            with pytest.raises(LoadError) as caught:
                {
                    "pkl": checkpoint.main_loop,
                    "log": checkpoint.log,
                    "iteration_state": checkpoint.iteration_state,
                    "random_state": checkpoint.restore_random_state,
                }[member]()
            assert caught.value.path == str(path)
            assert member in str(caught.value) or member == "pkl"
    main_loop = make_main_loop(first=[LoadParameters(path)], epochs=1)
    main_loop.extensions[0].main_loop = main_loop
    main_loop.extensions[0].do()
    for name, value in made[1].model.get_parameter_values().items():
        assert numpy.array_equal(main_loop.model.get_parameter_values()[name], value)


def test_damaged_random_state_leaves_both_generators_alone(path):
    def half(name, content):
        if name != "random_state":
            return content
        state = json.loads(content)
        state["numpy.random"] = {"bit_generator": "MT19937", "state": 3}
        return json.dumps(state).encode()

    from blocks_checkpoint import continue_training

    numpy.random.seed(3)
    before = numpy.random.RandomState(3).uniform()
    with pytest.raises(DamagedCheckpoint):
        continue_training(rewritten(path, half))
    assert numpy.random.uniform() == before


def test_shape_that_manifest_and_member_do_not_agree_on_is_an_error(path):
    def lie(name, content):
        if name != "checkpoint.json":
            return content
        manifest = json.loads(content)
        for row in manifest["arrays"]:
            row["shape"] = row["shape"][::-1]
        return json.dumps(manifest).encode()

    with open_checkpoint(rewritten(path, lie)) as checkpoint:
        with pytest.raises(LoadError, match=r"manifest says the shape is \[4, 3\]") as caught:
            checkpoint.parameters["mlp/linear_0/W"]
        assert caught.value.member == "mlp/linear_0/W.npy"


def test_stored_parameters_go_round_through_files_of_parameters(tmp_path):
    model = make_model()
    save_parameters(model.get_parameter_values(), tmp_path / "values.zip")
    again = load_parameters(tmp_path / "values.zip")
    assert again.keys() == model.get_parameter_values().keys()
    save_parameters(again, tmp_path / "twice.zip")
    main_loop = make_main_loop(first=[LoadParameters(tmp_path / "twice.zip")], epochs=1)
    main_loop.run()
    with open_checkpoint(tmp_path / "twice.zip") as checkpoint:
        assert checkpoint.manifest["pickles"] == {}
        with pytest.raises(LoadError, match="main loop is not in this checkpoint"):
            checkpoint.main_loop()


@pytest.mark.parametrize(
    ("dtype", "refused"),
    [
        pytest.param("__name__", False, id="an-attribute"),
        pytest.param("finfo", False, id="a-class-of-no-values"),
        pytest.param("nothing", False, id="nothing"),
        pytest.param("bfloat16", True, id="another-size"),
    ],
)
def test_dtype_that_a_stranger_made_up_is_not_looked_up(tmp_path, dtype, refused):
    pytest.importorskip("ml_dtypes")
    file = tmp_path / "values.zip"
    save_parameters({"W": numpy.zeros(2, "V3")}, file)

    def lie(name, content):
        return content.replace(b'"|V3"', b'"%s"' % dtype.encode())

    with open_checkpoint(rewritten(file, lie)) as checkpoint:
        assert checkpoint.manifest["arrays"][0]["dtype"] == dtype
        if not refused:
            assert checkpoint.parameters["W"].dtype == "V3"
            return
        with pytest.raises(LoadError, match="dtype is bfloat16.*items of 3 bytes") as caught:
            checkpoint.parameters["W"]
        assert caught.value.member == "W.npy"


def test_zip_of_something_else_is_said_to_hold_it(tmp_path):
    names = ["a.txt", "b.txt", "c.txt", "d.txt"]
    for count, words in ((0, "of nothing,"), (1, "of 'a.txt',"), (4, "'b.txt', 'c.txt', ...,")):
        with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
            for name in names[:count]:
                archive.writestr(name, "text")
        with pytest.raises(NotACheckpoint, match=words):
            open_checkpoint(tmp_path / "other.zip")
