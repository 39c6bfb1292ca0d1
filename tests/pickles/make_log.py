"""Write the log of the README to a file: ``python make_log.py PROTOCOL FILE``.

Runs on Python 2.7 and later.
"""

import collections
import datetime
import pickle
import sys
import types
import uuid

import numpy


class TrainingLog(collections.defaultdict):
    """Pickles as the log of Blocks does."""

    def __init__(self):
        collections.defaultdict.__init__(self, dict)
        self.status = {}
        self.uuid = uuid.UUID(int=2**100 + 7)

    def __reduce__(self):
        reduced = super(TrainingLog, self).__reduce__()  # noqa: UP008 - runs on Python 2
        return (reduced[0], (), self.__dict__, reduced[3], reduced[4])


def values():
    """Return the values of row 8 of the log, by name."""
    return {
        "float": 0.1,
        "long": 2**80,
        "text": b"caf\xc3\xa9".decode("utf-8"),
        "list": [1, (2, 3), {"four": None}],
        "set": {1, 2},
        "slice": slice(1, None, 2),
        "complex": 1 - 2j,
        "ordered": collections.OrderedDict([("b", 1), ("a", 2)]),
        "deque": collections.deque([1, 2], 3),
        "counts": collections.defaultdict(int, {"a": 1}),
        "date": datetime.datetime(2016, 2, 29, 23, 59, 58, 123456),
        "float32": numpy.float32(1.5),
        "int64": numpy.int64(-3),
        "bool_": numpy.bool_(True),
        "text_": numpy.array([b"ab".decode("ascii")])[0],
        "day": numpy.datetime64("2016-02-29"),
        "matrix": numpy.arange(6.0).reshape(2, 3),
        "fortran": numpy.asfortranarray(numpy.arange(6.0).reshape(2, 3)),
        "big_endian": numpy.arange(3, dtype=">i4"),
        "scalar_array": numpy.array(2.5, dtype="float32"),
        "empty": numpy.zeros((0, 3)),
        "records": numpy.array([(1, 2.5), (3, 4.5)], dtype=[("a", "<i4"), ("b", "<f8")]),
        "generator": numpy.random.RandomState(3),
    }


def make_log():
    """Return the log."""
    log = TrainingLog()
    log[0]["saved_to"] = ("here.zip",)
    log[8].update(values())
    log.status.update(iterations_done=8, epochs_done=2, _epoch_ends=[4, 8])
    return log


if __name__ == "__main__":
    for name in ("blocks", "blocks.log", "blocks.log.log"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["blocks.log.log"].TrainingLog = TrainingLog
    TrainingLog.__module__ = "blocks.log.log"
    with open(sys.argv[2], "wb") as destination:
        pickle.dump(make_log(), destination, int(sys.argv[1]))
