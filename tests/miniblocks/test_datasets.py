"""Data sets in memory and in HDF5 files."""

import pickle

import numpy
import pytest

from blocks_checkpoint.miniblocks.datasets import (
    H5PYDataset,
    IndexableDataset,
    IterableDataset,
)
from blocks_checkpoint.miniblocks.schemes import SequentialScheme, ShuffledScheme
from blocks_checkpoint.miniblocks.streams import DataStream
from blocks_checkpoint.miniblocks.utils import do_not_pickle_attributes

h5py = pytest.importorskip("h5py")

FEATURES = numpy.arange(40.0).reshape(10, 4)
TARGETS = numpy.arange(10)


@pytest.fixture
def path(tmp_path):
    """An HDF5 file: rows 0 to 6 are for training, 7 to 9 for tests, 3 of them picked."""
    path = tmp_path / "data.hdf5"
    with h5py.File(path, "w") as file:
        file["features"] = FEATURES
        file["targets"] = TARGETS
        file["indices/picked"] = numpy.array([8, 2, 5])
        sources = ("features", "targets")
        file.attrs["split"] = H5PYDataset.create_split_array(
            {
                "train": dict.fromkeys(sources, (0, 7)),
                "test": dict.fromkeys(sources, (7, 10)),
                "picked": dict.fromkeys(sources, (0, 0, file["indices/picked"].ref)),
                "unlabelled": {"features": (7, 10)},
            }
        )
    return path


def test_iterable_gives_its_examples_in_order():
    dataset = IterableDataset({"a": [1, 2, 3], "b": "xyz"})
    assert dataset.sources == ("a", "b")
    assert dataset.num_examples == 3
    assert list(dataset.get_example_stream().get_epoch_iterator()) == [(1, "x"), (2, "y"), (3, "z")]


def test_sources_can_be_chosen():
    dataset = IndexableDataset({"a": [1, 2], "b": [3, 4]}, sources=("b",))
    assert dataset.sources == ("b",)
    assert dataset.provides_sources == ("a", "b")
    assert dataset.get_data(request=[1, 0]) == ([4, 3],)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: IndexableDataset({"a": [1]}, sources=("b",)), "no source b"),
        (lambda: IterableDataset({"a": [1, 2], "b": [3]}), "differ in length"),
        (lambda: IndexableDataset({"a": [1, 2], "b": [3]}), "differ in length"),
        (lambda: IterableDataset({"a": 7}), "not iterable"),
        (lambda: H5PYDataset("x.hdf5", which_sets="train"), r"\('train',\)"),
        (lambda: IndexableDataset([1]).get_data(), "iteration scheme"),
        (lambda: IterableDataset([1]).get_data(request=[0]), "own order"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_indexable_takes_integers_slices_and_lists():
    dataset = IndexableDataset({"features": FEATURES, "names": list("abcdefghij")}, start=1, stop=5)
    assert dataset.num_examples == 4
    assert dataset.get_data(request=2)[1] == "d"
    assert dataset.get_data(request=slice(1, 3))[1] == ["c", "d"]
    features, names = dataset.get_data(request=[3, 0])
    numpy.testing.assert_equal(features, FEATURES[[4, 1]])
    assert names == ["e", "b"]


def test_sources_of_an_indexable_are_attributes_that_do_not_disturb_pickling():
    dataset = IndexableDataset({"features": FEATURES})
    loaded = pickle.loads(pickle.dumps(dataset))
    numpy.testing.assert_equal(loaded.features, FEATURES)
    assert not hasattr(loaded, "targets")


@pytest.mark.parametrize("is_in_memory", [False, True], ids=["lazy", "in-memory"])
@pytest.mark.parametrize(
    ("which_sets", "subset", "rows"),
    [
        (None, None, list(range(10))),
        (("train",), None, list(range(7))),
        (("train",), slice(2, 5), [2, 3, 4]),
        (("train",), [6, 0, 3], [6, 0, 3]),
        (("picked",), None, [8, 2, 5]),
        (("picked",), slice(1, None), [2, 5]),
        (("test", "train"), None, [7, 8, 9, *range(7)]),
    ],
)
def test_hdf5_provides_the_rows_of_its_splits(path, which_sets, subset, rows, is_in_memory):
    sources = ("targets", "features")
    dataset = H5PYDataset(
        path, which_sets, subset=subset, load_in_memory=is_in_memory, sources=sources
    )
    assert dataset.num_examples == len(rows)
    for request in (slice(None), list(range(len(rows))), list(range(len(rows)))[::-1], [1, 0, 1]):
        wanted = numpy.array(rows)[request]
        targets, features = dataset.get_data(request=request)
        numpy.testing.assert_equal(targets, TARGETS[wanted])
        numpy.testing.assert_equal(features, FEATURES[wanted])
    assert dataset.get_data(request=1)[0] == TARGETS[rows[1]]
    dataset.close(None)


def test_sources_are_those_of_all_sets_asked_for(path):
    assert H5PYDataset(path, ("train",)).provides_sources == ("features", "targets")
    assert H5PYDataset(path, ("train", "unlabelled")).provides_sources == ("features",)
    with pytest.raises(ValueError, match="no split valid; it has picked, test, train, unlabelled"):
        _ = H5PYDataset(path, ("valid",)).sources


@pytest.mark.parametrize("is_in_memory", [False, True], ids=["lazy", "in-memory"])
def test_hdf5_stream_goes_on_in_mid_epoch_after_a_pickle(path, is_in_memory):
    def make():
        dataset = H5PYDataset(path, ("train",), load_in_memory=is_in_memory)
        return DataStream(dataset, iteration_scheme=ShuffledScheme(dataset.num_examples, 2))

    expected = list(make().get_epoch_iterator())
    stream = make()
    iterator = stream.get_epoch_iterator()
    begin = [next(iterator), next(iterator)]
    pickled = pickle.dumps((stream, iterator))
    stream.close()
    stream, iterator = pickle.loads(pickled)
    numpy.testing.assert_equal(begin + list(iterator), expected)
    stream.close()


@pytest.mark.parametrize("is_in_memory", [False, True], ids=["lazy", "in-memory"])
def test_pickle_holds_no_data(tmp_path, is_in_memory):
    path = tmp_path / "large.hdf5"
    with h5py.File(path, "w") as file:
        file["features"] = numpy.zeros(100_000)
    dataset = H5PYDataset(path, load_in_memory=is_in_memory)
    dataset.get_data(request=[0, 5])
    assert len(pickle.dumps(dataset)) < 1000
    dataset.close(None)


@pytest.mark.parametrize("is_described", [False, True], ids=["never-opened", "used"])
def test_missing_file_is_an_error_only_when_data_is_asked_for(path, is_described):
    dataset = H5PYDataset(path)
    if is_described:
        assert dataset.num_examples == 10
    stream = DataStream(dataset, iteration_scheme=SequentialScheme(10, 5))
    dataset.close(None)
    path.unlink()
    stream = pickle.loads(pickle.dumps(stream))
    iterator = stream.get_epoch_iterator()
    with pytest.raises(FileNotFoundError, match=str(path)):
        next(iterator)


def test_file_that_is_no_hdf5_is_named(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("no HDF5")
    with pytest.raises(OSError, match=str(path)):
        H5PYDataset(path).get_data(request=[0])


def test_two_streams_over_one_data_set_survive_the_closing_of_one(path):
    dataset = H5PYDataset(path)
    one, other = (DataStream(dataset, iteration_scheme=SequentialScheme(10, 5)) for _ in range(2))
    iterator = other.get_epoch_iterator()
    next(iterator)
    one.close()
    numpy.testing.assert_equal(next(iterator)[1], TARGETS[5:])
    other.close()


def test_handle_that_is_given_is_used_left_open_and_not_pickled(path):
    with h5py.File(path) as handle:
        dataset = H5PYDataset(handle, ("test",))
        numpy.testing.assert_equal(dataset.get_data(request=[0])[1], [7])
        dataset.close(None)
        assert handle
        loaded = pickle.loads(pickle.dumps(dataset))
    numpy.testing.assert_equal(loaded.get_data(request=[0])[1], [7])
    loaded.close(None)


@do_not_pickle_attributes("features")
class Lazy:
    """Loads a million numbers when they are asked for."""

    def __init__(self):
        self.times_loaded = 0

    def load(self):
        self.times_loaded += 1
        self.features = numpy.zeros(10**6)


def test_lazy_attribute_is_loaded_once_and_never_pickled():
    lazy = Lazy()
    assert (len(lazy.features), len(lazy.features), lazy.times_loaded) == (10**6, 10**6, 1)
    pickled = pickle.dumps(lazy)
    assert len(pickled) < 200
    assert len(pickle.loads(pickled).features) == 10**6


def test_lazy_attributes_need_a_method_that_loads_them():
    with pytest.raises(ValueError, match=r"load\(\)"):
        do_not_pickle_attributes("features")(type("Data", (), {}))
