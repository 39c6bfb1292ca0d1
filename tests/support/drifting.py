"""A main loop that needs no compiled function, for tests of what is around it.

It trains a real model, by adding up what it sees: state in shared variables,
in a generator of its own, in the global generators, and in the log.
"""

import random
import time

import numpy

from blocks_checkpoint.engines import current
from blocks_checkpoint.extensions.base import SimpleExtension
from blocks_checkpoint.miniblocks.algorithms import TrainingAlgorithm
from blocks_checkpoint.miniblocks.bricks import MLP, Tanh
from blocks_checkpoint.miniblocks.datasets import IndexableDataset
from blocks_checkpoint.miniblocks.extensions import FinishAfter
from blocks_checkpoint.miniblocks.initialization import Constant
from blocks_checkpoint.miniblocks.main_loop import MainLoop
from blocks_checkpoint.miniblocks.model import Model
from blocks_checkpoint.miniblocks.schemes import ShuffledScheme
from blocks_checkpoint.miniblocks.streams import DataStream

EXAMPLES, BATCH_SIZE = 20, 5
BATCHES_PER_EPOCH = EXAMPLES // BATCH_SIZE


class Drift(TrainingAlgorithm):
    """Moves each parameter by what a batch holds, with momentum and noise."""

    def __init__(self, parameters):
        self.parameters = list(parameters)
        self.velocities = []
        for parameter in self.parameters:
            velocity = current().shared(parameter.get_value() * 0, name="velocity")
            velocity.tag.for_parameter = parameter
            self.velocities.append(velocity)
        self.rate = current().shared(numpy.asarray(0.5, dtype=current().floatX), name="rate")

    def initialize(self, **kwargs):
        pass

    def process_batch(self, batch):
        noise = numpy.random.uniform() + random.random()
        step = self.rate.get_value() * batch["features"].mean() + noise
        for parameter, velocity in zip(self.parameters, self.velocities):
            moved = 0.9 * velocity.get_value() + step
            velocity.set_value(moved.astype(velocity.dtype))
            parameter.set_value((parameter.get_value() + moved).astype(parameter.dtype))


class NoteSeen(SimpleExtension):
    """Writes into the log which examples a batch was made of, and counts its calls."""

    def __init__(self, **triggers):
        triggers.setdefault("after_batch", True)
        super().__init__(**triggers)
        self.calls = 0

    def do(self, which_callback, *args):
        self.calls += 1
        batch = args[0]
        self.main_loop.log.current_row["seen"] = batch["number"].ravel().tolist()


class At(SimpleExtension):
    """Calls a function with the main loop, at the times that its triggers say."""

    def __init__(self, function, **triggers):
        super().__init__(**triggers)
        self.function = function

    def do(self, which_callback, *args):
        self.function(self.main_loop)


def interrupt(main_loop):
    """Do what SIGTERM does."""
    main_loop.status["batch_interrupt_received"] = True


def tell(main_loop):
    """Print which batch it is, and give others the time to do something about it."""
    print("batch", main_loop.status["iterations_done"], flush=True)
    time.sleep(0.1)


def make_stream(seed=1, stream_class=DataStream, batch_size=BATCH_SIZE):
    """Return a stream that shuffles anew each epoch."""
    numbers = numpy.arange(EXAMPLES)
    features = (numbers[:, None] * [[1, 2, 3]]).astype(current().floatX) / EXAMPLES
    dataset = IndexableDataset({"features": features, "number": numbers[:, None]})
    scheme = ShuffledScheme(EXAMPLES, batch_size, rng=numpy.random.RandomState(seed))
    return stream_class(dataset, iteration_scheme=scheme)


def make_model(dims=(3, 4, 2), name="mlp"):
    """Return the model of a small network of bricks, all of whose weights are 1."""
    mlp = MLP(
        [Tanh() for _ in dims[1:]],
        list(dims),
        weights_init=Constant(1),
        biases_init=Constant(0),
        name=name,
    )
    mlp.initialize()
    cost = mlp.apply(current().tensor.matrix("features")).sum()
    cost.name = "cost"
    return Model(cost)


def make_main_loop(*extensions, epochs=3, stream=None, model=None, first=()):
    """Return a main loop; the global generators begin anew with it."""
    random.seed(5)
    numpy.random.seed(5)
    model = model or make_model()
    return MainLoop(
        Drift(model.parameters),
        stream or make_stream(),
        model=model,
        extensions=[*first, FinishAfter(after_n_epochs=epochs), NoteSeen(), *extensions],
    )


def values_of(main_loop):
    """Return a copy of everything that the algorithm changes, by name."""
    algorithm = main_loop.algorithm
    found = {name: p.get_value() for name, p in main_loop.model.get_parameter_dict().items()}
    for parameter, velocity in zip(algorithm.parameters, algorithm.velocities):
        found[f"velocity of {parameter.name} {parameter.get_value().shape}"] = velocity.get_value()
    return found


def seen_by(log):
    """Return which examples were trained on, batch by batch."""
    return [log[time]["seen"] for time in sorted(log) if "seen" in log[time]]


def assert_same_values(one, other):
    """Compare the shared variables of two main loops, bit for bit."""
    one, other = values_of(one), values_of(other)
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].tobytes() == other[name].tobytes(), name
