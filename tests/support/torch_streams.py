"""Data streams around torchdata's StatefulDataLoader, as a user would write them."""

import numpy
import torch
from drifting import BATCH_SIZE, EXAMPLES
from torch.utils.data import Dataset, IterableDataset, default_collate, get_worker_info
from torchdata.nodes import Batcher, Loader, Mapper, Prefetcher, SamplerWrapper
from torchdata.stateful_dataloader import StatefulDataLoader

from blocks_checkpoint.engines import current
from blocks_checkpoint.miniblocks.loaders import LoaderStream

SOURCES = ("features", "number")


def example(number):
    """Return one example."""
    features = numpy.array([1, 2, 3]) * number / EXAMPLES
    return {"features": features.astype(current().floatX), "number": numpy.array([number])}


class Examples(Dataset):
    """Those of ``drifting``, by their number."""

    def __len__(self):
        return EXAMPLES

    def __getitem__(self, index):
        return example(index)


class NoisyExamples(Examples):
    """Moved by what PyTorch's, NumPy's and a generator of their own draw in this process."""

    def __init__(self):
        self.generator = numpy.random.default_rng(7)
        self.of_torch = torch.Generator()
        self.of_torch.manual_seed(8)

    def __getitem__(self, index):
        made = example(index)
        noise = self.generator.normal() + numpy.random.normal()
        noise += float(torch.rand(()) + torch.rand((), generator=self.of_torch))
        made["features"] = (made["features"] + noise).astype(current().floatX)
        return made


class StatefulExamples(IterableDataset):
    """An endless stream of random examples, whose state is its generator and position."""

    def __init__(self, count=None):
        self.count = count
        self.done = 0
        self.generator = numpy.random.default_rng(9)

    def __iter__(self):
        info = get_worker_info()
        worker = 0 if info is None else info.id
        while self.count is None or self.done < self.count:
            self.done += 1
            yield example(int(self.generator.integers(100)) + 1000 * worker)
        self.done = 0

    def state_dict(self):
        return {"done": self.done, "generator": self.generator.bit_generator.state}

    def load_state_dict(self, state):
        self.done = state["done"]
        self.generator.bit_generator.state = state["generator"]


def make_loader(dataset=None, seed=None, **kwargs):
    """Return a loader; the order is drawn from a generator of its own if there is a seed."""
    if seed is not None:
        kwargs["generator"] = torch.Generator()
        kwargs["generator"].manual_seed(seed)
    return StatefulDataLoader(dataset or Examples(), batch_size=BATCH_SIZE, **kwargs)


class Batches:
    """One epoch, as dictionaries of arrays."""

    def __init__(self, iterator):
        self.iterator = iterator

    def __next__(self):
        return {name: each.numpy() for name, each in next(self.iterator).items()}


class TorchStream:
    """What a user writes who has a loader."""

    def __init__(self, loader):
        self.loader = loader

    def get_epoch_iterator(self, as_dict=False):
        assert as_dict
        return Batches(iter(self.loader))


class StatefulTorchStream(TorchStream):
    """What a user writes who knows of the protocol: stream and iterator in one."""

    iterator = None

    def get_epoch_iterator(self, as_dict=False):
        assert as_dict
        self.iterator = iter(self.loader)
        return self

    def __next__(self):
        return {name: each.numpy() for name, each in next(self.iterator).items()}

    def state_dict(self):
        return self.loader.state_dict()

    def load_state_dict(self, state):
        self.loader.load_state_dict(state)
        self.iterator = iter(self.loader)


class StatefulTorchStreamApart(StatefulTorchStream):
    """One whose epoch iterator is another object, around the same iterator."""

    def get_epoch_iterator(self, as_dict=False):
        return Batches(super().get_epoch_iterator(as_dict).iterator)


class Shifted(Examples):
    """Has a function that cannot be pickled."""

    def __init__(self):
        self.shift = lambda number: number

    def __getitem__(self, index):
        return example(self.shift(index))


def shuffled():
    return make_loader(shuffle=True, seed=3)


def endless():
    return make_loader(StatefulExamples())


class OrderByEpoch:
    """Orders examples as the number of the epoch says."""

    def __init__(self):
        self.set_epoch(0)

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        return iter(numpy.random.default_rng(self.epoch).permutation(EXAMPLES).tolist())

    def __len__(self):
        return EXAMPLES


def nodes():
    """Return a loader of torchdata's graphs of nodes, which reads ahead in a thread."""
    node = Mapper(Batcher(SamplerWrapper(OrderByEpoch()), BATCH_SIZE), collate)
    return Loader(Prefetcher(node, 2))


def collate(numbers):
    return default_collate([example(number) for number in numbers])


MAKERS = {
    "own-class": lambda: TorchStream(make_loader(shuffle=True)),
    "own-class-seeded": lambda: TorchStream(make_loader(shuffle=True, seed=3)),
    "own-class-workers": lambda: TorchStream(make_loader(shuffle=True, seed=3, num_workers=2)),
    "own-class-noisy": lambda: TorchStream(make_loader(NoisyExamples(), shuffle=True)),
    "own-class-unpicklable": lambda: TorchStream(make_loader(Shifted(), shuffle=True, seed=3)),
    "own-state": lambda: StatefulTorchStream(make_loader()),
    "own-state-apart": lambda: StatefulTorchStreamApart(make_loader(shuffle=True)),
    "stream": lambda: LoaderStream(make_loader(shuffle=True), SOURCES),
    "stream-seeded": lambda: LoaderStream(make_loader(shuffle=True, seed=3), SOURCES),
    "stream-workers": lambda: LoaderStream(
        make_loader(shuffle=True, seed=3, num_workers=2, persistent_workers=True), SOURCES
    ),
    "stream-noisy": lambda: LoaderStream(make_loader(NoisyExamples(), shuffle=True), SOURCES),
    "stream-of-function": lambda: LoaderStream(shuffled, SOURCES),
    "stream-endless": lambda: LoaderStream(endless, SOURCES, batches_per_epoch=4),
    "stream-iterable": lambda: LoaderStream(
        make_loader(StatefulExamples(EXAMPLES // 2), num_workers=2), SOURCES
    ),
    "stream-nodes": lambda: LoaderStream(nodes, SOURCES),
    "stream-unpicklable": lambda: LoaderStream(
        make_loader(Shifted(), shuffle=True, seed=3), SOURCES
    ),
}


def make_stream(kind):
    """Return the stream of that kind; PyTorch's own generator begins anew with it."""
    torch.manual_seed(6)
    return MAKERS[kind]()
