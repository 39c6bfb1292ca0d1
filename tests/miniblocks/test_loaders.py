"""Loaders of other libraries are data streams."""

import pickle

import numpy
import pytest
from stateful_streams import EndlessLoader, ForgetfulLoader, Loader, LoaderThatKnows, make_loader

from blocks_checkpoint.miniblocks.loaders import LoaderStream

SOURCES = ("features", "number")


class Tuples:
    """Batches that are tuples, of lists."""

    def __iter__(self):
        return self

    def __next__(self):
        return [1.0, 2.0], (3, 4)

    def get_state(self):
        return None

    def set_state(self, state):
        raise AssertionError


def numbers_of(iterator):
    return [number for batch in iterator for number in batch["number"].ravel().tolist()]


def test_batches_are_dictionaries_of_arrays_or_tuples_in_the_order_of_the_sources():
    stream = LoaderStream(Loader(), ("number", "features"))
    batch = next(stream.get_epoch_iterator(as_dict=True))
    number, features = next(LoaderStream(Loader(), ("number", "features")).get_epoch_iterator())
    assert list(batch) == ["number", "features"]
    assert batch["number"].tolist() == number.tolist()
    assert batch["features"].tolist() == features.tolist()


def test_parts_of_a_tuple_have_the_names_of_the_sources():
    stream = LoaderStream(Tuples(), ["x", "y"])
    batch = next(stream.get_epoch_iterator(as_dict=True))
    assert {name: type(value) for name, value in batch.items()} == {
        "x": numpy.ndarray,
        "y": numpy.ndarray,
    }
    assert batch["y"].tolist() == [3, 4]


def test_epoch_ends_with_the_iterator_and_the_next_one_has_another():
    stream = LoaderStream(Loader(), SOURCES)
    one, other = [numbers_of(stream.get_epoch_iterator(as_dict=True)) for _ in range(2)]
    assert one != other
    assert sorted(one) == sorted(other) == list(range(20))


def test_epoch_that_has_ended_gives_no_more():
    iterator = LoaderStream(Loader(), SOURCES).get_epoch_iterator()
    list(iterator)
    with pytest.raises(StopIteration):
        next(iterator)


def test_epochs_of_a_number_of_batches_go_on_with_one_iterator():
    stream = LoaderStream(EndlessLoader(), SOURCES, batches_per_epoch=3)
    one, other = [numbers_of(stream.get_epoch_iterator(as_dict=True)) for _ in range(2)]
    assert one + other == list(range(30))


def test_iterator_that_ends_within_such_an_epoch_ends_it():
    stream = LoaderStream(Loader(), SOURCES, batches_per_epoch=3)
    lengths = [len(list(stream.get_epoch_iterator())) for _ in range(4)]
    assert lengths == [3, 1, 3, 1]


@pytest.mark.parametrize("loader", [Loader, LoaderThatKnows])
@pytest.mark.parametrize("done", range(9))
def test_state_is_that_of_any_batch(loader, done):
    stream, other = LoaderStream(loader(), SOURCES), LoaderStream(loader(), SOURCES)
    iterator = stream.get_epoch_iterator(as_dict=True)
    for _ in range(done):
        if next(iterator, None) is None:
            iterator = stream.get_epoch_iterator(as_dict=True)
            next(iterator)
    other.load_state_dict(stream.state_dict())
    other.loader.generator.bit_generator.state = stream.loader.generator.bit_generator.state
    rest = numbers_of(iterator)
    other_iterator = type(iterator)(other, as_dict=True)
    assert numbers_of(other_iterator) == rest
    following = [each.get_epoch_iterator(as_dict=True) for each in (stream, other)]
    assert numbers_of(following[0]) == numbers_of(following[1])


def test_loader_that_a_function_makes_is_made_anew():
    stream = LoaderStream(make_loader, SOURCES)
    stream.loader.mark = True
    copy = pickle.loads(pickle.dumps(stream))
    assert type(copy.loader) is Loader
    assert not hasattr(copy.loader, "mark")


def test_loader_itself_is_pickled_where_no_function_makes_it():
    stream = LoaderStream(Loader(), SOURCES)
    stream.loader.mark = True
    assert pickle.loads(pickle.dumps(stream)).loader.mark


def test_loader_whose_iterators_do_not_know_their_place_is_refused():
    with pytest.raises(TypeError, match=r"a ForgetfulLoader cannot say .* get_state\(\)"):
        LoaderStream(ForgetfulLoader(), SOURCES).get_epoch_iterator()


def test_epoch_of_no_batches_is_refused():
    with pytest.raises(ValueError, match="batches_per_epoch is 0; use 1 or more"):
        LoaderStream(Loader(), SOURCES, batches_per_epoch=0)


def test_request_is_refused():
    stream = LoaderStream(Loader(), SOURCES)
    stream.get_epoch_iterator()
    with pytest.raises(ValueError, match="the loader itself decides"):
        stream.get_data([1, 2])
