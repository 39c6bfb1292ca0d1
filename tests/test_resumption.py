"""The parts of putting saved state into a main loop that is about to run."""

import json
import random

import numpy
import pytest
from drifting import At, make_main_loop, make_stream

from blocks_checkpoint import Checkpoint, DamagedCheckpoint, LoadError, load_log, open_checkpoint
from blocks_checkpoint.miniblocks.extensions import CompositeExtension, FinishAfter, Printing
from blocks_checkpoint.miniblocks.log import TrainingLog
from blocks_checkpoint.miniblocks.streams import DataStream
from blocks_checkpoint.miniblocks.transformers import Mapping
from blocks_checkpoint.resumption import (
    all_extensions,
    check_stream,
    forget_interrupts,
    has_finished,
    is_blocks_loop,
    is_interrupted,
    limits_of,
    put_iteration_state,
    put_log,
    put_random_state,
    replace_limits,
)


def names(extensions):
    return [extension.name for extension in extensions]


def finish(epochs, name="limit"):
    return FinishAfter(after_n_epochs=epochs, name=name)


# Interruption


@pytest.mark.parametrize("flag", ["epoch_interrupt_received", "batch_interrupt_received"])
def test_interrupt_flags_are_seen_and_taken_back(flag):
    main_loop = make_main_loop()
    assert not is_interrupted(main_loop)
    main_loop.status[flag] = True
    assert is_interrupted(main_loop)
    forget_interrupts(main_loop)
    assert not is_interrupted(main_loop)


def test_signals_of_this_run_count_and_those_of_the_file_do_not():
    main_loop, log = make_main_loop(), TrainingLog()
    log.status.update(batch_interrupt_received=True, epoch_interrupt_received=True)
    main_loop.status["epoch_interrupt_received"] = True
    put_log(main_loop, log)
    assert main_loop.log is log
    assert main_loop.status["epoch_interrupt_received"]
    assert not main_loop.status["batch_interrupt_received"]


# The iteration state


class OtherStream(DataStream):
    """A stream of another kind."""


def doubled(data):
    return data


@pytest.mark.parametrize(
    ("stored", "present", "fits"),
    [
        (make_stream, make_stream, True),
        (make_stream, lambda: make_stream(batch_size=10), True),
        (make_stream, lambda: make_stream(stream_class=OtherStream), False),
        (make_stream, lambda: Mapping(make_stream(), doubled), False),
        (
            lambda: Mapping(make_stream(), doubled),
            lambda: Mapping(make_stream(stream_class=OtherStream), doubled),
            False,
        ),
        (lambda: Mapping(make_stream(), doubled), lambda: Mapping(make_stream(2), doubled), True),
    ],
    ids=["same", "other-batches", "other-class", "wrapped", "other-inside", "both-wrapped"],
)
def test_iteration_state_belongs_to_one_kind_of_stream(stored, present, fits):
    main_loop = make_main_loop(stream=present())
    state = (stored(), None)
    if fits:
        check_stream(main_loop, state, "run.zip")
        return
    with pytest.raises(LoadError, match="Nothing was changed") as caught:
        check_stream(main_loop, state, "run.zip")
    assert (caught.value.path, caught.value.member) == ("run.zip", "iteration_state")


def test_status_says_whether_the_epoch_had_begun():
    main_loop = make_main_loop()
    state = (make_stream(), iter(()))
    put_iteration_state(main_loop, state, {"epoch_started": True, "iterations_done": 5})
    assert main_loop.iteration_state == state
    assert main_loop.status["epoch_started"] is True
    assert main_loop.status["iterations_done"] == 0


class Generators:
    """As much of a checkpoint as setting the generators needs."""

    def __init__(self, **state):
        self.state = state

    def restore_random_state(self):
        from blocks_checkpoint.pickling import random_state

        random_state.restore(json.dumps(self.state).encode())


def test_generators_are_both_set_or_neither():
    version, words, gauss = random.Random(7).getstate()
    good = [version, list(words), gauss]
    before = random.getstate(), str(numpy.random.get_state())
    with pytest.raises(DamagedCheckpoint):
        put_random_state(Generators(**{"random": good, "numpy.random": {"bit_generator": "X"}}))
    assert (random.getstate(), str(numpy.random.get_state())) == before


# The end of a run


def test_extensions_inside_of_others_are_found():
    inner = CompositeExtension([Printing(name="deepest")], name="inner")
    main_loop = make_main_loop(CompositeExtension([finish(1), inner], name="outer"))
    assert {"FinishAfter", "NoteSeen", "outer", "limit", "inner", "deepest"} == set(
        names(all_extensions(main_loop))
    )


def test_limits_are_described_as_the_script_says_them():
    described = [limit.description for limit in limits_of([finish(3), Printing()])]
    assert described == ["after_n_epochs=3"]
    assert not is_blocks_loop(make_main_loop())


@pytest.mark.parametrize(
    ("present", "added", "left"),
    [
        pytest.param([finish(1, "old")], [finish(2)], [], id="replaced"),
        pytest.param([finish(1, "old")], [Printing()], ["old"], id="no-limit-added"),
        pytest.param([Printing(name="p"), finish(1)], [finish(2)], ["p"], id="others-stay"),
        pytest.param(
            [CompositeExtension([finish(1), Printing()], name="c")], [finish(2)], ["c"], id="inside"
        ),
    ],
)
def test_added_limit_takes_the_place_of_those_there_are(present, added, left):
    kept = replace_limits(present, added)
    assert names(kept) == left
    for extension in kept:
        parts = names(getattr(extension, "sub_extensions", ()))
        assert parts == [name for name in parts if name != "limit"]


@pytest.mark.parametrize(
    ("epochs", "then", "finished"),
    [(2, 2, True), (2, 3, False), (2, 1, True)],
    ids=["reached", "raised", "lowered"],
)
def test_run_has_finished_unless_its_limit_is_ahead(tmp_path, epochs, then, finished):
    path = tmp_path / "run.zip"
    make_main_loop(Checkpoint(path), epochs=epochs).run()
    main_loop = make_main_loop(epochs=then)
    put_log(main_loop, load_log(path))
    with open_checkpoint(path) as saved:
        recorded = saved.manifest["limits"]
    assert recorded == [f"after_n_epochs={epochs}"]
    assert has_finished(main_loop, recorded) is finished


def test_run_that_never_began_has_not_finished():
    assert not has_finished(make_main_loop(epochs=1), None)


def test_interrupted_run_has_not_finished(tmp_path):
    from drifting import interrupt

    path = tmp_path / "run.zip"
    make_main_loop(Checkpoint(path), At(interrupt, after_n_batches=3)).run()
    main_loop = make_main_loop()
    put_log(main_loop, load_log(path))
    assert not has_finished(main_loop, ["after_n_epochs=3"])
