"""Trains the thorough main loop in a process of its own for each line of input.

A line is a JSON object that says how to begin (``start``, ``continue`` or
``resume``), where to save, and what is to happen to the process and when; see
:func:`train`. A line of output says how the process ended. A run that comes
to its end leaves beside its checkpoint what there is to compare.

The engine compiles nothing here: ``PYTENSOR_FLAGS`` or ``THEANO_FLAGS`` say so.
"""

import hashlib
import json
import os
import pickle
import random
import signal
import sys
import warnings

import numpy

warnings.simplefilter("ignore")

import thorough  # noqa: E402 - after the filter

from blocks_checkpoint import Checkpoint, Resume, continue_training, open_checkpoint  # noqa: E402

#: Exit codes, beside 0 for a run that has come to its end and 1 for a fault.
BROKEN, INTERRUPTED = 2, 3


class Broken(Exception):
    """What a batch fails with."""


def fail():
    raise Broken


def send(*numbers):
    def action():
        for number in numbers:
            os.kill(os.getpid(), number)

    return action


ACTIONS = {
    "error": fail,
    "interrupt": send(signal.SIGINT),
    "interrupt-twice": send(signal.SIGINT, signal.SIGINT),
    "terminate": send(signal.SIGTERM),
    "kill": send(signal.SIGKILL),
}


def savers_of(order):
    """Make the ``Checkpoint``s: one for each path, with the triggers that are given."""
    return [Checkpoint(path, **triggers) for path, triggers in order["savers"]]


def train(order):
    """Begin as the order says, and train until the end or until fate strikes.

    Parameters
    ----------
    order : dict
        ``begin``: ``start``, ``continue`` or ``resume``; ``loop``: arguments of
        ``make_main_loop``; ``savers``: pairs of path and triggers; ``source``: the
        file to go on from; ``fate``: triples of event, iteration and action.
    """
    for event, time, action in order.get("fate", ()):
        thorough.FATE[event, time] = ACTIONS[action]
    # Whoever does not put the generators back goes on with these.
    scramble()
    if order["begin"] == "continue":
        return continue_training(order["source"])
    first = []
    if order["begin"] == "resume":
        first = [Resume(order["source"], load_log=True, load_iteration_state=True)]
    main_loop = thorough.make_main_loop(*savers_of(order), first=first, **order["loop"])
    if order["begin"] == "resume":
        scramble()
    main_loop.run()
    return main_loop


def was_interrupted(main_loop):
    """Tell whether a signal ended the run before its end."""
    return not main_loop.log.current_row.get("training_finish_requested")


def scramble():
    """Put the global generators into a state that no run has them in."""
    random.seed(os.getpid())
    numpy.random.seed(os.getpid())


def what_there_is(main_loop, path):
    """Return everything that is to be the same in two runs that are the same.

    Generators are compared by what they draw, and the stream by the batch it
    gives, after the end of the run.
    """
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.verify() == []
        arrays = {name: describe(checkpoint.arrays[name]) for name in checkpoint.arrays}
        saved = thorough.comparable_log(checkpoint.log())
    rows, status = thorough.comparable_log(main_loop.log)
    assert saved == (rows, status)
    (witness,) = [each for each in main_loop.extensions if isinstance(each, thorough.Witness)]
    later = [next(main_loop.data_stream.get_epoch_iterator(as_dict=True)) for _ in range(2)]
    witness.main_loop.log.current_row.clear()
    witness.do("after_batch", later[-1])
    later_row = dict(main_loop.log.current_row)
    return {"arrays": arrays, "rows": rows, "status": status, "later": later_row}


def describe(array):
    return array.dtype.str, array.shape, hashlib.sha256(array.tobytes()).hexdigest()


def run(order):
    """Fork a process that trains; return how it ended."""
    process = os.fork()
    if not process:
        status = 1
        try:
            sys.stdin.close()
            main_loop = train(order)
            if was_interrupted(main_loop):
                status = INTERRUPTED
            else:
                with open(order["result"], "wb") as file:
                    pickle.dump(what_there_is(main_loop, order["savers"][0][0]), file)
                status = 0
        except Broken:
            status = BROKEN
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def main():
    """Do what each line says."""
    # What extensions print must not be taken for answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        print(run(json.loads(line)), file=answers, flush=True)


if __name__ == "__main__":
    main()
