"""Files that streams read are opened anew, followed where they moved, and named when missing."""

import importlib
import importlib.util
import subprocess
import sys

import numpy
import pytest
from drifting import EXAMPLES, At, assert_same_values, interrupt, make_main_loop, make_stream

from blocks_checkpoint import (
    Checkpoint,
    DataNotFound,
    Resume,
    SaveError,
    continue_training,
    load_main_loop,
)
from blocks_checkpoint.data_files import follow_moved_files, naming_missing_files, reopen_files
from blocks_checkpoint.miniblocks.datasets import IndexableDataset
from blocks_checkpoint.miniblocks.transformers import Flatten

h5py = pytest.importorskip("h5py")

needs_fuel = pytest.mark.skipif(importlib.util.find_spec("fuel") is None, reason="needs Fuel")
both_libraries = pytest.mark.parametrize(
    "library",
    [
        "blocks_checkpoint.miniblocks",
        # On Python 3.9 it is of another time.
        pytest.param("fuel", marks=[needs_fuel, pytest.mark.filterwarnings("ignore")]),
    ],
)


def make_hdf5_stream(library, path):
    """Return a stream over an HDF5 file with the examples of ``drifting``."""

    def module(name):
        return importlib.import_module(f"{library}.{name}")

    dataset_class = module("datasets.hdf5").H5PYDataset
    if not path.exists():
        data = dict(zip(("features", "number"), make_stream().dataset.get_data(None, slice(None))))
        with h5py.File(path, "w") as file:
            for name, values in data.items():
                file[name] = values
            split = {"train": dict.fromkeys(data, (0, EXAMPLES))}
            file.attrs["split"] = dataset_class.create_split_array(split)
    scheme = module("schemes").ShuffledScheme(EXAMPLES, 5, rng=numpy.random.RandomState(1))
    dataset = dataset_class(str(path), which_sets=("train",), load_in_memory=False)
    return module("streams").DataStream(dataset, iteration_scheme=scheme)


def whole(path):
    return Resume(path, load_log=True, load_iteration_state=True)


def test_streams_of_other_libraries_are_left_alone():
    stream = make_stream()
    before = dict(stream.__dict__)
    reopen_files(stream)
    follow_moved_files(stream, make_stream())
    assert stream.__dict__ == before


@both_libraries
@pytest.mark.parametrize("batch", [4, 6], ids=["after-an-epoch", "in-mid-epoch"])
def test_moved_data_file_is_read_from_where_the_new_script_has_it(tmp_path, library, batch, caplog):
    old, new, path = tmp_path / "old.hdf5", tmp_path / "new.hdf5", tmp_path / "run.zip"
    straight = make_main_loop(stream=make_hdf5_stream(library, old))
    straight.run()
    saved = make_main_loop(
        Checkpoint(path),
        At(interrupt, after_n_batches=batch),
        stream=make_hdf5_stream(library, old),
    )
    saved.run()
    for main_loop in (saved, straight):
        main_loop.data_stream.close()
    old.rename(new)
    resumed = make_main_loop(first=[whole(path)], stream=make_hdf5_stream(library, new))
    resumed.run()
    assert f"{old} is no longer there; the data is read from {new}" in caplog.text
    assert_same_values(resumed, straight)
    resumed.data_stream.close()


@both_libraries
def test_data_file_that_is_still_there_is_the_one_that_is_read(tmp_path, library):
    old, new, path = tmp_path / "old.hdf5", tmp_path / "new.hdf5", tmp_path / "run.zip"
    stream = make_hdf5_stream(library, old)
    make_main_loop(Checkpoint(path), At(interrupt, after_n_batches=2), stream=stream).run()
    resumed = make_main_loop(first=[whole(path)], stream=make_hdf5_stream(library, new))
    resumed.run()
    assert resumed.data_stream.dataset.path == str(old)
    stream.close()
    resumed.data_stream.close()


class Pages(IndexableDataset):
    """Looks into one of several files whenever data is asked for."""

    def __init__(self, files, indexables):
        super().__init__(indexables)
        self.files = files

    def get_data(self, state=None, request=None):
        with open(self.files[-1], "rb"):
            return super().get_data(state, request)


def make_stream_of_pages(*files):
    sources, values = ("features", "number"), make_stream().dataset.get_data(None, slice(None))
    stream = make_stream()
    stream.dataset = Pages(list(map(str, files)), dict(zip(sources, values)))
    return stream


def save_in_mid_epoch(path, stream):
    make_main_loop(Checkpoint(path), At(interrupt, after_n_batches=2), stream=stream).run()


@both_libraries
@pytest.mark.parametrize("batches", [2, 4], ids=["in-mid-epoch", "after-an-epoch"])
def test_missing_data_file_is_an_error_when_data_is_asked_for(tmp_path, library, batches):
    old, path = tmp_path / "old.hdf5", tmp_path / "run.zip"
    stream = make_hdf5_stream(library, old)
    make_main_loop(Checkpoint(path), At(interrupt, after_n_batches=batches), stream=stream).run()
    stream.close()
    old.unlink()
    assert load_main_loop(path).status["iterations_done"] == batches
    with pytest.raises(DataNotFound, match="Put it back; or, if it has moved, .*Resume") as caught:
        continue_training(path)
    # A script may start afresh at such an error.
    assert not isinstance(caught.value, FileNotFoundError)
    assert caught.value.path == str(path)
    assert caught.value.file == str(old)
    assert caught.value.place == "main_loop.data_stream.dataset.path"
    assert str(caught.value).startswith(f"{path}: main_loop.data_stream.dataset.path is the data")


def test_missing_file_of_several_is_the_one_that_is_named(tmp_path):
    files, path = [tmp_path / "a.dat", tmp_path / "b.dat"], tmp_path / "run.zip"
    for file in files:
        file.touch()
    save_in_mid_epoch(path, Flatten(make_stream_of_pages(*files), which_sources=()))
    for file in files:
        file.unlink()
    with pytest.raises(DataNotFound) as caught:
        continue_training(path)
    assert caught.value.file == str(files[1])
    assert caught.value.place == "main_loop.data_stream.data_stream.dataset.files[1]"


def test_missing_file_of_a_monitored_stream_is_named_with_the_extension(tmp_path):
    file = tmp_path / "valid.dat"
    monitoring = At(lambda main_loop: open(file), after_epoch=True)
    monitoring.data_stream = make_stream_of_pages(file)
    main_loop = make_main_loop(monitoring)
    expected = r"^At\.data_stream\.dataset\.files\[0\] is"
    with pytest.raises(DataNotFound, match=expected), naming_missing_files(main_loop, None):
        main_loop.run()


def test_blocks_continue_ends_in_one_line_that_names_the_missing_file(tmp_path):
    old, path = tmp_path / "old.hdf5", tmp_path / "run.zip"
    save_in_mid_epoch(path, make_hdf5_stream("blocks_checkpoint.miniblocks", old))
    old.unlink()
    command = "from blocks_checkpoint.cli.continuing import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", command, path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"error: {path}: main_loop.data_stream.dataset.path is the data file")
    assert str(old) in last
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(FileNotFoundError(2, "No such file", "plot.png"), id="of-another-file"),
        pytest.param(KeyError("number"), id="of-no-file"),
        pytest.param(SaveError("a.dat is not there"), id="of-this-package"),
    ],
)
def test_error_that_is_not_for_want_of_a_data_file_is_left_as_it_is(error):
    main_loop = make_main_loop(stream=make_stream_of_pages("a.dat", "number"))
    with pytest.raises(type(error)) as caught, naming_missing_files(main_loop, None):
        raise error
    assert caught.value is error


def test_error_of_a_file_that_is_there_is_left_as_it_is(tmp_path):
    """A file that cannot be read for another reason is not said to be missing."""
    file = tmp_path / "a.dat"
    file.touch()
    error = FileNotFoundError(2, "No such file", str(file))
    main_loop = make_main_loop(stream=make_stream_of_pages(file))
    with pytest.raises(FileNotFoundError) as caught, naming_missing_files(main_loop, None):
        raise error
    assert caught.value is error
