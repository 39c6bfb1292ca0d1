"""Runs that break off at a batch and go on, compared with one that does not."""

import os
import random
import sys

import numpy
from drifting import make_main_loop, seen_by, values_of

from blocks_checkpoint import Checkpoint, Resume, continue_training
from blocks_checkpoint.miniblocks.extensions import TrainingExtension


class Broken(Exception):
    """What ends a run."""


#: What is to happen, by event and iterations done; each once.
FATE = {}


class Fate(TrainingExtension):
    """Lets happen what is to happen."""

    def dispatch(self, callback_name, *args):
        action = FATE.pop((str(callback_name), self.main_loop.status["iterations_done"]), None)
        if action is not None:
            action()


def fail():
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


def make_saving(path, make_stream, **kwargs):
    """Return a main loop that saves after every batch and epoch."""
    saving = Checkpoint(path, every_n_batches=1, after_epoch=True, **kwargs)
    return make_main_loop(saving, Fate(), stream=make_stream())


def saved_until(path, make_stream, iteration, *, at="before_batch", **kwargs):
    """Train until an iteration, saving after every batch and epoch, and break off."""
    main_loop = make_saving(path, make_stream, **kwargs)
    FATE[at, iteration] = fail
    try:
        main_loop.run()
    except Broken:
        scramble()
        return main_loop
    finally:
        FATE.clear()
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
