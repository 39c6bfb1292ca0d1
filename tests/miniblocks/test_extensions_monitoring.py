"""What monitoring writes into the log."""

import pickle

import numpy
import pytest

from blocks_checkpoint.engines import current
from blocks_checkpoint.miniblocks.algorithms import GradientDescent, Scale
from blocks_checkpoint.miniblocks.datasets import IndexableDataset
from blocks_checkpoint.miniblocks.extensions import FinishAfter, TrainingExtension
from blocks_checkpoint.miniblocks.extensions.monitoring import (
    DataStreamMonitoring,
    MonitoringExtension,
    TrainingDataMonitoring,
)
from blocks_checkpoint.miniblocks.main_loop import MainLoop
from blocks_checkpoint.miniblocks.monitoring import aggregation
from blocks_checkpoint.miniblocks.monitoring.evaluators import DatasetEvaluator
from blocks_checkpoint.miniblocks.schemes import SequentialScheme
from blocks_checkpoint.miniblocks.streams import DataStream
from blocks_checkpoint.miniblocks.utils import shared_floatx
from blocks_checkpoint.miniblocks.utils.testing import MockMainLoop

FEATURES = numpy.array([[1.0, 2], [3, 4], [5, 9]])


def stream():
    """A batch of two examples, then one of one."""
    dataset = IndexableDataset({"features": FEATURES})
    return DataStream(dataset, iteration_scheme=SequentialScheme(3, 2))


def named(variable, name):
    variable.name = name
    return variable


class CountExamples(aggregation.MonitoredQuantity):
    """Counts the examples seen."""

    def initialize(self):
        self.count = 0

    def aggregate(self, features):
        self.count += len(features)

    def get_aggregated_value(self):
        return self.count


@pytest.fixture
def x():
    return current().tensor.matrix("features")


def test_values_are_aggregated_over_the_batches(x):
    weights = shared_floatx(numpy.array([7.0, 8.0]), name="W")
    total = named(x.sum(), "total")
    variables = [
        named(x.mean(), "mean_of_batches"),
        aggregation.mean(total, x.shape[0]),
        named(aggregation.mean(x.sum(axis=0), x.shape[0]), "columns"),
        named(aggregation.maximum(named(x.max(), "m")), "greatest"),
        named(aggregation.minimum(named(x.min(axis=0), "m")), "least"),
        named(aggregation.take_last(named(x.sum(), "m")), "last"),
        weights,
        named(weights.sum(), "W_sum"),
        CountExamples([x], name="examples"),
    ]
    evaluator = DatasetEvaluator(variables)
    for _ in range(2):
        values = evaluator.evaluate(stream())
        numpy.testing.assert_equal(
            values,
            {
                "mean_of_batches": (2.5 + 7) / 2,
                "total": 24 / 3,
                "columns": FEATURES.mean(axis=0),
                "greatest": 9,
                "least": [1, 2],
                "last": 14,
                "W": [7, 8],
                "W_sum": 15,
                "examples": 3,
            },
        )


def test_data_are_not_read_where_nothing_depends_on_them():
    weights = shared_floatx(2.0, name="W")
    evaluator = DatasetEvaluator([weights, named(weights * 2, "twice")])
    assert evaluator.evaluate(None) == {"W": 2, "twice": 4}


def test_updates_can_be_done_along_with_the_evaluation(x):
    counter = shared_floatx(0.0, name="counter")
    DatasetEvaluator([named(x.sum(), "sum")], {counter: counter + 1}).evaluate(stream())
    assert counter.get_value() == 2


def test_source_that_is_missing_is_named():
    other = current().tensor.matrix("others")
    with pytest.raises(ValueError, match="others missing from features"):
        DatasetEvaluator([named(other.sum(), "sum")]).evaluate(stream())


@pytest.mark.parametrize(
    ("names", "message"),
    [([None], "must have names"), (["a", "a"], "unique"), (["text"], "cannot monitor")],
)
def test_variables_need_names_of_their_own(x, names, message):
    variables = ["text"] if "text" in names else [named(x.sum(), name) for name in names]
    with pytest.raises(ValueError, match=message):
        DatasetEvaluator(variables)


@pytest.mark.parametrize(
    ("kwargs", "name"),
    [
        ({}, "cost"),
        ({"prefix": "train"}, "train_cost"),
        ({"suffix": "mean"}, "cost_mean"),
        ({"prefix": "train", "suffix": "mean"}, "train_cost_mean"),
    ],
)
def test_record_is_named_after_the_variable(kwargs, name):
    extension = MonitoringExtension(**kwargs)
    assert extension.record_name(named(shared_floatx(0.0), "cost")) == name
    with pytest.raises(ValueError, match="must be a string"):
        extension.record_name(shared_floatx(0.0))


def training_loop(x, *extensions, epochs=2):
    """Two batches an epoch; the cost of each is its own sum times a weight that falls."""
    weight = shared_floatx(1.0, name="W")
    cost = named(x.sum() * weight, "cost")
    algorithm = GradientDescent(cost, [weight], Scale(0.01))
    loop = MainLoop(algorithm, stream())
    loop.extensions += [*extensions, FinishAfter(after_n_epochs=epochs)]
    return loop, cost, weight


def test_training_is_monitored_before_the_update_and_averaged_since_the_last_record(x):
    loop, cost, weight = training_loop(x)
    every_batch = TrainingDataMonitoring([cost, weight], prefix="batch", after_batch=True)
    quantity = CountExamples([x], name="examples")
    every_epoch = TrainingDataMonitoring([cost, quantity], prefix="epoch", after_epoch=True)
    loop.extensions[:0] = [every_batch, every_epoch]
    loop.run()
    costs = [loop.log[time]["batch_cost"] for time in (1, 2, 3, 4)]
    numpy.testing.assert_allclose(costs, [10, 14 * 0.9, 10 * 0.76, 14 * 0.66])
    assert loop.log[1]["batch_W"] == 1
    assert loop.log[2]["epoch_cost"] == pytest.approx((costs[0] + costs[1]) / 2)
    assert loop.log[4]["epoch_cost"] == pytest.approx((costs[2] + costs[3]) / 2)
    assert [loop.log[time]["epoch_examples"] for time in (2, 4)] == [3, 3]
    assert "epoch_cost" not in loop.log[1]


class Snapshots(TrainingExtension):
    """Pickles the main loop after every batch."""

    def __init__(self):
        super().__init__()
        self.taken = []

    def __getstate__(self):
        return {**self.__dict__, "taken": []}

    def after_batch(self, batch):
        self.taken.append(pickle.dumps(self.main_loop))


def test_average_of_an_epoch_that_was_interrupted_is_that_of_the_whole_epoch(x):
    """Wherever in the list the extension is that saves; bit for bit."""
    for place in (0, 1):
        loop, cost, weight = training_loop(x)
        monitoring = TrainingDataMonitoring([cost], after_epoch=True)
        snapshots = Snapshots()
        loop.extensions[:0] = [monitoring, snapshots] if place else [snapshots, monitoring]
        loop.run()
        resumed = pickle.loads(snapshots.taken[2])
        resumed.run()
        assert resumed.log == loop.log
        (parameter,) = resumed.algorithm.parameters
        assert parameter.get_value() == weight.get_value()


class TakeOver(TrainingExtension):
    """Puts the state of another main loop into this one, as resuming from a file does."""

    def __init__(self, source, pairs):
        super().__init__()
        self.source = source
        self.pairs = pairs

    def before_training(self):
        self.main_loop.log = self.source.log
        self.main_loop.iteration_state = self.source.iteration_state
        for old, new in self.pairs:
            new.set_value(old.get_value())


def test_average_goes_on_in_a_newly_built_main_loop(x):
    loops, monitors = [], []
    for _ in range(3):
        loop, cost, _ = training_loop(x)
        monitors.append(
            TrainingDataMonitoring([cost, CountExamples([x], name="examples")], after_epoch=True)
        )
        loop.extensions.insert(0, monitors[-1])
        loops.append(loop)
    straight, old, new = loops
    straight.run()
    old.extensions.append(FinishAfter(after_n_batches=1))
    old.run()
    states = []
    for loop, monitor in zip((old, new), monitors[1:]):
        accumulators = [variable for variable, _ in monitor._variables.accumulation_updates]
        states.append([*loop.algorithm.parameters, *accumulators])
    new.extensions.insert(0, TakeOver(old, list(zip(*states))))
    new.run()
    for time in (2, 4):
        assert new.log[time]["cost"] == straight.log[time]["cost"]
    assert new.log[4]["examples"] == 3


def test_validation_is_monitored_before_the_first_and_after_each_epoch(x):
    loop, cost, _ = training_loop(x)
    loop.extensions.insert(0, DataStreamMonitoring([cost], stream(), prefix="valid"))
    loop.run()
    recorded = {time: row["valid_cost"] for time, row in loop.log.items() if "valid_cost" in row}
    assert recorded == pytest.approx({0: 12, 2: 12 * 0.76, 4: 12 * 0.52})


def test_training_monitoring_wants_an_algorithm_with_updates(x):
    extension = TrainingDataMonitoring([named(x.sum(), "sum")])
    loop = MockMainLoop(extensions=[extension])
    with pytest.raises(ValueError, match="with updates"):
        loop.run()
