"""A new main loop goes on from each kind of checkpoint that Blocks wrote."""

import numpy as np
import pytest
from old_checkpoints import FILES, KINDS, truth

from blocks_checkpoint import LoadParameters, Resume
from blocks_checkpoint.engines import current
from blocks_checkpoint.miniblocks.algorithms import GradientDescent, Momentum
from blocks_checkpoint.miniblocks.bricks import MLP, Softmax, Tanh
from blocks_checkpoint.miniblocks.bricks.cost import CategoricalCrossEntropy
from blocks_checkpoint.miniblocks.datasets import IndexableDataset
from blocks_checkpoint.miniblocks.extensions import FinishAfter, SimpleExtension
from blocks_checkpoint.miniblocks.initialization import Constant, IsotropicGaussian
from blocks_checkpoint.miniblocks.main_loop import MainLoop
from blocks_checkpoint.miniblocks.model import Model
from blocks_checkpoint.miniblocks.schemes import SequentialScheme
from blocks_checkpoint.miniblocks.streams import DataStream

VERSIONS = [version for version in KINDS if version != "npz"]


class Watch(SimpleExtension):
    """Notes the parameters as training begins."""

    def __init__(self, model):
        super().__init__(before_training=True)
        self._model = model
        self.seen = {}

    def do(self, which_callback, *args):
        self.seen = {
            name: value.copy() for name, value in self._model.get_parameter_values().items()
        }


def make_main_loop(extensions):
    """Return a main loop like the one that wrote the files, and what it will watch."""
    engine = current()
    engine.module.config.mode = "FAST_COMPILE"
    x, y = engine.tensor.matrix("x"), engine.tensor.lvector("y")
    mlp = MLP(
        [Tanh(), Softmax()], [4, 6, 3], weights_init=IsotropicGaussian(1), biases_init=Constant(0)
    )
    mlp.initialize()
    model = Model(CategoricalCrossEntropy().apply(y, mlp.apply(x)))
    algorithm = GradientDescent(
        cost=model.outputs[0], parameters=model.parameters, step_rule=Momentum(0.1, 0.9)
    )
    rng = np.random.RandomState(0)
    data = {"x": rng.uniform(size=(20, 4)).astype(engine.floatX), "y": rng.randint(3, size=20)}
    stream = DataStream(IndexableDataset(data), iteration_scheme=SequentialScheme(20, 5))
    watch = Watch(model)
    extensions = [*extensions, watch, FinishAfter(after_n_epochs=3)]
    return MainLoop(algorithm, stream, model=model, extensions=extensions), watch


@pytest.mark.parametrize("version", VERSIONS)
def test_resume_brings_parameters_and_log(version):
    main_loop, watch = make_main_loop([Resume(FILES / KINDS[version][0], load_log=True)])
    main_loop.run()
    for name, value in truth(version).items():
        np.testing.assert_array_equal(watch.seen[name], value)
    assert main_loop.status["iterations_done"] == 12
    assert main_loop.status["_epoch_ends"] == [4, 8, 12]
    assert set(range(1, 13)) <= set(main_loop.log)


@pytest.mark.parametrize("version", VERSIONS)
def test_load_parameters_starts_anew_from_them(version):
    main_loop, watch = make_main_loop([LoadParameters(FILES / KINDS[version][0])])
    main_loop.run()
    for name, value in truth(version).items():
        np.testing.assert_array_equal(watch.seen[name], value)
    assert main_loop.status["iterations_done"] == 12
