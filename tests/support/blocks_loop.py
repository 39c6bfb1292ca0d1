"""A main loop of Blocks' own parts: bricks, algorithm, monitoring, log, and Fuel's streams."""

import time

import numpy
import theano
from blocks.algorithms import Adam, GradientDescent
from blocks.bricks import MLP, Softmax, Tanh
from blocks.bricks.cost import CategoricalCrossEntropy
from blocks.extensions import FinishAfter, SimpleExtension
from blocks.extensions.monitoring import DataStreamMonitoring, TrainingDataMonitoring
from blocks.initialization import Constant
from blocks.main_loop import MainLoop
from blocks.model import Model
from fuel.datasets import IndexableDataset
from fuel.schemes import SequentialScheme, ShuffledScheme
from fuel.streams import DataStream
from theano import tensor

EXAMPLES, BATCH_SIZE = 40, 10


class Note(SimpleExtension):
    """Writes into the log what a batch was made of."""

    def __init__(self, **triggers):
        triggers.setdefault("after_batch", True)
        super().__init__(**triggers)

    def do(self, which_callback, *args):
        self.main_loop.log.current_row["seen"] = float(args[0]["features"].sum())


def tell(main_loop):
    print("batch", main_loop.status["iterations_done"], flush=True)
    time.sleep(0.2)


def fail(main_loop):
    raise ZeroDivisionError("the training's own error")


def make_main_loop(*extensions, epochs=3, first=(), **options):
    """Return a main loop whose initial values are the same each time."""
    rng = numpy.random.RandomState(0)
    features = rng.randn(EXAMPLES, 4).astype(theano.config.floatX)
    dataset = IndexableDataset({"features": features, "targets": rng.randint(0, 3, (EXAMPLES, 1))})
    mlp = MLP([Tanh(), Softmax()], [4, 6, 3], weights_init=Constant(1), biases_init=Constant(0))
    mlp.initialize()
    x, y = tensor.matrix("features"), tensor.lmatrix("targets")
    cost = CategoricalCrossEntropy().apply(y.flatten(), mlp.apply(x))
    cost.name = "cost"
    model = Model(cost)
    for parameter in model.parameters:
        value = rng.randn(*parameter.get_value().shape)
        parameter.set_value(value.astype(theano.config.floatX))
    algorithm = GradientDescent(cost=cost, parameters=model.parameters, step_rule=Adam())
    shuffled = ShuffledScheme(EXAMPLES, BATCH_SIZE, rng=numpy.random.RandomState(1))
    in_order = SequentialScheme(EXAMPLES, BATCH_SIZE)
    return MainLoop(
        algorithm,
        DataStream(dataset, iteration_scheme=shuffled),
        model=model,
        extensions=[
            *first,
            FinishAfter(after_n_epochs=epochs),
            TrainingDataMonitoring([cost], prefix="train", after_epoch=True),
            DataStreamMonitoring(
                [cost], DataStream(dataset, iteration_scheme=in_order), prefix="valid"
            ),
            Note(),
            *extensions,
        ],
        **options,
    )


def rows_of(log, but=()):
    """Return the rows of a log of either kind, without what says how runs were ended and saved."""
    marks = {
        "saved_to", "loaded_from", "save_error", "resumed_from", "training_finished",
        "training_finish_requested", "batch_interrupt_received", "epoch_interrupt_received", *but,
    }  # fmt: skip
    rows = {}
    for time_ in range(log.status["iterations_done"] + 1):
        row = dict(log[time_])
        rows[time_] = {name: value for name, value in row.items() if name not in marks}
    return rows


def values_of(main_loop):
    """Return parameters, and what the algorithm updates, in their order."""
    values = {n: p.get_value() for n, p in main_loop.model.get_parameter_dict().items()}
    updated = [variable.get_value() for variable, _ in main_loop.algorithm.updates]
    return values, updated


def assert_same_run(one, other, but=()):
    """Compare two runs bit for bit: values, log but for some records, counts."""
    for first, second in zip(values_of(one), values_of(other)):
        pairs = (
            zip(first.values(), second.values()) if isinstance(first, dict) else zip(first, second)
        )
        for a, b in pairs:
            assert numpy.asarray(a).tobytes() == numpy.asarray(b).tobytes()
    assert rows_of(one.log, but) == rows_of(other.log, but)
    for key in ("iterations_done", "epochs_done", "_epoch_ends"):
        assert one.status[key] == other.status[key]
