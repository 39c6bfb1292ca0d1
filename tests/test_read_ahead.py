"""A stream whose place is not the training's is refused or announced, never silently wrong."""

import contextlib
import importlib.util
import multiprocessing
import queue
import socket
import threading
import warnings

import numpy
import pytest
from drifting import DataStream, assert_same_values, make_main_loop, make_stream

from blocks_checkpoint import (
    Checkpoint,
    Resume,
    UnpicklableError,
    continue_training,
    dump,
    open_checkpoint,
)
from blocks_checkpoint.errors import ReadAheadWarning
from blocks_checkpoint.miniblocks.extensions import FinishAfter
from blocks_checkpoint.miniblocks.transformers import Cast, Transformer
from blocks_checkpoint.read_ahead import streams_that_read_ahead


class ServerDataStream(DataStream):
    """Called like the one of Fuel that reads ahead in another process."""


class Unpicklable(Transformer):
    """Reads ahead in a thread."""

    def __init__(self, data_stream):
        super().__init__(data_stream, produces_examples=data_stream.produces_examples)
        self.thread = self.fetched = None

    def get_epoch_iterator(self, **kwargs):
        self.fetched = queue.Queue(maxsize=2)
        inner = self.data_stream.get_epoch_iterator()
        self.thread = threading.Thread(target=self._fetch, args=(inner,), daemon=True)
        self.thread.start()
        return super().get_epoch_iterator(**kwargs)

    def _fetch(self, inner):
        for batch in inner:
            self.fetched.put(batch)
        self.fetched.put(None)

    def get_data(self, request=None):
        batch = self.fetched.get()
        if batch is None:
            raise StopIteration
        return batch


class Prefetching(Unpicklable):
    """Leaves the thread, and what it has read, out of its pickle."""

    def __getstate__(self):
        return {**self.__dict__, "thread": None, "fetched": None}


class Telling(Prefetching):
    """Says itself what its state is."""

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def cast(stream):
    return Cast(stream, "floatX")


def announcements(action):
    """Carry something out, and return the announcements."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        action()
    return [str(each.message) for each in caught if each.category is ReadAheadWarning]


def server():
    return make_stream(stream_class=ServerDataStream)


MAKERS = {
    "server": server,
    "wrapped": lambda: cast(server()),
    "twice-wrapped": lambda: cast(cast(server())),
    "thread": lambda: Prefetching(make_stream()),
    "wrapped-thread": lambda: cast(Prefetching(make_stream())),
}
each_stream = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def begun(stream):
    """Return a main loop with that stream, in its first epoch."""
    main_loop = make_main_loop(epochs=1, stream=stream)
    main_loop.epoch_iterator = main_loop.data_stream.get_epoch_iterator(as_dict=True)
    return main_loop


# At a save


@each_stream
def test_checkpoint_announces_it_once_with_the_cure(path, make):
    main_loop = make_main_loop(Checkpoint(path), epochs=2, stream=make())
    (told,) = announcements(main_loop.run)
    assert told.startswith(f"saving {path}")
    assert "main_loop.data_stream" in told
    assert "state_dict() and load_state_dict(state)" in told
    with open_checkpoint(path) as saved:
        assert len(saved.manifest["reads_ahead"]) == 1


@each_stream
def test_dump_of_a_main_loop_announces_it(path, make):
    assert len(announcements(lambda: dump(begun(make()), path))) == 1


def test_stream_of_an_extension_counts_as_well():
    main_loop = make_main_loop(epochs=1)
    main_loop.extensions[0].data_stream = server()
    (found,) = streams_that_read_ahead(main_loop)
    assert found.endswith(".data_stream (a ServerDataStream)")


def test_streams_in_a_list_are_found():
    main_loop = make_main_loop(epochs=1)
    main_loop.data_stream.data_streams = [make_stream(), server()]
    (found,) = streams_that_read_ahead(main_loop)
    assert found == "main_loop.data_stream.data_streams[1] (a ServerDataStream)"


def test_search_ends_among_data_and_in_circles():
    main_loop = make_main_loop(stream=MAKERS["wrapped"]())
    dataset = main_loop.data_stream.data_stream.dataset
    dataset.itself = dataset
    main_loop.data_stream.nested = [[[] for _ in range(1000)] for _ in range(1000)]
    (found,) = streams_that_read_ahead(main_loop)
    assert found == "main_loop.data_stream.data_stream (a ServerDataStream)"


def test_one_that_meets_a_pickle_with_its_thread_is_refused(path):
    main_loop = make_main_loop(Checkpoint(path), epochs=1, stream=Unpicklable(make_stream()))
    with pytest.raises(
        UnpicklableError, match=r"data_stream\.thread is a threading.Thread.*read ahead"
    ):
        main_loop.run()


def test_generator_is_refused_with_its_place(path):
    stream = make_stream()
    stream.numbers = (number for number in range(3))
    with pytest.raises(UnpicklableError, match=r"data_stream\.numbers.*position in attributes"):
        make_main_loop(Checkpoint(path), epochs=1, stream=stream).run()


@pytest.mark.parametrize(
    "make",
    [make_stream, lambda: cast(make_stream()), lambda: Telling(make_stream())],
    ids=["plain", "wrapped", "tells-its-state"],
)
def test_other_streams_are_not_announced(make):
    assert streams_that_read_ahead(begun(make())) == []


@pytest.mark.parametrize(
    "make_worker",
    [
        lambda: multiprocessing.Process(target=print),
        lambda: socket.socket(),
        lambda: importlib.import_module("concurrent.futures").ThreadPoolExecutor(1),
    ],
    ids=["process", "socket", "executor"],
)
def test_every_kind_of_worker_counts(make_worker):
    stream = Prefetching(make_stream())
    with contextlib.ExitStack() as stack:
        stream.thread = make_worker()
        if isinstance(stream.thread, socket.socket):
            stack.enter_context(stream.thread)
        (found,) = streams_that_read_ahead(make_main_loop(stream=stream))
    assert found == "main_loop.data_stream (a Prefetching, whose thread is not saved)"


# On going on


@each_stream
def test_resume_announces_it_and_puts_everything_else(path, make):
    first = make_main_loop(Checkpoint(path), epochs=1, stream=make())
    announcements(first.run)
    resume = Resume(path, load_log=True, load_iteration_state=True)
    resumed = make_main_loop(first=[resume], epochs=1, stream=make())
    (told,) = announcements(resumed.run)
    assert told.startswith(f"going on from {path}")
    assert_same_values(resumed, first)


@each_stream
def test_resume_without_the_place_in_the_data_has_nothing_to_announce(path, make):
    announcements(make_main_loop(Checkpoint(path), epochs=1, stream=make()).run)
    resumed = make_main_loop(first=[Resume(path, load_log=True)], epochs=1, stream=make())
    assert announcements(resumed.run) == []


@each_stream
def test_continue_training_announces_it(path, make):
    announcements(make_main_loop(Checkpoint(path), epochs=1, stream=make()).run)
    limit = FinishAfter(after_n_epochs=2)
    told = announcements(lambda: continue_training(path, extensions=[limit]))
    assert [each.partition(":")[0] for each in told] == [
        f"going on from {path}",
        f"saving {path}",
    ]


def test_file_that_does_not_say_so_is_looked_into(path):
    """It was written before anybody looked."""
    make = MAKERS["wrapped"]
    main_loop = begun(make())
    announcements(lambda: dump(main_loop, path))
    with open_checkpoint(path) as saved:
        del saved.manifest["reads_ahead"]
        from blocks_checkpoint.read_ahead import warn_on_going_on

        state = saved.iteration_state()
        assert announcements(lambda: warn_on_going_on(saved, state, stacklevel=1))


# Fuel's own


needs_fuel = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) for name in ("fuel", "zmq")), reason="needs Fuel"
)


def fuel_stream(examples=20):
    from fuel.datasets import IndexableDataset
    from fuel.schemes import SequentialScheme
    from fuel.streams import DataStream as FuelStream

    data = {
        "features": numpy.arange(2.0 * examples).reshape(examples, 2),
        "number": numpy.arange(examples).reshape(examples, 1),
    }
    return FuelStream(IndexableDataset(data), iteration_scheme=SequentialScheme(examples, 5))


def serve(port):
    from fuel.server import start_server

    # Whoever connects anew meets the end of an epoch wherever it comes: far off.
    start_server(fuel_stream(examples=20_000), port=port)


@contextlib.contextmanager
def fuel_server():
    """Run a server in a process of its own; give its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = multiprocessing.get_context("fork").Process(target=serve, args=(port,), daemon=True)
    process.start()
    try:
        yield port
    finally:
        process.terminate()
        process.join()


@pytest.fixture
def _sockets_closed(monkeypatch):
    """Close what Fuel leaves open: collected as garbage, zmq complains of it or waits for it."""
    from fuel.streams import ServerDataStream as OfFuel

    connected = []
    connect = OfFuel.connect

    def noting(stream):
        connect(stream)
        connected.append(stream.socket)

    monkeypatch.setattr(OfFuel, "connect", noting)
    yield
    for each in connected:
        each.close(linger=0)
        each.context.term()


@needs_fuel
@pytest.mark.parametrize("is_wrapped", [False, True])
@pytest.mark.usefixtures("_sockets_closed")
@pytest.mark.filterwarnings("ignore")
def test_server_of_fuel_is_announced_at_every_moment(path, is_wrapped):
    from fuel.streams import ServerDataStream as OfFuel
    from fuel.transformers import Cast as CastOfFuel

    def make(port):
        stream = OfFuel(("features", "number"), produces_examples=False, port=port)
        return CastOfFuel(stream, "float64", which_sources=("features",)) if is_wrapped else stream

    with fuel_server() as port:
        limit = FinishAfter(after_n_batches=4)
        running = make_main_loop(limit, Checkpoint(path), epochs=1, stream=make(port))
        assert len(announcements(running.run)) == 1
        # It connects anew, and reads whatever the server sends next.
        limit = FinishAfter(after_n_batches=8)
        assert len(announcements(lambda: continue_training(path, extensions=[limit]))) == 2
        resume = Resume(path, load_log=True, load_iteration_state=True)
        limit = FinishAfter(after_n_batches=12)
        resumed = make_main_loop(limit, first=[resume], epochs=1, stream=make(port))
        assert len(announcements(resumed.run)) == 1
        assert resumed.status["iterations_done"] == 12


@needs_fuel
@pytest.mark.parametrize("is_wrapped", [False, True])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_process_of_fuel_is_refused_with_its_place(path, is_wrapped):
    from fuel.transformers import Cast as CastOfFuel
    from fuel.transformers import MultiProcessing

    reading = MultiProcessing(fuel_stream(), max_store=2)
    stream = CastOfFuel(reading, "float64") if is_wrapped else reading
    place = r"main_loop\.data_stream\.data_stream\." if is_wrapped else r"main_loop\.data_stream\."
    try:
        with pytest.raises(
            UnpicklableError, match=place + r"proc is a .*Process: it runs.*read ahead"
        ):
            make_main_loop(Checkpoint(path), epochs=1, stream=stream).run()
    finally:
        reading.proc.terminate()
        reading.proc.join()
    with open_checkpoint(path) as saved:
        assert "iteration_state" not in saved.manifest["pickles"]
