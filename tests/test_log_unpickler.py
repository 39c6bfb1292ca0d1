"""The unpickler of training logs: what it reads, and what it refuses."""

import collections
import datetime
import decimal
import fractions
import importlib.util
import io
import os
import pathlib
import pickle
import subprocess
import sys
import types
import uuid
from pathlib import Path

import numpy as np
import pytest

from blocks_checkpoint.errors import (
    CheckpointError,
    DamagedCheckpoint,
    HostileCheckpoint,
    LoadError,
    RefusedClass,
)
from blocks_checkpoint.miniblocks.log import TrainingLog
from blocks_checkpoint.safe_unpickling.log_unpickler import load_log_pickle

PICKLES = Path(__file__).resolve().parent / "pickles"

VALUES = {
    "none": None,
    "bool": True,
    "small-int": 7,
    "large-int": 2**70,
    "negative-int": -(2**300),
    "float": 0.1,
    "infinity": float("inf"),
    "complex": 1 - 2j,
    "text": "é\n\ud800",
    "bytes": b"\xff\0",
    "bytearray": bytearray(b"ab"),
    "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
    "nested": {"a": [1, {"b": {2, 3}, "c": frozenset([4])}]},
    "tuple-key": {("a", (1, 2)): 3},
    "large-key": {2**100: 1},
    "slice": slice(1, None, 2),
    "range": range(3, 9, 2),
    "ellipsis": Ellipsis,
    "class": int,
    "numpy-class": np.float32,
    "ordered": collections.OrderedDict([("b", 1), ("a", 2)]),
    "defaultdict": collections.defaultdict(list, {1: [2]}),
    "deque": collections.deque([1, 2], 5),
    "uuid": uuid.UUID(int=2**100 + 7),
    "decimal": decimal.Decimal("1.5e100"),
    "fraction": fractions.Fraction(-1, 3),
    "date": datetime.date(2020, 2, 29),
    "datetime": datetime.datetime(2020, 2, 29, 3, 4, 5, 678901),
    "datetime-of-a-zone": datetime.datetime(2020, 2, 29, tzinfo=datetime.timezone.utc, fold=1),
    "time": datetime.time(1, 2, 3, 4, fold=1),
    "timedelta": datetime.timedelta(-3, 4, 5),
    "timezone": datetime.timezone(datetime.timedelta(hours=2), "here"),
    "path": pathlib.Path("a", "b.zip"),
    "float64": np.float64(0.1),
    "float32": np.float32(1.5),
    "longdouble": np.longdouble(3),
    "int8": np.int8(-3),
    "bool_": np.bool_(True),
    "str_": np.str_("abc"),
    "bytes_": np.bytes_(b"xy"),
    "datetime64": np.datetime64("2020-01-01"),
    "timedelta64": np.timedelta64(5, "ms"),
    "matrix": np.arange(6.0).reshape(2, 3),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "strided": np.arange(9)[::2],
    "transposed": np.arange(24).reshape(2, 3, 4).transpose(1, 0, 2),
    "empty": np.zeros((0, 3)),
    "0-d": np.array(5, "float32"),
    "big-endian": np.arange(3, dtype=">i4"),
    "records": np.array([(1, [2.5, 3.5])], dtype=[("a", "<i4"), ("b", "<f8", (2,))]),
    "aligned": np.zeros(2, np.dtype([("a", "i1"), ("b", "f8")], align=True)),
    "texts": np.array(["a", "bcd"]),
    "days": np.array(["2020-01-01"], "M8[D]"),
    "void": np.zeros((2,), "V5"),
    "dtype": np.dtype([("a", "<i4"), ("b", ">f4")]),
}

GENERATORS = {
    "RandomState": lambda: np.random.RandomState(3),
    **{
        name: lambda name=name: np.random.Generator(getattr(np.random, name)(3))
        for name in ("MT19937", "PCG64", "Philox", "SFC64")
    },
}


def assert_same(loaded, expected):
    assert type(loaded) is type(expected)
    if isinstance(expected, np.ndarray):
        assert loaded.dtype == expected.dtype
        assert loaded.shape == expected.shape
        assert loaded.tobytes("A") == expected.tobytes("A")
        assert loaded.flags.writeable
    else:
        assert loaded == expected


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("name", VALUES)
def test_value_comes_back_as_it_was(name, protocol):
    value = VALUES[name]
    content = pickle.dumps({"value": value, "again": value}, protocol)
    loaded = load_log_pickle(content)
    assert_same(loaded["value"], value)
    # Pickle has no memory for numbers.
    assert loaded["value"] is loaded["again"] or type(value) in (int, float)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("name", GENERATORS)
def test_generator_goes_on_where_it_was(name, protocol):
    generator = GENERATORS[name]()
    generator.random_sample(7) if name == "RandomState" else generator.random(7)
    content = pickle.dumps(generator, protocol)
    loaded = load_log_pickle(content)
    assert type(loaded) is type(generator)
    assert loaded.bytes(100) == generator.bytes(100)


def test_seed_sequence_spawns_the_children_that_are_due():
    seed = np.random.SeedSequence(4)
    seed.spawn(2)
    loaded = load_log_pickle(pickle.dumps(seed))
    assert loaded.spawn(1)[0].generate_state(2).tolist() == (
        seed.spawn(1)[0].generate_state(2).tolist()
    )


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_log_comes_back_with_its_identity(protocol):
    log = TrainingLog()
    log[0]["cost"] = np.float32(0.5)
    log[2]["saved_to"] = ("run.zip",)
    log.status["iterations_done"] = 2
    loaded = load_log_pickle(pickle.dumps(log, protocol))
    assert type(loaded) is TrainingLog
    assert dict(loaded) == {0: {"cost": 0.5}, 2: {"saved_to": ("run.zip",)}}
    assert (loaded.status, loaded.uuid) == (log.status, log.uuid)
    assert loaded.current_row is loaded[2]


@pytest.mark.parametrize("path", sorted(PICKLES.glob("*.pkl")), ids=lambda path: path.stem)
def test_log_of_another_python_and_numpy_is_read(path):
    spec = importlib.util.spec_from_file_location("make_log", PICKLES / "make_log.py")
    make_log = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_log)
    expected = make_log.values()
    with open(path, "rb") as source:
        log = load_log_pickle(source)
    # Blocks' own where Blocks is imported, else that of miniblocks.
    assert type(log).__name__ == "TrainingLog"
    assert log[0] == {"saved_to": ("here.zip",)}
    assert log.status == {"iterations_done": 8, "epochs_done": 2, "_epoch_ends": [4, 8]}
    assert log.uuid == uuid.UUID(int=2**100 + 7)
    assert set(log[8]) == set(expected)
    generator = expected.pop("generator")
    assert log[8]["generator"].bytes(100) == generator.bytes(100)
    for name, value in expected.items():
        assert_same(log[8][name], value)


def test_log_of_blocks_is_read_in_a_process_that_cannot_import_blocks_or_theano():
    script = """
import sys
for name in ("blocks", "theano", "pytensor", "aesara"):
    sys.modules[name] = None
from blocks_checkpoint.safe_unpickling.log_unpickler import load_log_pickle
with open(sys.argv[1], "rb") as source:
    print(load_log_pickle(source).status["iterations_done"])
"""
    path = PICKLES / "python-2.7-numpy-1.16-protocol-2.pkl"
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "8\n"


def test_log_of_blocks_is_blocks_own_where_blocks_is_imported(monkeypatch):
    class BlocksLog(collections.defaultdict):
        def __init__(self):
            super().__init__(dict)

    module = types.ModuleType("blocks.log")
    module.TrainingLog = BlocksLog
    monkeypatch.setitem(sys.modules, "blocks.log", module)
    with open(PICKLES / "python-2.7-numpy-1.16-protocol-2.pkl", "rb") as source:
        log = load_log_pickle(source)
    assert type(log) is BlocksLog
    assert log.status["epochs_done"] == 2


def test_sqlite_log_is_said_to_be_in_its_database():
    content = b"cblocks.log.sqlite\nSQLiteLog\n."
    with pytest.raises(LoadError, match="in its database"):
        load_log_pickle(content)


class Record:
    """What a user may have put into a log."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return type(other) is Record and other.value == self.value


class Slotted:
    __slots__ = ("value",)


class Growing(list):
    pass


class Table(dict):
    pass


class LogOfMine(TrainingLog):
    pass


def slotted():
    thing = Slotted()
    thing.value = 3
    return thing


def test_class_that_is_not_allowed_is_refused_by_name_with_the_cure():
    content = pickle.dumps({1: Record(2)})
    with pytest.raises(RefusedClass) as caught:
        load_log_pickle(content, path="run.zip")
    name = f"{Record.__module__}.Record"
    assert caught.value.refused == name
    for part in ("run.zip", "'log'", name, "allow=("):
        assert part in str(caught.value)


@pytest.mark.parametrize("by_name", [False, True], ids=["class", "name"])
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_class_that_is_allowed_is_read(by_name, protocol, monkeypatch):
    # Test modules are not always importable by name.
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__) or _this_module())
    allow = [f"{__name__}.Record"] if by_name else [Record]
    loaded = load_log_pickle(pickle.dumps({1: Record([2])}, protocol), allow=allow)
    assert loaded == {1: Record([2])}


def _this_module():
    module = types.ModuleType(__name__)
    module.__dict__.update(globals())
    return module


@pytest.mark.parametrize(
    ("make", "look"),
    [
        pytest.param(slotted, lambda thing: thing.value == 3, id="slots"),
        pytest.param(lambda: Growing([1, 2]), lambda thing: thing == [1, 2], id="list"),
        pytest.param(lambda: Table({1: 2}), lambda thing: thing == {1: 2}, id="dict"),
        pytest.param(LogOfMine, lambda thing: thing.status["epochs_done"] == 0, id="log"),
    ],
)
def test_allowed_class_of_another_shape_is_read(make, look):
    thing = make()
    loaded = load_log_pickle(pickle.dumps(thing, 2), allow=[type(thing)])
    assert type(loaded) is type(thing)
    assert look(loaded)


def test_allowing_a_class_allows_no_other():
    content = pickle.dumps([Record(1), Growing()])
    with pytest.raises(RefusedClass, match="Growing"):
        load_log_pickle(content, allow=[Record])


def test_allowed_name_that_is_not_there_is_reported():
    with pytest.raises(LoadError, match="cannot be imported"):
        load_log_pickle(b"cno_such_module\nRecord\n.", allow=["no_such_module.Record"])


def test_numbered_arrays_come_from_the_loader(tmp_path):
    from blocks_checkpoint.zip_pickler import array_reference

    arrays = {3: np.arange(2)}

    class Elsewhere:
        def __reduce__(self):
            return array_reference, (3,)

    content = pickle.dumps([Elsewhere(), Elsewhere()])
    loaded = load_log_pickle(content, array_loader=arrays.__getitem__)
    assert loaded[0] is loaded[1] is arrays[3]
    with pytest.raises(LoadError, match="array 3"):
        load_log_pickle(content)


@pytest.mark.parametrize("number", ["x", -1, 1.5, None])
def test_number_of_an_array_is_a_number(number):
    from blocks_checkpoint.zip_pickler import array_reference

    class Elsewhere:
        def __reduce__(self):
            return array_reference, (number,)

    with pytest.raises(CheckpointError):
        load_log_pickle(pickle.dumps(Elsewhere()), array_loader=lambda number: os.abort())


def test_object_array_is_refused_by_name():
    content = pickle.dumps(np.array([1, None], dtype=object))
    with pytest.raises(LoadError, match="array of Python objects"):
        load_log_pickle(content)


def test_path_and_member_are_in_every_error():
    with pytest.raises(DamagedCheckpoint) as caught:
        load_log_pickle(b"no pickle", path="run.zip", member="other")
    assert (caught.value.path, caught.value.member) == ("run.zip", "other")


def test_file_is_read_from_where_it_stands():
    content = pickle.dumps([1])
    source = io.BytesIO(b"before" + content)
    source.seek(6)
    assert load_log_pickle(source) == [1]


@pytest.mark.parametrize("unit", [b"\x8f", b"(\x91"], ids=["sets", "frozen-sets"])
def test_sets_without_number_are_refused_in_bounded_memory(unit):
    with pytest.raises(HostileCheckpoint, match="more sets than bytes"):
        load_log_pickle(b"\x80\x04" + unit * 200_000 + b".")


def test_many_sets_that_hold_something_are_read():
    sets = [{number} for number in range(20_000)]
    assert load_log_pickle(pickle.dumps(sets, 4)) == sets
