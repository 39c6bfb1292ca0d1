"""Ways to do to a run what only the test knows, none of which travels with it."""

import os

from drifting import At, Drift


def do_nothing(main_loop):
    """Stand in a checkpoint for what a test does."""


class Do(At):
    """Calls a function, any function, with the main loop at the times its triggers say."""

    def __getstate__(self):
        return {**self.__dict__, "function": do_nothing}


class SignalledDrift(Drift):
    """Gets signals in the midst of a batch.

    Parameters
    ----------
    parameters : list of shared variables
    signals : dict of int to list of int
        From the batch, counted from 1, to the signals that come in it.
    """

    def __init__(self, parameters, signals):
        super().__init__(parameters)
        self.signals = signals
        self.batches = 0

    def process_batch(self, batch):
        super().process_batch(batch)
        self.batches += 1
        for number in self.signals.get(self.batches, ()):
            os.kill(os.getpid(), number)
