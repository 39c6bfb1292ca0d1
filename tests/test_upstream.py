"""What Blocks and Fuel leave undone is done, or told."""

import importlib
import importlib.util

import numpy
import pytest
from drifting import EXAMPLES, At, assert_same_values, interrupt, make_main_loop, make_stream

from blocks_checkpoint import Checkpoint, Resume, continue_training, load_main_loop
from blocks_checkpoint.upstream import follow_moved_files, reopen_files

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


@both_libraries
def test_missing_data_file_is_an_error_when_data_is_asked_for(tmp_path, library):
    old, path = tmp_path / "old.hdf5", tmp_path / "run.zip"
    stream = make_hdf5_stream(library, old)
    make_main_loop(Checkpoint(path), At(interrupt, after_n_batches=2), stream=stream).run()
    stream.close()
    old.unlink()
    assert load_main_loop(path).status["iterations_done"] == 2
    with pytest.raises(Exception, match=r"old\.hdf5"):
        continue_training(path)
