"""Deeply nested objects are saved and loaded, and nobody has to raise a limit for it."""

import io
import os
import sys
import threading

import numpy as np
import pytest
from drifting import NoteSeen, make_main_loop

from blocks_checkpoint import Checkpoint, continue_training, dump, load, load_main_loop
from blocks_checkpoint.engines import current
from blocks_checkpoint.errors import LoadError, UnpicklableError
from blocks_checkpoint.miniblocks.extensions import FinishAfter
from blocks_checkpoint.pickling.deep import with_deep_stack

DEPTH = 10_000


class Link:
    """One of a chain."""

    def __init__(self, following):
        self.following = following
        self.previous = None
        if following is not None:
            following.previous = self


class SlottedLink:
    """One of a chain, without a dictionary."""

    __slots__ = ("following", "previous")
    __init__ = Link.__init__


class ReducedLink:
    """One of a chain that is pickled by what its class is called with."""

    def __init__(self, following):
        self.following = following

    def __reduce__(self):
        return type(self), (self.following,)


KINDS = {
    "objects-linked-both-ways": Link,
    "objects-with-slots": SlottedLink,
    "objects-made-by-a-call": ReducedLink,
    "lists": lambda following: [following],
    "tuples": lambda following: (following,),
    "dictionaries": lambda following: {"following": following},
    "mixed": lambda following: {"following": [(following, 1)]},
}


def chain(make, length):
    first = None
    for _ in range(length):
        first = make(first)
    return first


def length_of(link):
    length = 0
    while link is not None:
        if isinstance(link, (list, tuple)):
            link = link[0]
        elif isinstance(link, dict):
            link = link["following"]
        else:
            link = link.following
        length += 1
    return length


def round_trip(thing):
    file = io.BytesIO()
    dump(thing, file)
    return load(file)


@pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
def test_a_chain_of_ten_thousand_is_saved_and_loaded(make):
    limit = sys.getrecursionlimit()
    made = chain(make, DEPTH)
    again = round_trip([made])[0]
    assert length_of(again) == length_of(made)
    assert sys.getrecursionlimit() == limit
    if make is Link:
        assert again.following.previous is again
    # Letting go of a chain recurses, too.
    del again, made


@pytest.mark.parametrize("limit", [900, 5_000, 200_000])
def test_the_recursion_limit_of_the_caller_is_kept(limit):
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(limit)
    try:
        assert length_of(round_trip(chain(Link, DEPTH // 5))) == DEPTH // 5
        with pytest.raises(UnpicklableError):
            round_trip([chain(Link, DEPTH // 5), lambda: None])
        assert sys.getrecursionlimit() == limit
    finally:
        sys.setrecursionlimit(before)


def test_a_chain_is_saved_and_loaded_on_a_thread():
    lengths = []
    thread = threading.Thread(
        target=lambda: lengths.append(length_of(round_trip(chain(Link, DEPTH))))
    )
    thread.start()
    thread.join()
    assert lengths == [DEPTH]


def test_a_deep_graph_in_a_main_loop_is_saved_and_training_goes_on(tmp_path):
    """Three thousand operations of the engine, and ten thousand objects."""
    engine = current()
    variable = engine.shared(np.ones(3), name="W")
    graph = variable
    for _ in range(3_000):
        graph = engine.tensor.tanh(graph)
    holder = NoteSeen()
    holder.graph, holder.chain = graph, chain(Link, DEPTH)
    path = tmp_path / "made.zip"
    make_main_loop(holder, Checkpoint(path, after_training=True, every_n_epochs=9), epochs=1).run()
    again = load_main_loop(path)
    holder = next(each for each in again.extensions if hasattr(each, "graph"))
    assert length_of(holder.chain) == DEPTH
    operations = 0
    graph = holder.graph
    while graph.owner is not None:
        (graph,) = graph.owner.inputs
        operations += 1
    assert (operations, graph.name) == (3_000, "W")
    longer = continue_training(path, extensions=[FinishAfter(after_n_epochs=2)])
    assert longer.status["epochs_done"] == 2


def test_a_chain_too_long_for_every_pickler_is_refused_and_the_old_file_stays(tmp_path):
    path = tmp_path / "made.zip"
    dump("before", path)
    before = path.read_bytes()
    limit = sys.getrecursionlimit()
    with pytest.raises(UnpicklableError, match="nested too deeply.*Break the chain"):
        dump({"chain": chain(KINDS["lists"], 400_000)}, path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["made.zip"]
    assert sys.getrecursionlimit() == limit


class AsksItself:
    """Looks for its attributes in an attribute that an empty one does not have."""

    def __init__(self):
        self.inner = {}

    def __getattr__(self, name):
        if name == "__getstate__":
            raise AttributeError(name)
        return self.inner[name]


class NeverSaved:
    """Asks itself for its state without end."""

    def __reduce_ex__(self, protocol):
        return self.__reduce_ex__(protocol)


class Asked:
    """Asks itself for what nobody has, without end."""

    def __getattr__(self, name):
        return self.other

    def __reduce__(self):
        return Asked, (self.state,)


def test_a_class_that_asks_itself_without_end_is_named_on_loading():
    file = io.BytesIO()
    dump([AsksItself()], file)
    with pytest.raises(LoadError, match=r"AsksItself calls itself.*__getattr__ must raise"):
        load(file)


@pytest.mark.parametrize("cls", [NeverSaved, Asked])
def test_a_class_that_asks_itself_without_end_is_named_on_saving(cls):
    with pytest.raises(UnpicklableError, match=rf"object\[1\] is a .*{cls.__name__}: "):
        dump([1, cls()], io.BytesIO())


def test_what_runs_on_a_deep_stack_gives_back_its_result_or_its_error():
    assert with_deep_stack(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        with_deep_stack(lambda: 1 // 0)
    with pytest.raises(KeyboardInterrupt):
        with_deep_stack(raise_interrupt)
    with pytest.raises(RecursionError):
        with_deep_stack(call_itself)


def raise_interrupt():
    raise KeyboardInterrupt


def call_itself():
    return call_itself()


def test_a_deep_stack_is_deep_and_leaves_the_stacks_of_other_threads_alone():
    def depth_reached(depth):
        return depth if depth == 50_000 else depth_reached(depth + 1)

    before = threading.stack_size()
    assert with_deep_stack(lambda: depth_reached(0)) == 50_000
    assert threading.stack_size() == before
