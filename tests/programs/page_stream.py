"""Trains on the stream of a module that is in the present folder; prints what comes of it.

Arguments: the module, and ``straight``; or ``until N`` to save and to kill
itself when N batches are done; or ``continue``, or ``resume``.
"""

import importlib
import os
import random
import signal
import sys

import numpy
from drifting import Drift, make_model, values_of

from blocks_checkpoint import Checkpoint, Resume, continue_training
from blocks_checkpoint.miniblocks.extensions import FinishAfter, TrainingExtension
from blocks_checkpoint.miniblocks.main_loop import MainLoop

PATH = "run.zip"


class KillAt(TrainingExtension):
    """Ends the process when so many batches are done, and the next one is there."""

    def __init__(self, batches):
        super().__init__()
        self.batches = batches

    def __getstate__(self):
        return {**self.__dict__, "batches": None}

    def dispatch(self, callback_name, *args):
        done = self.main_loop.status["iterations_done"]
        if str(callback_name) == "before_batch" and done == self.batches:
            os.kill(os.getpid(), signal.SIGKILL)


def make_main_loop(make_stream, *extensions):
    random.seed(5)
    numpy.random.seed(5)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(5)
    model = make_model()
    end = FinishAfter(after_n_epochs=3)
    return MainLoop(
        Drift(model.parameters), make_stream(), model=model, extensions=[*extensions, end]
    )


def main(module, how, batches="0"):
    make_stream = importlib.import_module(module).make_stream
    if how == "continue":
        main_loop = continue_training(PATH)
    else:
        extensions = {
            "straight": list,
            "until": lambda: [Checkpoint(PATH, every_n_batches=1), KillAt(int(batches))],
            "resume": lambda: [Resume(PATH, load_log=True, load_iteration_state=True)],
        }[how]()
        main_loop = make_main_loop(make_stream, *extensions)
        main_loop.run()
    for name, value in sorted(values_of(main_loop).items()):
        print(name, value.tobytes().hex())


if __name__ == "__main__":
    sys.path.insert(0, os.getcwd())
    main(*sys.argv[1:])
