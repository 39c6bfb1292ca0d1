"""Runs that break off at a batch and go on, compared with one that does not."""

import os
import random
import sys

import numpy
from drifting import At, make_main_loop, seen_by, values_of

from blocks_checkpoint import Checkpoint, Resume, continue_training


class Broken(Exception):
    """What ends a run."""


class BreakOff:
    """Fails at an iteration; not in a run that goes on."""

    def __init__(self, iteration):
        self.iteration = iteration

    def __getstate__(self):
        return {"iteration": None}

    def __call__(self, main_loop):
        if main_loop.status["iterations_done"] == self.iteration:
            raise Broken


def outcome_of(main_loop):
    """Return all that is to be the same in two runs that are the same."""
    values = {name: value.tobytes() for name, value in values_of(main_loop).items()}
    return {"seen": seen_by(main_loop.log), "values": values}


def scramble():
    """Put the global generators into a state that no run has them in."""
    random.seed(os.getpid())
    numpy.random.seed(os.getpid())
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(os.getpid())


def straight(make_stream, **kwargs):
    """Return the outcome of a run that nothing happens to."""
    main_loop = make_main_loop(stream=make_stream(), **kwargs)
    main_loop.run()
    return outcome_of(main_loop)


def saved_until(path, make_stream, iteration, *, at="before_batch", **kwargs):
    """Train until an iteration, saving after every batch and epoch, and break off."""
    main_loop = make_main_loop(
        Checkpoint(path, every_n_batches=1, after_epoch=True, **kwargs),
        At(BreakOff(iteration), **{at: True}),
        stream=make_stream(),
    )
    try:
        main_loop.run()
    except Broken:
        scramble()
        return main_loop
    raise AssertionError("the run came to its end")


def continued(path):
    """Return the outcome of a run that goes on by ``continue_training``."""
    return outcome_of(continue_training(path))


def resumed(path, make_stream):
    """Return the outcome of a run that goes on by ``Resume``."""
    resume = Resume(path, load_log=True, load_iteration_state=True)
    main_loop = make_main_loop(first=[resume], stream=make_stream())
    scramble()
    main_loop.run()
    return outcome_of(main_loop)


def gone_on(how, path, make_stream):
    """Return the outcome of a run that goes on in one of these ways."""
    return continued(path) if how == "continue" else resumed(path, make_stream)
