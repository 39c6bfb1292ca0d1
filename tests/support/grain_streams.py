"""Data streams around loaders of Grain, as a user would write them."""

import grain
import numpy
from drifting import BATCH_SIZE, EXAMPLES

from blocks_checkpoint.engines import current
from blocks_checkpoint.miniblocks.loaders import LoaderStream

SOURCES = ("features", "number")


def example(number):
    """Return one example."""
    features = numpy.array([1, 2, 3]) * number / EXAMPLES
    return {"features": features.astype(current().floatX), "number": numpy.array([number])}


def noisy(number, generator):
    """Return one example, moved by what Grain's generator for it draws."""
    made = example(number)
    made["features"] = (made["features"] + generator.normal()).astype(current().floatX)
    return made


class Example(grain.transforms.Map):
    """As an operation of a DataLoader."""

    def map(self, number):
        return example(number)


def one_pass():
    """Return a data set that is shuffled, and the same in each epoch."""
    dataset = grain.MapDataset.source(range(EXAMPLES)).seed(3).shuffle().random_map(noisy)
    return dataset.batch(BATCH_SIZE).to_iter_dataset()


def many_passes():
    """Return a data set without an end, shuffled anew in each pass."""
    dataset = grain.MapDataset.source(range(EXAMPLES)).seed(3).shuffle().repeat()
    return dataset.random_map(noisy).to_iter_dataset().batch(BATCH_SIZE)


def with_workers():
    """Return a data set that two other processes read."""
    options = grain.multiprocessing.MultiprocessingOptions(num_workers=2)
    return many_passes().mp_prefetch(options)


def data_loader(worker_count=0):
    """Return a DataLoader, which cannot be pickled."""
    sampler = grain.samplers.IndexSampler(
        EXAMPLES, shard_options=grain.sharding.NoSharding(), shuffle=True, num_epochs=4, seed=3
    )
    return grain.DataLoader(
        data_source=range(EXAMPLES),
        sampler=sampler,
        operations=[Example(), grain.transforms.Batch(BATCH_SIZE)],
        worker_count=worker_count,
    )


class GrainStream:
    """What a user writes whose data set yields what the main loop wants."""

    def __init__(self, dataset):
        self.dataset = dataset

    def get_epoch_iterator(self, as_dict=False):
        assert as_dict
        return iter(self.dataset)


class Epoch:
    """What a user writes who knows of the protocol."""

    def __init__(self, dataset):
        self.dataset = dataset
        self.iterator = iter(dataset)

    def __next__(self):
        return next(self.iterator)

    def get_state(self):
        return self.iterator.get_state()

    def set_state(self, state):
        self.iterator = iter(self.dataset)
        self.iterator.set_state(state)


class StatefulGrainStream(GrainStream):
    def get_epoch_iterator(self, as_dict=False):
        assert as_dict
        return Epoch(self.dataset)


MAKERS = {
    "own-class": lambda: GrainStream(one_pass()),
    "own-state": lambda: StatefulGrainStream(one_pass()),
    "stream": lambda: LoaderStream(one_pass(), SOURCES),
    "stream-many": lambda: LoaderStream(many_passes(), SOURCES, batches_per_epoch=3),
    "stream-workers": lambda: LoaderStream(with_workers, SOURCES, batches_per_epoch=4),
    "stream-data-loader": lambda: LoaderStream(data_loader, SOURCES, batches_per_epoch=4),
    "stream-unpicklable": lambda: LoaderStream(data_loader(), SOURCES, batches_per_epoch=4),
}


def make_stream(kind):
    """Return the stream of that kind."""
    return MAKERS[kind]()
