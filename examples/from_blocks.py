"""A training script of Blocks, moved: MNIST's shapes, on generated images.

The network and the extensions are those of the classic example: 784 pixels,
100 tanh units, 10 classes. What the move changed are the import roots, the
checkpoint, and how a run is taken up again; docs/moving-from-blocks says so
line by line.

    python examples/from_blocks.py mnist.zip --num-epochs 2
    python examples/from_blocks.py mnist.zip --num-epochs 4 --resume
    python examples/from_blocks.py mnist.zip --parameters-of an-old-checkpoint.tar
"""

import argparse
from collections import OrderedDict

import numpy

from blocks_checkpoint import Checkpoint, LoadParameters, Resume, load_parameters
from blocks_checkpoint.engines import current
from blocks_checkpoint.miniblocks.algorithms import GradientDescent, Scale
from blocks_checkpoint.miniblocks.bricks import MLP, Softmax, Tanh
from blocks_checkpoint.miniblocks.bricks.cost import (
    CategoricalCrossEntropy,
    MisclassificationRate,
)
from blocks_checkpoint.miniblocks.datasets import IndexableDataset
from blocks_checkpoint.miniblocks.extensions import FinishAfter, Printing, Timing
from blocks_checkpoint.miniblocks.extensions.monitoring import (
    DataStreamMonitoring,
    TrainingDataMonitoring,
)
from blocks_checkpoint.miniblocks.filter import VariableFilter
from blocks_checkpoint.miniblocks.graph import ComputationGraph
from blocks_checkpoint.miniblocks.initialization import Constant, IsotropicGaussian
from blocks_checkpoint.miniblocks.main_loop import MainLoop
from blocks_checkpoint.miniblocks.model import Model
from blocks_checkpoint.miniblocks.roles import WEIGHT
from blocks_checkpoint.miniblocks.schemes import SequentialScheme
from blocks_checkpoint.miniblocks.streams import DataStream
from blocks_checkpoint.miniblocks.transformers import Flatten


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("save_to", nargs="?", default="mnist.zip", help="the checkpoint")
    parser.add_argument("--num-epochs", type=int, default=2, help="in all, with those before")
    parser.add_argument("--resume", action="store_true", help="go on from save_to")
    parser.add_argument("--parameters-of", metavar="OLD", help="any checkpoint, of Blocks too")
    arguments = parser.parse_args(argv)

    beginning = []
    if arguments.parameters_of:
        beginning.append(LoadParameters(arguments.parameters_of))
    if arguments.resume:
        beginning.append(Resume(arguments.save_to, load_log=True))
    main_loop = make_main_loop(arguments.save_to, arguments.num_epochs, beginning)
    main_loop.run()

    row = main_loop.log.current_row
    print(f"epochs: {main_loop.status['epochs_done']}, test error: {float(row['test_error']):.3f}")
    for name, value in sorted(load_parameters(arguments.save_to).items()):
        print(f"{name} {value.shape}")


def make_main_loop(save_to, num_epochs, beginning=()):
    """Return the main loop, with extensions before its own."""
    # So small a network is trained in less time than it takes to compile.
    current().module.config.mode = "FAST_COMPILE"
    tensor = current().tensor
    x, y = tensor.matrix("features"), tensor.lmatrix("targets")
    mlp = MLP(
        [Tanh(), Softmax()],
        [784, 100, 10],
        weights_init=IsotropicGaussian(0.01),
        biases_init=Constant(0),
    )
    mlp.initialize()
    probabilities = mlp.apply(x)
    cost = CategoricalCrossEntropy().apply(y.flatten(), probabilities)
    error = MisclassificationRate().apply(y.flatten(), probabilities)
    weights = VariableFilter(roles=[WEIGHT])(ComputationGraph([cost]).variables)
    cost = cost + sum(0.00005 * (W**2).sum() for W in weights)
    cost.name, error.name = "cost", "error"

    algorithm = GradientDescent(
        cost=cost, parameters=ComputationGraph([cost]).parameters, step_rule=Scale(0.1)
    )
    extensions = [
        *beginning,
        Timing(),
        FinishAfter(after_n_epochs=num_epochs),
        DataStreamMonitoring([cost, error], make_stream(200, seed=2), prefix="test"),
        TrainingDataMonitoring([cost, error], prefix="train", after_epoch=True),
        Printing(),
        Checkpoint(save_to),
    ]
    return MainLoop(algorithm, make_stream(1000, seed=1), model=Model(cost), extensions=extensions)


def make_stream(count, seed):
    """Return batches of images of MNIST's shape: ten patterns, each with noise."""
    patterns = numpy.random.RandomState(0).uniform(size=(10, 28, 28)) > 0.5
    rng = numpy.random.RandomState(seed)
    targets = rng.randint(10, size=(count, 1))
    images = 0.1 * patterns[targets[:, 0]] + 0.9 * rng.uniform(size=(count, 28, 28))
    dataset = IndexableDataset(
        OrderedDict(
            [
                ("features", images.astype(current().floatX)),
                ("targets", targets.astype("int64")),
            ]
        )
    )
    stream = DataStream.default_stream(dataset, iteration_scheme=SequentialScheme(count, 50))
    return Flatten(stream, which_sources=("features",))


if __name__ == "__main__":
    main()
