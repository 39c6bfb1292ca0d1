"""A main loop that has everything whose state an exact continuation needs.

A small network is trained by a compiled function, with dropout; the stream
and an extension draw from generators of their own and of Python and NumPy;
values are monitored, the best one is tracked, training would stop early. What
happens is written into the log, batch by batch, so that logs that are equal
mean runs that are equal.

The main loop is that of miniblocks, or that of Blocks where the environment
variable ``MAIN_LOOP_OF`` says ``blocks``: of both the same names are imported.
"""

import collections
import hashlib
import importlib
import os
import random
from functools import partial

import numpy

from blocks_checkpoint.engines import current

ROOT = os.environ.get("MAIN_LOOP_OF", "blocks_checkpoint.miniblocks")
IS_BLOCKS = ROOT == "blocks"
STREAMS = "fuel" if IS_BLOCKS else ROOT


def _module(name, root=ROOT):
    return importlib.import_module(f"{root}.{name}")


algorithms = _module("algorithms")
extensions = _module("extensions")
DataStream = _module("streams", STREAMS).DataStream
Transformer = _module("transformers", STREAMS).Transformer
schemes = _module("schemes", STREAMS)
monitoring = _module("extensions.monitoring")
MonitoredQuantity = _module("monitoring.aggregation").MonitoredQuantity
stopping = _module("extensions.stopping")
training = _module("extensions.training")
ComputationGraph = _module("graph").ComputationGraph

EXAMPLES, BATCH_SIZE = 23, 5
BATCHES_PER_EPOCH = 5
EPOCHS = 3
BATCHES = EPOCHS * BATCHES_PER_EPOCH

#: What is to happen to this process, by event and iterations done.
FATE = {}


def meet_fate(event, iterations_done):
    """Carry out what was ordered for this moment; once."""
    action = FATE.pop((event, iterations_done), None)
    if action is not None:
        action()


class Fate(extensions.TrainingExtension):
    """Lets happen what was ordered; its own state never changes."""

    def dispatch(self, callback_name, *args):
        meet_fate(str(callback_name), self.main_loop.status["iterations_done"])


class Descent(algorithms.GradientDescent):
    """Gradient descent in which a batch may fail."""

    def process_batch(self, batch):
        meet_fate("process_batch", _done(self))
        super().process_batch(batch)
        self.batches_done = _done(self) + 1


def _done(algorithm):
    return algorithm.__dict__.get("batches_done", 0)


class Noise(Transformer):
    """Adds noise from a generator, from children that it spawns, and from NumPy's own."""

    def __init__(self, data_stream, generator, seeds, **kwargs):
        kwargs.setdefault("produces_examples", data_stream.produces_examples)
        super().__init__(data_stream, **kwargs)
        self.generator = generator
        self.seeds = seeds

    def get_data(self, request=None):
        data = dict(zip(self.sources, next(self.child_epoch_iterator)))
        child = numpy.random.default_rng(self.seeds.spawn(1)[0])
        features = data["features"]
        noise = (
            0.1 * self.generator.normal(size=features.shape)
            + 0.1 * child.normal(size=features.shape)
            + 0.1 * numpy.random.uniform()
        )
        data["features"] = (features + noise).astype(features.dtype)
        return tuple([data[source] for source in self.sources])


class Witness(extensions.SimpleExtension):
    """Writes into the log what each batch was, and draws from every kind of generator."""

    def __init__(self, shared_generator, engine_draw, **kwargs):
        kwargs.setdefault("after_batch", True)
        super().__init__(**kwargs)
        self.shared = shared_generator
        self.generator = numpy.random.Generator(numpy.random.Philox(numpy.random.SeedSequence(11)))
        self.old = numpy.random.RandomState(12)
        self.python = random.Random(13)
        self.seeds = numpy.random.SeedSequence(14)
        self.engine_draw = engine_draw
        self.kept = {"children": [numpy.random.default_rng(self.seeds.spawn(1)[0])]}

    def do(self, which_callback, *args):
        batch = args[0]
        digest = hashlib.sha256()
        for source in sorted(batch):
            array = numpy.ascontiguousarray(batch[source])
            digest.update(f"{source} {array.dtype} {array.shape}".encode())
            digest.update(array.tobytes())
        child = numpy.random.default_rng(self.seeds.spawn(1)[0])
        row = self.main_loop.log.current_row
        row["batch"] = digest.hexdigest()
        row["draws"] = [
            self.shared.normal(),
            self.generator.normal(),
            self.old.normal(),
            self.python.gauss(0, 1),
            child.normal(),
            self.kept["children"][0].normal(),
            random.gauss(0, 1),
            numpy.random.normal(),
            float(self.engine_draw()),
        ]


class Memory(extensions.TrainingExtension):
    """Counts every event that it is told of."""

    def __init__(self):
        super().__init__()
        self.counts = {}

    def dispatch(self, callback_name, *args):
        event = str(callback_name)
        self.counts[event] = self.counts.get(event, 0) + 1
        if event in ("after_batch", "after_epoch"):
            self.main_loop.log.current_row[f"{event}_number"] = self.counts[event]

    def state_dict(self):
        return {"counts": dict(self.counts)}

    def load_state_dict(self, state):
        self.counts = dict(state["counts"])


class Sums(MonitoredQuantity):
    """Sums up over an epoch in Python, in attributes of several kinds."""

    def __init__(self, *requires, name):
        super().__init__(list(requires), name=name)
        self.generator = numpy.random.RandomState(16)

    def initialize(self):
        self.total, self.single = 0.0, numpy.zeros(3, dtype="float32")
        self.by_size = collections.Counter()

    def aggregate(self, features):
        self.total += float(features.sum()) * self.generator.uniform()
        self.single += features.sum(axis=0).astype("float32") / 3
        self.by_size[len(features)] += 1

    def get_aggregated_value(self):
        sizes = sorted(self.by_size.items())
        return self.total, self.single.tobytes().hex(), sizes


def smaller_rate(iterations_done, rate):
    return (rate * 0.99).astype(rate.dtype)


def make_rule(name):
    """Return a step rule by its name."""
    return {
        "scale": partial(algorithms.Scale, 0.1),
        "momentum": partial(algorithms.Momentum, 0.1, 0.9),
        "adam": partial(algorithms.Adam, 0.05),
    }[name]()


def make_dataset(kind, folder, seed=0):
    """Return a data set of random examples, in memory or in a file in ``folder``."""
    generator = numpy.random.RandomState(seed)
    data = {
        "features": generator.normal(size=(EXAMPLES, 3)).astype(current().floatX),
        "targets": generator.randint(0, 2, (EXAMPLES, 1)),
    }
    if kind != "hdf5":
        return _module("datasets", STREAMS).IndexableDataset(data)
    import h5py

    path = os.path.join(folder, f"data-{seed}.hdf5")
    dataset_class = _module("datasets.hdf5", STREAMS).H5PYDataset
    if not os.path.exists(path):
        with h5py.File(path, "w") as file:
            for name, values in data.items():
                file[name] = values
            split = {"train": dict.fromkeys(data, (0, EXAMPLES))}
            file.attrs["split"] = dataset_class.create_split_array(split)
    return dataset_class(path, which_sets=("train",), load_in_memory=False)


def make_stream(kind, folder, generator):
    """Return the stream to train on."""
    dataset = make_dataset(kind, folder)
    if kind == "examples":
        scheme = schemes.ShuffledExampleScheme(EXAMPLES, rng=numpy.random.RandomState(3))
        stream = DataStream(dataset, iteration_scheme=scheme)
        batches = schemes.ConstantScheme(BATCH_SIZE)
        stream = _module("transformers", STREAMS).Batch(stream, iteration_scheme=batches)
    else:
        scheme = (
            schemes.SequentialScheme(EXAMPLES, BATCH_SIZE)
            if kind == "sequential"
            else schemes.ShuffledScheme(EXAMPLES, BATCH_SIZE, rng=numpy.random.RandomState(3))
        )
        stream = DataStream(dataset, iteration_scheme=scheme)
    return Noise(stream, generator, numpy.random.SeedSequence(15))


def fast_mode():
    """Return a way of compiling that takes no time; the numbers are as random as any."""
    engine = current()
    return engine.module.compile.Mode(linker="py", optimizer=None)


def make_model_graph(seed=2):
    """Return the cost, with dropout and without, and the features."""
    tensor = current().tensor
    initialization = _module("initialization")
    bricks = _module("bricks")
    mlp = bricks.MLP(
        [bricks.Tanh(), bricks.Softmax()],
        [3, 4, 2],
        weights_init=initialization.IsotropicGaussian(0.5),
        biases_init=initialization.Constant(0),
        seed=seed,
    )
    mlp.initialize()
    features, targets = tensor.matrix("features"), tensor.lmatrix("targets")
    probabilities = mlp.apply(features)
    picked = probabilities[tensor.arange(targets.shape[0]), targets.flatten()]
    cost = -tensor.log(picked).mean()
    cost.name = "cost"
    graph = ComputationGraph(cost)
    dropped = _module("graph").apply_dropout(graph, [features], 0.2, seed=5).outputs[0]
    dropped.name = "cost"
    return cost, dropped, features


def make_main_loop(
    *savers, rule="adam", stream="shuffled", folder=None, first=(), epochs=EPOCHS, mode="fast"
):
    """Return the main loop; the global generators begin anew with it."""
    random.seed(5)
    numpy.random.seed(5)
    cost, dropped, features = make_model_graph()
    mode = fast_mode() if mode == "fast" else mode
    draws = current().random_stream(21).uniform(size=(), low=0.0, high=1.0)
    engine_draw = current().function([], draws, mode=mode)
    generator = numpy.random.default_rng(numpy.random.SeedSequence(22))
    model = _module("model").Model(dropped)
    valid_scheme = schemes.ShuffledScheme(EXAMPLES, 7, rng=numpy.random.RandomState(4))
    valid = DataStream(make_dataset("memory", folder, seed=1), iteration_scheme=valid_scheme)
    algorithm = Descent(
        cost=dropped,
        parameters=model.parameters,
        step_rule=make_rule(rule),
        theano_func_kwargs={"mode": mode},
    )
    rate = algorithm.step_rule.learning_rate
    with_validation = monitoring.DataStreamMonitoring([cost], valid, prefix="valid")
    return _module("main_loop").MainLoop(
        algorithm,
        make_stream(stream, folder, generator),
        model=model,
        extensions=[
            *first,
            Fate(),
            monitoring.TrainingDataMonitoring(
                [dropped, Sums(features, name="sums")], prefix="train", after_epoch=True
            ),
            with_validation,
            training.TrackTheBest("valid_cost"),
            stopping.FinishIfNoImprovementAfter("valid_cost_best_so_far", epochs=100),
            training.SharedVariableModifier(rate, smaller_rate),
            extensions.FinishAfter(after_n_epochs=epochs),
            Witness(generator, engine_draw),
            *savers,
            Memory(),
        ],
    )


#: Records of the log that differ between runs that are the same.
RECORDS_APART = (
    "saved_to",
    "loaded_from",
    "save_error",
    "signal_to_saved_seconds",
    "signal_to_durable_seconds",
)
#: A signal in the last epoch leaves its mark, and changes nothing.
INTERRUPTS = ("epoch_interrupt_received", "batch_interrupt_received")
STATUS_APART = ("resumed_from", *INTERRUPTS)


def comparable_log(log):
    """Return rows and status of a log, without what differs in any two runs."""
    times = range(log.status["iterations_done"] + 1)
    rows = {
        time: {name: _plain(value) for name, value in log[time].items() if _counts(name)}
        for time in times
        if not isinstance(log, dict) or time in log
    }
    status = {name: _plain(value) for name, value in log.status.items() if name not in STATUS_APART}
    return {time: row for time, row in rows.items() if row}, status


def _counts(name):
    return name not in (*RECORDS_APART, *INTERRUPTS) and "time_" not in name


def _plain(value):
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        return (str(value.dtype), value.shape, value.tobytes())
    return tuple(value) if isinstance(value, list) else value
