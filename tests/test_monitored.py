"""What monitoring has summed up in Python goes on in a newly built main loop."""

import warnings

import numpy
import pytest

from blocks_checkpoint import Checkpoint, CheckpointWarning, Resume, open_checkpoint
from blocks_checkpoint.engines import current
from blocks_checkpoint.errors import LoadError
from blocks_checkpoint.miniblocks.algorithms import GradientDescent, Scale
from blocks_checkpoint.miniblocks.bricks import MLP, Tanh
from blocks_checkpoint.miniblocks.datasets import IndexableDataset
from blocks_checkpoint.miniblocks.extensions import FinishAfter
from blocks_checkpoint.miniblocks.extensions.monitoring import (
    DataStreamMonitoring,
    TrainingDataMonitoring,
)
from blocks_checkpoint.miniblocks.initialization import Constant
from blocks_checkpoint.miniblocks.main_loop import MainLoop
from blocks_checkpoint.miniblocks.model import Model
from blocks_checkpoint.miniblocks.monitoring.aggregation import MonitoredQuantity
from blocks_checkpoint.miniblocks.schemes import SequentialScheme
from blocks_checkpoint.miniblocks.streams import DataStream
from blocks_checkpoint.monitored import quantity_states

BATCHES_PER_EPOCH = 4


class Total(MonitoredQuantity):
    """Keeps its sum in an attribute."""

    scale = 1

    def initialize(self):
        self.total = numpy.zeros(2, dtype="float32")

    def aggregate(self, features):
        self.total += features.sum(axis=0).astype("float32") * self.scale

    def get_aggregated_value(self):
        return self.total.tolist()


class Own(Total):
    """Says itself what its state is."""

    def state_dict(self):
        return {"half": self.total / 2}

    def load_state_dict(self, state):
        self.total = state["half"] * 2


class Longest(MonitoredQuantity):
    """Remembers across evaluations."""

    longest = 0

    def initialize(self):
        self.now = 0

    def aggregate(self, features):
        self.now += len(features)
        self.longest = max(self.longest, self.now)

    def get_aggregated_value(self):
        self.longest += 1
        return self.longest


class Held(Total):
    """Keeps something that no file can hold."""

    def initialize(self):
        super().initialize()
        self.handle = type("Handle", (), {})


class Locked(Total):
    """Keeps an object of a class of its own."""

    def initialize(self):
        super().initialize()
        self.inner = Kept()


class Kept:
    """Is no plain value."""


def make_main_loop(quantity_class, *savers, first=(), batches=None, trains_behind=False):
    """Monitor one quantity on the training data, and another on other data."""
    features = current().tensor.matrix("features")
    mlp = MLP([Tanh()], [2, 1], weights_init=Constant(0.5), biases_init=Constant(0), seed=1)
    mlp.initialize()
    cost = mlp.apply(features).sum()
    cost.name = "cost"
    columns = features.sum(axis=0)
    columns.name = "columns"
    data = numpy.random.RandomState(0).normal(size=(20, 2)).astype(current().floatX)
    stream = DataStream(
        IndexableDataset({"features": data}), iteration_scheme=SequentialScheme(20, 5)
    )
    monitors = [
        TrainingDataMonitoring(
            [cost, columns, quantity_class([features], name="total")],
            prefix="train",
            after_epoch=True,
        ),
        DataStreamMonitoring([Longest([features], name="longest")], stream, prefix="other"),
    ]
    fast = current().module.compile.Mode(linker="py", optimizer=None)
    model = Model(cost)
    return MainLoop(
        GradientDescent(
            cost=cost,
            parameters=model.parameters,
            step_rule=Scale(0.1),
            theano_func_kwargs={"mode": fast},
        ),
        stream,
        model=model,
        extensions=[
            *([] if trains_behind else monitors),
            *first,
            *(monitors if trains_behind else []),
            FinishAfter(after_n_epochs=3),
            *([FinishAfter(after_n_batches=batches, name="stop")] if batches else []),
            *savers,
        ],
    )


def records(main_loop):
    return {
        time: {
            name: numpy.asarray(row[name]).tolist()
            for name in ("train_cost", "train_columns", "train_total", "other_longest")
            if name in row
        }
        for time in range(main_loop.log.status["iterations_done"] + 1)
        for row in [main_loop.log.get(time, {})]
    }


@pytest.mark.parametrize("quantity_class", [Total, Own])
@pytest.mark.parametrize("is_behind", [False, True], ids=["resume-last", "resume-first"])
@pytest.mark.parametrize("batches", [1, 3, 4, 6])
def test_sums_go_on_in_mid_epoch(path, quantity_class, is_behind, batches):
    straight = make_main_loop(quantity_class)
    straight.run()
    make_main_loop(quantity_class, Checkpoint(path), batches=batches).run()
    resume = Resume(path, load_log=True, load_iteration_state=True)
    resumed = make_main_loop(quantity_class, first=[resume], trains_behind=is_behind)
    resumed.run()
    assert records(resumed) == records(straight)


@pytest.mark.parametrize("is_behind", [False, True], ids=["resume-last", "resume-first"])
@pytest.mark.parametrize("load_log", [False, True])
def test_sums_begin_anew_with_an_epoch_that_begins_anew(path, is_behind, load_log):
    make_main_loop(Total, Checkpoint(path), batches=3).run()
    resume = Resume(path, load_log=load_log)
    resumed = make_main_loop(Total, first=[resume], trains_behind=is_behind)
    resumed.run()
    straight = make_main_loop(Total)
    straight.run()
    end = BATCHES_PER_EPOCH + (3 if load_log else 0)
    assert resumed.log[end]["train_total"] == straight.log[BATCHES_PER_EPOCH]["train_total"]


def test_sums_are_the_file_s_where_counts_are_not(path):
    """With the iteration state alone, the epoch goes on and counting begins anew."""
    straight = make_main_loop(Total)
    straight.run()
    make_main_loop(Total, Checkpoint(path), batches=3).run()
    resumed = make_main_loop(Total, first=[Resume(path, load_iteration_state=True)])
    resumed.run()
    assert resumed.log[1]["train_total"] == straight.log[4]["train_total"]


def test_attribute_that_is_no_plain_value_is_announced_with_the_cure(path):
    main_loop = make_main_loop(Locked, Checkpoint(path), batches=1)
    with pytest.warns(CheckpointWarning, match=r"\.inner of the quantity 'total'.*state_dict"):
        main_loop.run()
    with open_checkpoint(path) as saved:
        state = saved.states("quantities")["extension TrainingDataMonitoring"]["total"]
    assert set(state) == {"total"}


def test_classes_and_functions_are_no_state():
    main_loop = make_main_loop(Held)
    (quantity,) = main_loop.extensions[0]._quantities.quantities
    quantity.initialize()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = quantity_states(main_loop.extensions)
    assert set(found["extension TrainingDataMonitoring"]["total"]) == {"total"}


def test_quantity_that_the_file_does_not_know_begins_anew_and_that_is_said(path, caplog):
    make_main_loop(Total, Checkpoint(path), batches=1).run()
    resumed = make_main_loop(Total, first=[Resume(path, load_iteration_state=True)], batches=1)
    resumed.extensions[0]._quantities.quantities[0].name = "another"
    resumed.run()
    assert "no state for the quantity 'another'" in caplog.text


class Refusing(Own):
    """Does not take what it gave."""

    def load_state_dict(self, state):
        raise KeyError("whole")


def test_quantity_that_refuses_its_state_is_named(path):
    make_main_loop(Own, Checkpoint(path), batches=1).run()
    resumed = make_main_loop(Refusing, first=[Resume(path, load_iteration_state=True)])
    with pytest.raises(LoadError, match="'total' of the extension TrainingDataMonitoring"):
        resumed.run()
