"""Data streams that say themselves what their state is, without any library."""

import threading

import numpy
from drifting import BATCH_SIZE, EXAMPLES

from blocks_checkpoint.engines import current
from blocks_checkpoint.miniblocks.loaders import LoaderStream

SOURCES = ("features", "number")


def batch_of(numbers):
    """Return the batch of these examples."""
    numbers = numpy.asarray(numbers)
    features = (numbers[:, None] * [[1, 2, 3]]).astype(current().floatX) / EXAMPLES
    return {"features": features, "number": numbers[:, None]}


class Reader:
    """Reads batches in an order of its own, and holds a lock, as readers do."""

    def __init__(self, seed=1):
        self.generator = numpy.random.default_rng(seed)
        self.epochs = 0
        self.order = []
        self.lock = threading.Lock()

    def begin(self):
        self.epochs += 1
        self.order = self.generator.permutation(EXAMPLES).tolist()

    def __iter__(self):
        return self

    def __next__(self):
        with self.lock:
            if not self.order:
                raise StopIteration
            taken, self.order = self.order[:BATCH_SIZE], self.order[BATCH_SIZE:]
            return batch_of(taken)

    def place(self):
        return {"order": list(self.order), "epochs": self.epochs}

    def go_to(self, place):
        self.order, self.epochs = list(place["order"]), place["epochs"]

    def __getstate__(self):
        # How it is made, and not where it is.
        return {"generator": self.generator}

    def __setstate__(self, state):
        self.__init__()
        self.generator = state["generator"]


class TorchLike(Reader):
    """Of torchdata's protocol."""

    def state_dict(self):
        return self.place()

    def load_state_dict(self, state):
        self.go_to(state)


class GrainLike(Reader):
    """Of Grain's protocol."""

    def get_state(self):
        return self.place()

    def set_state(self, state):
        self.go_to(state)


class Unpicklable(TorchLike):
    """Of which nothing can be pickled."""

    def __reduce_ex__(self, protocol):
        raise TypeError("there is a lock in it")


class Reading:
    """A data stream that is made of a reader, which is also the epoch iterator."""

    def __init__(self, reader):
        self.reader = reader

    def get_epoch_iterator(self, as_dict=False):
        assert as_dict
        self.reader.begin()
        return self.reader


class Epoch:
    """One epoch of a loader."""

    has_ended = False

    def __init__(self, numbers):
        self.left = list(numbers)

    def __iter__(self):
        return self

    def __next__(self):
        if not self.left:
            self.has_ended = True
            raise StopIteration
        taken, self.left = self.left[:BATCH_SIZE], self.left[BATCH_SIZE:]
        return batch_of(taken)


class StatefulEpoch(Epoch):
    """One that knows its place, as the iterators of Grain do."""

    def get_state(self):
        return list(self.left)

    def set_state(self, state):
        self.left = list(state)


class Loader:
    """Begins a new epoch whenever it is iterated over; its iterators know their place."""

    epoch_class = StatefulEpoch

    def __init__(self, seed=1):
        self.generator = numpy.random.default_rng(seed)

    def __iter__(self):
        return self.epoch_class(self.generator.permutation(EXAMPLES).tolist())


class LoaderThatKnows(Loader):
    """Knows the place of the iterator that it made last, as torchdata's loader does."""

    epoch_class = Epoch
    present = resumed = None

    def __iter__(self):
        # From the end of an epoch it goes on with the next one.
        self.present = super().__iter__() if self.resumed is None else Epoch(self.resumed)
        self.resumed = None
        return self.present

    def state_dict(self):
        if self.present is None or self.present.has_ended:
            return {"left": self.resumed}
        return {"left": list(self.present.left)}

    def load_state_dict(self, state):
        self.present, self.resumed = None, state["left"]

    def __getstate__(self):
        return {"generator": self.generator}


class EndlessLoader(Loader):
    """Its one iterator goes on and on, over the numbers from 0."""

    def __iter__(self):
        return StatefulEpoch(range(10**4))


class ForgetfulLoader(Loader):
    """Its iterators do not know their place."""

    epoch_class = Epoch


def make_loader():
    return Loader()


MAKERS = {
    "torch-like": lambda: Reading(TorchLike()),
    "grain-like": lambda: Reading(GrainLike()),
    "loader": lambda: LoaderStream(Loader(), SOURCES),
    "loader-of-function": lambda: LoaderStream(make_loader, SOURCES),
    "loader-that-knows": lambda: LoaderStream(LoaderThatKnows(), SOURCES),
    "endless-loader": lambda: LoaderStream(EndlessLoader(), SOURCES, batches_per_epoch=4),
}


def make_stream(kind):
    """Return the stream of that kind."""
    return MAKERS[kind]()
