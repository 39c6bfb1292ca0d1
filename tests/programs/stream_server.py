"""Trains in a process of its own for each line of input, on streams of a module of ``support``.

The argument is the name of that module, which is imported once. A line is a
JSON object: ``begin`` (``start``, ``straight``, ``continue`` or ``resume``), the
``kind`` of stream, the ``path`` of the checkpoint, ``fate``, an event and an
iteration at which the process kills itself, or null, and ``result``, a file for
what the run came to. A line of output is the exit code.
"""

import importlib
import json
import multiprocessing
import os
import pickle
import signal
import sys
import warnings
from functools import partial

warnings.simplefilter("ignore")

import interrupted  # noqa: E402 - after the filter

from blocks_checkpoint import Resume, continue_training  # noqa: E402
from blocks_checkpoint.engines import current  # noqa: E402


def end_workers():
    """Kill those who would outlive this process, and with them the memory that they share."""
    # PyTorch raises an error as soon as it hears of the end of a worker.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for worker in multiprocessing.active_children():
        worker.kill()


def kill():
    end_workers()
    os.kill(os.getpid(), signal.SIGKILL)


def train(order, make_stream):
    """Begin as the order says, and train until the end or until fate strikes."""
    interrupted.scramble()
    if order["fate"]:
        interrupted.FATE[tuple(order["fate"])] = kill
    if order["begin"] == "continue":
        return continue_training(order["path"])
    if order["begin"] == "straight":
        main_loop = interrupted.make_main_loop(stream=make_stream())
    else:
        main_loop = interrupted.make_saving(order["path"], make_stream, on_failure="warn")
    if order["begin"] == "resume":
        resume = Resume(order["path"], load_log=True, load_iteration_state=True)
        main_loop.extensions.insert(0, resume)
        interrupted.scramble()
    main_loop.run()
    return main_loop


def run(order, streams):
    """Fork a process that trains; return how it ended."""
    process = os.fork()
    if not process:
        status = 1
        try:
            main_loop = train(order, partial(streams.make_stream, order["kind"]))
            outcome = interrupted.outcome_of(main_loop)
            with open(order["result"], "wb") as file:
                pickle.dump(outcome, file)
            status = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            sys.stderr.flush()
            end_workers()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def main():
    """Do what each line says."""
    # What libraries print must not be taken for answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    streams = importlib.import_module(sys.argv[1])
    # Not first by a thread of a loader's, while another is at it.
    current()
    for line in sys.stdin:
        print(run(json.loads(line), streams), file=answers, flush=True)


if __name__ == "__main__":
    main()
