"""Epochs of a data stream, also one that is interrupted."""

import pickle

import numpy
import pytest

from blocks_checkpoint.miniblocks.datasets import IndexableDataset, IterableDataset
from blocks_checkpoint.miniblocks.schemes import (
    ConstantScheme,
    SequentialScheme,
    ShuffledScheme,
)
from blocks_checkpoint.miniblocks.streams import DataStream
from blocks_checkpoint.miniblocks.transformers import (
    Batch,
    Cast,
    Flatten,
    Mapping,
    ScaleAndShift,
)

IMAGES = numpy.arange(24).reshape(6, 2, 2)
LABELS = numpy.arange(6) % 2


def images():
    return IndexableDataset({"images": IMAGES, "labels": LABELS})


def shuffled():
    return DataStream(images(), iteration_scheme=ShuffledScheme(6, 4))


def add_sum(data):
    return (data[0].sum(axis=(1, 2)),)


def swap(data):
    return {"images": data["labels"], "labels": data["images"]}


STREAMS = [
    pytest.param(shuffled, id="shuffled"),
    pytest.param(lambda: IterableDataset(range(5)).get_example_stream(), id="iterable"),
    pytest.param(lambda: images().get_example_stream(), id="examples"),
    pytest.param(lambda: Flatten(ScaleAndShift(shuffled(), 2, 1)), id="transformed-twice"),
    pytest.param(lambda: Mapping(shuffled(), add_sum, add_sources=("sums",)), id="mapping"),
    pytest.param(
        lambda: Batch(IterableDataset(range(5)).get_example_stream(), ConstantScheme(2)),
        id="batched",
    ),
]


def values(batches):
    return [[numpy.asarray(item).tolist() for item in batch] for batch in batches]


def epochs(stream, number):
    return [values(stream.get_epoch_iterator()) for _ in range(number)]


@pytest.mark.parametrize("make", STREAMS)
def test_pickled_after_any_batch_it_goes_on_with_the_next(make):
    """And all later epochs are those of the stream that was never pickled."""
    expected = epochs(make(), 3)
    for taken in range(len(expected[0]) + 1):
        stream = make()
        iterator = stream.get_epoch_iterator()
        begin = values([next(iterator) for _ in range(taken)])
        stream, iterator = pickle.loads(pickle.dumps((stream, iterator)))
        assert [begin + values(iterator), *epochs(stream, 2)] == expected


@pytest.mark.parametrize("make", STREAMS)
def test_stream_and_its_iterator_stay_one_object(make):
    stream = make()
    iterator = stream.get_epoch_iterator()
    stream, iterator = pickle.loads(pickle.dumps((stream, iterator)))
    assert iterator.data_stream is stream


def test_batches_come_as_tuples_or_as_dictionaries():
    stream = DataStream(images(), iteration_scheme=SequentialScheme(6, 4))
    first = next(stream.get_epoch_iterator())
    by_source = next(stream.get_epoch_iterator(as_dict=True))
    assert list(by_source) == ["images", "labels"]
    numpy.testing.assert_equal(tuple(by_source.values()), first)


def test_iterable_starts_again_with_each_epoch():
    stream = IterableDataset([1, 2]).get_example_stream()
    assert epochs(stream, 2) == [[[1], [2]]] * 2
    next(stream.get_epoch_iterator())
    stream.reset()
    assert epochs(stream, 1) == [[[1], [2]]]


def test_epochs_can_be_iterated_over():
    stream = IterableDataset([1, 2]).get_example_stream()
    for number, epoch in enumerate(stream.iterate_epochs(as_dict=True)):
        assert list(epoch) == [{"data": 1}, {"data": 2}]
        if number:
            break


def test_iteration_scheme_says_what_is_produced():
    assert not shuffled().produces_examples
    assert images().get_example_stream().produces_examples
    with pytest.raises(ValueError, match="scheme"):
        shuffled().produces_examples = True


def test_flatten_keeps_the_axis_of_the_batch():
    batch, labels = next(Flatten(shuffled(), which_sources=("images",)).get_epoch_iterator())
    assert batch.shape == (4, 4)
    assert labels.shape == (4,)
    example, _ = next(Flatten(images().get_example_stream()).get_epoch_iterator())
    assert example.shape == (4,)


def test_scale_and_shift_changes_the_chosen_sources():
    stream = ScaleAndShift(images().get_example_stream(), 0.5, 1, which_sources=("images",))
    image, label = next(stream.get_epoch_iterator())
    numpy.testing.assert_equal(image, IMAGES[0] * 0.5 + 1)
    assert label == LABELS[0]


def test_cast_changes_the_type():
    batch, labels = next(
        Cast(shuffled(), "float32", which_sources=("images",)).get_epoch_iterator()
    )
    assert (batch.dtype, labels.dtype) == (numpy.float32, LABELS.dtype)
    (batch, _) = next(Cast(shuffled(), "floatX").get_epoch_iterator())
    assert batch.dtype.kind == "f"


def test_mapping_may_take_dictionaries():
    stream = Mapping(shuffled(), swap, mapping_accepts=dict)
    labels, batch = next(stream.get_epoch_iterator())
    assert (labels.shape, batch.shape) == ((4,), (4, 2, 2))


def test_batch_makes_arrays_and_a_last_smaller_one():
    stream = Batch(IterableDataset(range(5)).get_example_stream(), ConstantScheme(2))
    batches = [batch for (batch,) in stream.get_epoch_iterator()]
    assert [batch.tolist() for batch in batches] == [[0, 1], [2, 3], [4]]
    assert not stream.produces_examples


@pytest.mark.parametrize(
    "make",
    [
        lambda: Batch(shuffled(), ConstantScheme(2)),
        lambda: Batch(images().get_example_stream(), SequentialScheme(6, 2)),
        lambda: Mapping(shuffled(), swap, mapping_accepts=tuple),
    ],
)
def test_what_cannot_be_wrapped_is_refused(make):
    with pytest.raises(ValueError, match=r"already|numbers|list or dict"):
        make()


def test_default_transformers_are_applied_by_default_stream():
    dataset = images()
    dataset.default_transformers = ((ScaleAndShift, [2, 0], {"which_sources": ("labels",)}),)
    stream = DataStream.default_stream(dataset, iteration_scheme=SequentialScheme(6, 6))
    _, labels = next(stream.get_epoch_iterator())
    numpy.testing.assert_equal(labels, LABELS * 2)
