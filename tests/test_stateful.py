"""Iterators and streams that say what their state is are saved by it, and put back."""

import functools
import logging
import random

import numpy
import pytest
import stateful_streams
from drifting import make_main_loop
from interrupted import gone_on, outcome_of, resumed, saved_until, straight
from stateful_streams import (
    SOURCES,
    Epoch,
    GrainLike,
    LoaderThatKnows,
    Reader,
    Reading,
    TorchLike,
    Unpicklable,
)

from blocks_checkpoint import (
    Checkpoint,
    CheckpointError,
    LoadError,
    Resume,
    UnpicklableError,
    load_iteration_state,
    load_parameters,
    open_checkpoint,
)
from blocks_checkpoint.engines import current
from blocks_checkpoint.miniblocks.loaders import LoaderStream
from blocks_checkpoint.miniblocks.transformers import Mapping
from blocks_checkpoint.pickling.reachable import variables_without_arrays
from blocks_checkpoint.pickling.stateful import find_stateful, methods_of, put_saved, saved_state

KINDS = sorted(stateful_streams.MAKERS)
#: In mid-epoch; when the last batch of an epoch is done; when the epoch is.
BREAKS = [(2, "before_batch"), (4, "after_epoch"), (4, "before_epoch"), (5, "before_batch")]


def maker(kind):
    return functools.partial(stateful_streams.make_stream, kind)


def unpicklable():
    return Reading(Unpicklable())


@pytest.mark.parametrize("how", ["continue", "resume"])
@pytest.mark.parametrize(("iteration", "at"), BREAKS)
@pytest.mark.parametrize("kind", KINDS)
def test_run_on_a_stream_with_a_state_goes_on_exactly(path, kind, iteration, at, how):
    saved_until(path, maker(kind), iteration, at=at)
    assert gone_on(how, path, maker(kind)) == straight(maker(kind))


@pytest.mark.parametrize("how", ["continue", "resume"])
@pytest.mark.parametrize("kind", KINDS)
def test_batch_that_was_read_and_not_trained_on_comes_next(path, kind, how):
    saved_until(path, maker(kind), 3, at="after_batch", before_batch=True)
    assert gone_on(how, path, maker(kind)) == straight(maker(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_run_that_saves_equals_one_that_does_not(path, kind):
    everything = dict.fromkeys(["before_training", "before_epoch", "before_batch"], True)
    main_loop = make_main_loop(
        Checkpoint(path, every_n_batches=1, **everything), stream=stateful_streams.make_stream(kind)
    )
    main_loop.run()
    assert outcome_of(main_loop) == straight(maker(kind))


@pytest.mark.parametrize("reader", [TorchLike, GrainLike])
def test_iteration_state_alone_has_the_place(path, reader):
    saved_until(path, lambda: Reading(reader()), 2)
    stream, iterator = load_iteration_state(path)
    assert stream.reader is iterator
    expected = straight(lambda: Reading(reader()))["seen"][2]
    assert next(iterator)["number"].ravel().tolist() == expected


@pytest.mark.parametrize("kind", ["Everything", "EverythingSetByFunction"])
def test_object_is_made_by_its_own_pickle_and_gets_its_state(path, kind):
    """Whatever way of pickling its class has: the state comes after it."""
    thing = globals()[kind]([1, 2])
    thing["key"] = "value"
    thing.slot = "of a slot"
    thing.attribute = "of its dictionary"
    thing.place = 7
    main_loop = make_main_loop(Checkpoint(path, before_training=True), stream=Holding(thing))
    main_loop.run()
    held = load_iteration_state(path)[0].held
    assert (list(held.elements), held.pairs) == ([1, 2], {"key": "value"})
    assert (held.slot, held.attribute, held.place) == (
        "of a slot",
        "of its dictionary",
        "put back 7",
    )


class Slotted:
    __slots__ = ("slot",)


class Everything(Slotted):
    """Uses all that a class can say about its pickle."""

    def __init__(self, elements=()):
        self.elements = list(elements)
        self.pairs = {}
        self.place = None

    def __reduce_ex__(self, protocol):
        attributes = {"attribute": self.attribute}
        state = (attributes, {"slot": self.slot})
        return Everything, (), state, iter(self.elements), iter(self.pairs.items())

    def append(self, element):
        self.elements.append(element)

    def __setitem__(self, key, value):
        self.pairs[key] = value

    def __iter__(self):
        return iter(self.elements)

    def state_dict(self):
        return {"place": self.place}

    def load_state_dict(self, state):
        self.place = f"put back {state['place']}"


class EverythingSetByFunction(Everything):
    def __reduce_ex__(self, protocol):
        return EverythingSetByFunction, *super().__reduce_ex__(protocol)[1:], set_attributes


def set_attributes(thing, state):
    attributes, slots = state
    for name, value in {**attributes, **slots}.items():
        setattr(thing, name, value)


class Holding:
    """A stream of one batch that holds something."""

    def __init__(self, held):
        self.held = held

    def get_epoch_iterator(self, as_dict=False):
        return Epoch(range(5))


class Optimizer:
    """Has a state, and nothing to iterate over."""

    def state_dict(self):
        raise AssertionError("nobody asks for it")

    load_state_dict = state_dict


class OnlyGives:
    def __iter__(self):
        return iter(())

    def state_dict(self):
        raise AssertionError("nobody asks for it")


@pytest.mark.parametrize(
    ("thing", "methods"),
    [
        (TorchLike(), ("state_dict", "load_state_dict")),
        (GrainLike(), ("get_state", "set_state")),
        (Reader(), None),
        (Optimizer(), None),
        (OnlyGives(), None),
        (numpy.random.RandomState(1), None),
        (random.Random(1), None),
        ({"state_dict": 1, "load_state_dict": 2}, None),
        (TorchLike, None),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_what_is_saved_by_its_state_can_be_iterated_over_and_gives_and_takes_it(thing, methods):
    assert methods_of(thing) == methods


def test_only_what_hangs_in_stream_and_epoch_iterator_is_asked(path):
    """And what hangs in such an object is part of its state."""
    inner = TorchLike()
    outer = LoaderThatKnows()
    outer.inner = inner
    own = GrainLike()
    found = find_stateful((Holding([outer]), {"of the epoch": own}))
    assert [(part.path, part.thing) for part in found.parts.values()] == [
        (("data_stream", ".held", 0), outer),
        (("epoch_iterator", ":of the epoch"), own),
    ]


def test_epoch_iterator_is_asked_also_if_it_hangs_in_a_stream_that_has_a_state(path):
    """The stream's state is the stream's: the main loop holds the iterator itself."""
    iterator, stream = TorchLike(), LoaderThatKnows()
    stream.iterator = iterator
    found = find_stateful((stream, iterator))
    assert [part.path for part in found.parts.values()] == [("data_stream",), ("epoch_iterator",)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_stream_that_cannot_be_pickled_hides_no_random_stream_of_the_engine():
    main_loop = make_main_loop(stream=unpicklable())
    assert variables_without_arrays(main_loop) == []
    main_loop.draws = current().random_stream(21).uniform(size=(), low=0.0, high=1.0)
    assert len(variables_without_arrays(main_loop)) == 1


@pytest.mark.parametrize("iteration", [2, 4, 5])
def test_stream_that_cannot_be_pickled_is_resumed_by_its_state(path, iteration):
    saved_until(path, unpicklable, iteration, on_failure="warn")
    assert resumed(path, unpicklable) == straight(unpicklable)


def test_main_loop_whose_stream_cannot_be_pickled_is_saved_without_it_and_says_so(path):
    with pytest.raises(UnpicklableError, match=r"main_loop\.epoch_iterator.*lock in it"):
        saved_until(path, unpicklable, 4)
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.manifest["main_loop"] == "absent"
        assert "lock in it" in checkpoint.manifest["main_loop_error"]


def test_state_alone_is_no_iteration_state(path):
    saved_until(path, unpicklable, 2, on_failure="warn")
    with pytest.raises(LoadError, match=r"main_loop\.data_stream\.reader, a Unpicklable.*Resume"):
        load_iteration_state(path)


class Stubborn(Unpicklable):
    """Takes no state of mid-epoch."""

    def load_state_dict(self, state):
        super().load_state_dict(state)
        if state["order"]:
            raise RuntimeError("no")


Stubborn.__qualname__ = "Unpicklable"


@pytest.mark.parametrize(
    ("reader", "message"),
    [
        (TorchLike, r"main_loop\.data_stream\.reader was a Unpicklable.* here is a TorchLike"),
        (Stubborn, "the Unpicklable of the data stream does not take the state.*RuntimeError: no"),
    ],
)
def test_resume_on_a_stream_that_does_not_take_the_state_changes_nothing(path, reader, message):
    saved_until(path, unpicklable, 2, on_failure="warn")
    main_loop = make_main_loop(
        Resume(path, load_log=True, load_iteration_state=True), stream=Reading(reader())
    )
    with pytest.raises(LoadError, match=message):
        main_loop.run()
    assert main_loop.data_stream.reader.place() == Reader().place()


def test_resume_in_tiers_begins_the_epoch_anew_where_the_state_is_not_taken(path, caplog):
    saved_until(path, unpicklable, 2, on_failure="warn")
    resume = Resume(path, mode="auto")
    main_loop = make_main_loop(resume, stream=Reading(Stubborn()))
    with caplog.at_level(logging.WARNING):
        main_loop.run()
    assert resume.tier == "state"
    assert outcome_of(main_loop)["seen"][2:6] == outcome_of_first_epoch()


def outcome_of_first_epoch():
    return straight(unpicklable, epochs=1)["seen"]


def test_resume_of_an_error_that_comes_later_gives_the_state_back(path, monkeypatch):
    saved_until(path, unpicklable, 2, on_failure="warn")

    def fail(checkpoint):
        raise LoadError("damaged")

    monkeypatch.setattr("blocks_checkpoint.extensions.resume.put_random_state", fail)
    resume = Resume(path, load_log=True, load_iteration_state=True)
    main_loop = make_main_loop(resume, stream=unpicklable())
    with pytest.raises(LoadError, match="damaged"):
        main_loop.run()
    reader = main_loop.data_stream.reader
    assert reader.place() == Reader().place()
    assert reader.generator.random() == Reader().generator.random()


class Failing(TorchLike):
    def state_dict(self):
        raise RuntimeError("between two files")


def test_object_that_has_no_state_to_give_costs_no_parameters(path):
    with pytest.raises(
        CheckpointError, match=r"main_loop\.data_stream\.reader.*state_dict\(\) failed"
    ):
        saved_until(path, lambda: Reading(Failing()), 4)
    assert load_parameters(path)


def test_generators_go_on_in_an_object_that_does_not_mention_them():
    """Also where those of the new object are of another seed."""
    saved = saved_state(with_generators(1))
    expected = draws_of(with_generators(1))
    other = with_generators(2)
    put_saved(other, saved)
    assert draws_of(other) == expected


def with_generators(seed):
    reader = TorchLike(seed)
    reader.kept = [random.Random(seed), {"old": numpy.random.RandomState(seed)}]
    return reader


def draws_of(reader):
    python, kept = reader.kept
    return reader.generator.random(), python.random(), kept["old"].normal()


class WithoutState(TorchLike):
    def state_dict(self):
        return None

    def load_state_dict(self, state):
        raise AssertionError("there is nothing to take")


def test_state_that_is_none_is_not_put_back():
    reader = WithoutState()
    put_saved(reader, saved_state(reader))


@pytest.mark.parametrize("how", ["continue", "resume"])
def test_stream_within_a_transformer_goes_on_exactly(path, how):
    def make_stream():
        return Mapping(LoaderStream(LoaderThatKnows(), SOURCES), as_it_is)

    saved_until(path, make_stream, 6)
    assert gone_on(how, path, make_stream) == straight(make_stream)


def as_it_is(data):
    return data
