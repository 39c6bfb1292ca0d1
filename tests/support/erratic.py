"""Parts of a main loop that do something else each time that it is run."""

import os

import drifting

from blocks_checkpoint.miniblocks.extensions import SimpleExtension
from blocks_checkpoint.miniblocks.transformers import Transformer


def noise():
    """Return a number that no state determines."""
    return int.from_bytes(os.urandom(6), "little") / 2**48


class AtBatch:
    """A predicate that holds after so many batches."""

    def __init__(self, number):
        self.number = number

    def __call__(self, log):
        return log.status["iterations_done"] == self.number


class Erratic(SimpleExtension):
    """Changes a parameter by noise, once."""

    def __init__(self, at, **triggers):
        super().__init__(**triggers)
        self.at = at

    def do(self, which_callback, *args):
        if self.main_loop.status["iterations_done"] == self.at:
            parameter = self.main_loop.algorithm.parameters[0]
            value = parameter.get_value()
            parameter.set_value((value + noise()).astype(value.dtype))


class ErraticRecord(Erratic):
    """Writes noise into the log, once."""

    def do(self, which_callback, *args):
        if self.main_loop.status["iterations_done"] == self.at:
            self.main_loop.log.current_row["noise"] = noise()


class ErraticStream(Transformer):
    """Adds noise to one batch."""

    def __init__(self, at):
        super().__init__(drifting.make_stream())
        self.at = at
        self.count = 0

    def transform(self, data):
        self.count += 1
        if self.count < self.at:
            return data
        data = dict(zip(self.sources, data))
        data["features"] = data["features"] + noise()
        return tuple([data[source] for source in self.sources])


class Vanishing:
    """Can be unpickled in the process that pickled it only."""

    def __init__(self):
        self.process = os.getpid()

    def __setstate__(self, state):
        if state["process"] != os.getpid():
            raise RuntimeError("it is gone in this process")
        self.__dict__.update(state)
