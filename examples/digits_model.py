"""Handwritten digits, and a main loop that learns them: what the examples share.

Nothing that hangs in the main loop is defined here: its checkpoints can be
continued where this module is not at hand.
"""

import numpy
from sklearn.datasets import load_digits

from blocks_checkpoint.engines import current
from blocks_checkpoint.miniblocks.algorithms import GradientDescent, Momentum
from blocks_checkpoint.miniblocks.bricks import MLP, Softmax, Tanh
from blocks_checkpoint.miniblocks.bricks.cost import MisclassificationRate
from blocks_checkpoint.miniblocks.datasets import IndexableDataset
from blocks_checkpoint.miniblocks.extensions import FinishAfter, Printing, ProgressBar
from blocks_checkpoint.miniblocks.extensions.monitoring import (
    DataStreamMonitoring,
    TrainingDataMonitoring,
)
from blocks_checkpoint.miniblocks.initialization import Constant, IsotropicGaussian
from blocks_checkpoint.miniblocks.main_loop import MainLoop
from blocks_checkpoint.miniblocks.model import Model
from blocks_checkpoint.miniblocks.schemes import SequentialScheme, ShuffledScheme
from blocks_checkpoint.miniblocks.streams import DataStream

VALIDATION_EXAMPLES = 360
BATCH_SIZE = 32


def make_streams(classes=10, seed=1):
    """Return a stream of training and one of validation batches.

    The 1,797 images are divided in the same way each time; the training part
    is shuffled anew each epoch, by a generator that is saved with the stream.
    The targets are the digits modulo ``classes``: 2 tells odd ones from even.
    """
    digits = load_digits()
    order = numpy.random.RandomState(seed).permutation(len(digits.target))
    images = (digits.data[order] / 16).astype(current().floatX)
    targets = (digits.target[order] % classes).astype("int64")
    sources = {"images": images, "targets": targets}
    training = IndexableDataset(sources, start=VALIDATION_EXAMPLES)
    validation = IndexableDataset(sources, stop=VALIDATION_EXAMPLES)
    shuffled = ShuffledScheme(training.num_examples, BATCH_SIZE, rng=numpy.random.RandomState(seed))
    in_order = SequentialScheme(validation.num_examples, BATCH_SIZE)
    return (
        DataStream(training, iteration_scheme=shuffled),
        DataStream(validation, iteration_scheme=in_order),
    )


def make_network(classes=10):
    """Return the cost and the share of errors of an MLP with 100 hidden units."""
    tensor = current().tensor
    images, targets = tensor.matrix("images"), tensor.lvector("targets")
    mlp = MLP(
        [Tanh(), None],
        [64, 100, classes],
        weights_init=IsotropicGaussian(0.1),
        biases_init=Constant(0),
    )
    mlp.initialize()
    scores = mlp.apply(images)
    cost = Softmax().categorical_cross_entropy(targets, scores).mean()
    error = MisclassificationRate().apply(targets, scores)
    cost.name, error.name = "cost", "error"
    return cost, error


def make_main_loop(epochs, first=(), last=(), classes=10):
    """Return a main loop with extensions before and behind its own.

    Parameters
    ----------
    epochs : int
        To train in all, those of the runs before included.
    first, last : sequence of TrainingExtension
    classes : int
        As for :func:`make_streams`.
    """
    # A network this small is trained in less time than it takes to compile it
    # to machine code; this has the engine interpret the graph instead.
    current().module.config.mode = "FAST_COMPILE"
    training, validation = make_streams(classes)
    cost, error = make_network(classes)
    model = Model(cost)
    algorithm = GradientDescent(
        cost=cost, parameters=model.parameters, step_rule=Momentum(learning_rate=0.02, momentum=0.9)
    )
    extensions = [
        *first,
        FinishAfter(after_n_epochs=epochs),
        TrainingDataMonitoring([cost], prefix="train", after_epoch=True),
        DataStreamMonitoring([error], validation, prefix="valid"),
        ProgressBar(),
        Printing(),
        *last,
    ]
    return MainLoop(algorithm, training, model=model, extensions=extensions)
