"""The pickle of a log that was pickled before is the one that it would be anew."""

import copy
import gc
import io
import pickle
import sys
import weakref

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from blocks_checkpoint.miniblocks.log import TrainingLog
from blocks_checkpoint.pickling.array_table import ArrayTable
from blocks_checkpoint.pickling.log_cache import LogCache
from blocks_checkpoint.pickling.row_pickler import RowPickler, are_supported
from blocks_checkpoint.safe_unpickling.log_unpickler import load_log_pickle
from blocks_checkpoint.zip_pickler import PicklerSettings, ZipPickler

carries_over = pytest.mark.skipif(not are_supported(), reason="references are not counted")


def new_pickler(protocol=5, *, deep=False):
    settings = PicklerSettings(protocol)
    return ZipPickler(ArrayTable(), settings, deep=deep, self_contained=True)


def dump(cache, log, **options):
    return b"".join(cache.dump(log, new_pickler(**options)).pieces)


def plain(log, protocol=5):
    return pickle.dumps(log, protocol)


class Shape:
    """What a log consists of, and which of it is one object: comparable."""

    def __init__(self, log):
        self.numbers = {}
        self.kept = []
        self.found = self.of(log)

    def of(self, thing):
        if isinstance(thing, (dict, list, np.ndarray)):
            if id(thing) in self.numbers:
                return ("again", self.numbers[id(thing)])
            self.numbers[id(thing)] = len(self.numbers)
            self.kept.append(thing)
        if isinstance(thing, TrainingLog):
            rows = [(self.of(time), self.of(row)) for time, row in dict.items(thing)]
            return (type(thing), rows, self.of(vars(thing)))
        if isinstance(thing, dict):
            return (dict, [(self.of(key), self.of(value)) for key, value in thing.items()])
        if isinstance(thing, (list, tuple)):
            return (type(thing), [self.of(each) for each in thing])
        if isinstance(thing, np.ndarray):
            return (np.ndarray, thing.dtype, thing.shape, thing.tobytes())
        return (type(thing), repr(thing))


def assert_same(pickled, log):
    expected = Shape(pickle.loads(plain(log))).found
    assert Shape(pickle.loads(pickled)).found == expected
    assert Shape(pickle._loads(pickled)).found == expected
    assert Shape(load_log_pickle(pickled)).found == expected


def make_log(count):
    log = TrainingLog()
    for time in range(count):
        log[time].update(cost=1.0 / (time + 1), error=float(time))
    log.status["iterations_done"] = max(0, count - 1)
    return log


@pytest.mark.parametrize("count", [0, 1, 2, 9, 300, 9000])
def test_log_comes_back(count):
    log = make_log(count)
    cache = LogCache()
    assert_same(dump(cache, log), log)
    assert_same(dump(cache, log), log)


@carries_over
def test_rows_that_are_final_are_carried_over():
    log = make_log(20_000)
    cache = LogCache()
    first = cache.dump(log, new_pickler())
    for time in range(20_000, 20_100):
        log[time]["cost"] = 0.5
    second = cache.dump(log, new_pickler())
    kept = set(map(id, first.pieces))
    carried = sum(len(piece) for piece in second.pieces if id(piece) in kept)
    assert carried > 0.7 * sum(map(len, second.pieces))
    assert len(second.not_final) < 1000


def nested(log):
    log[3]["list"] = [1, [2]]


def hold_row(log):
    log.held = [log[3]]


CHANGES = {
    "nothing": lambda log: None,
    "value": lambda log: log[3].update(cost=2.0),
    "same-value-of-another-type": lambda log: log[3].update(error=3),
    "zero-that-is-negative": lambda log: log[0].update(error=-0.0),
    "new-record": lambda log: log[3].update(more=1.0),
    "record-removed": lambda log: log[3].pop("cost"),
    "records-in-another-order": lambda log: log[3].update(cost=log[3].pop("cost")),
    "row-replaced": lambda log: log.__setitem__(3, {"cost": 7.0}),
    "row-replaced-by-an-equal-one": lambda log: log.__setitem__(3, dict(log[3])),
    "row-added": lambda log: log[1000].update(cost=1.0),
    "row-added-out-of-order": lambda log: [log[time] for time in (99_999, 5_000, 70_000)],
    "row-deleted": lambda log: log.__delitem__(3),
    "last-row-deleted": lambda log: log.popitem(),
    "row-moved-to-the-end": lambda log: log.__setitem__(3, log.pop(3)),
    "all-rows-deleted": lambda log: log.clear(),
    "rows-swapped": lambda log: log.update({3: log[4], 4: log[3]}),
    "row-is-there-twice": lambda log: log.__setitem__(3, log[4]),
    "status": lambda log: log.status.update(best=0.1),
    "status-has-a-row": lambda log: log.status.update(best=log[3]),
    "status-has-the-log": lambda log: log.status.update(me=log),
    "row-has-the-log": lambda log: log[3].update(me=log),
    "row-has-the-status": lambda log: log[3].update(status=log.status),
    "identity": lambda log: log.resume(),
    "all-rows-through-values": lambda log: [row.update(b=2) for row in log.values()],
    "all-rows-through-dict": lambda log: dict(log)[3].update(b=2),
    "nested": nested,
    "key-of-numpy": lambda log: log[np.int64(1000)].update(a=1),
    "no-row": lambda log: log.__setitem__(3, None),
}


def make_unordered_log(count):
    log = TrainingLog()
    for time in [*range(count // 2, count), count * 2, *range(count // 2)]:
        log[time].update(cost=1.0 / (time + 1), error=float(time))
    return log


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("make", [make_log, make_unordered_log], ids=["ordered", "unordered"])
@pytest.mark.parametrize("protocol", [2, 5])
def test_change_since_the_last_save_is_noticed(change, make, protocol):
    log = make(250)
    cache = LogCache()
    dump(cache, log, protocol=protocol)
    change(log)
    assert_same(dump(cache, log, protocol=protocol), log)
    assert_same(dump(cache, log, protocol=protocol), log)


HOLDS = {
    "row": lambda log: log[3],
    "row-from-values": lambda log: list(log.values())[3],
    "row-from-items": lambda log: dict(log.items())[3],
    "row-of-status": lambda log: log.status.setdefault("row", log[3]),
}


@pytest.mark.parametrize("hold", HOLDS.values(), ids=HOLDS)
@pytest.mark.parametrize("saves_between", [0, 1, 5])
def test_change_of_a_row_that_was_held_since_before_the_last_save_is_noticed(hold, saves_between):
    log = make_log(500)
    cache = LogCache()
    dump(cache, log)
    row = hold(log)
    for _ in range(saves_between):
        dump(cache, log)
    row["cost"] = 5.0
    assert_same(dump(cache, log), log)
    row["cost"] = 6.0
    del row
    assert_same(dump(cache, log), log)


def test_change_of_a_view_iterator_or_item_held_since_before_the_last_save_is_noticed():
    log = make_log(20)
    cache = LogCache()
    dump(cache, log)
    values, items, iterator = log.values(), log.items(), iter(log.values())
    next(iterator)
    dump(cache, log)
    next(iterator)["a"] = 1
    assert_same(dump(cache, log), log)
    next(iter(values))["b"] = 2
    assert_same(dump(cache, log), log)
    next(iter(items))[1]["c"] = 3
    assert_same(dump(cache, log), log)


def test_change_in_place_of_what_is_in_a_row_is_noticed():
    log = make_log(20)
    kept, array, record = [1], np.arange(3.0), (np.arange(2),)
    log[1]["list"], log[2]["array"], log[3]["tuple"] = kept, array, record
    log[4]["own"] = np.arange(2.0)
    cache = LogCache()
    dump(cache, log)
    kept.append(2)
    array[1] = 7
    record[0][0] = 9
    log[4]["own"] += 1
    assert_same(dump(cache, log), log)


def test_row_in_the_place_of_one_that_is_gone_is_another():
    log = make_log(300)
    cache = LogCache()
    for number in range(20):
        dump(cache, log)
        del log[7]
        gc.collect()
        log[7] = {"cost": float(number)}
        assert_same(dump(cache, log), log)


def test_two_caches_of_one_log_do_not_disturb_each_other():
    log = make_log(50)
    caches = [LogCache(), LogCache()]
    for number in range(4):
        log[number]["a"] = number
        assert_same(dump(caches[number % 2], log), log)
    for cache in caches:
        assert_same(dump(cache, log), log)


def test_cache_follows_another_log():
    first, second = make_log(50), make_log(70)
    second[5]["cost"] = 100.0
    cache = LogCache()
    for log in (first, second, first):
        log[3]["a"] = 1
        assert_same(dump(cache, log), log)


def test_log_is_not_watched_for_a_cache_that_is_gone():
    log = make_log(5)
    cache = LogCache()
    dump(cache, log)
    del cache
    gc.collect()
    assert log._watches == ()


def test_failed_save_does_no_harm():
    log = make_log(50)
    cache = LogCache()
    dump(cache, log)
    log[3]["bad"] = lambda: None
    with pytest.raises((pickle.PicklingError, AttributeError)):
        dump(cache, log)
    del log[3]["bad"]
    log[4]["a"] = 1
    assert_same(dump(cache, log), log)


def test_interrupted_save_does_no_harm(monkeypatch):
    log = make_log(50)
    cache = LogCache()
    dump(cache, log)
    log[3]["a"] = 1

    def interrupt(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RowPickler, "pickle", interrupt)
        with pytest.raises(KeyboardInterrupt):
            dump(cache, log)
    assert_same(dump(cache, log), log)


def test_pickle_of_the_slow_pickler_is_the_same():
    log = make_log(50)
    log[3]["list"] = [1]
    cache = LogCache()
    assert_same(dump(cache, log, deep=True), log)
    assert_same(dump(cache, log, deep=True), log)


def test_pickles_are_read_one_after_another():
    log = make_log(50)
    log[3]["list"] = [1]
    file = io.BytesIO(dump(LogCache(), log) + pickle.dumps("next"))
    assert len(pickle.load(file)) == 50
    assert pickle.load(file) == "next"


class OwnLog(TrainingLog):
    """A log of the user's, with an attribute."""


class OwnWay(TrainingLog):
    """A log that pickles in a way of its own."""

    def __reduce__(self):
        return OwnWay, (), {**vars(self), "reduced": True}, None, iter([(1, {"only": 1})])


def test_log_of_a_subclass_comes_back():
    log = OwnLog()
    log[1]["a"] = 1
    log.more = [1]
    cache = LogCache()
    for _ in range(2):
        loaded = pickle.loads(dump(cache, log))
        assert (type(loaded), dict(loaded), loaded.more) == (OwnLog, {1: {"a": 1}}, [1])


@pytest.mark.parametrize("log", [OwnWay(), {1: {"a": 1}}, [1, 2]], ids=["own-way", "dict", "list"])
def test_other_logs_are_pickled_in_the_plain_way(log):
    cache = LogCache()
    assert cache.dump(log, new_pickler()).pieces == [new_pickler().dump(log)]
    assert cache.changeable(log) is None


def test_cache_travels_empty():
    log = make_log(5000)
    cache = LogCache()
    dump(cache, log)
    assert len(pickle.dumps(cache)) < 200
    assert_same(dump(copy.deepcopy(cache), log), log)


@carries_over
def test_rows_that_may_change_are_listed():
    log = make_log(100)
    log[20]["list"] = []
    held = log[30]
    cache = LogCache()
    assert cache.changeable(log) is None
    dump(cache, log)
    assert set(cache.changeable(log)) == {20, 30}
    log[40]["a"] = 1
    log[1000]["a"] = 1
    assert set(cache.changeable(log)) == {20, 30, 40, 1000}
    dump(cache, log)
    assert set(cache.changeable(log)) == {20, 30}
    del held, log[20]
    assert cache.changeable(log) is None


@carries_over
def test_what_is_not_final_is_told_apart():
    log = make_log(100)
    log[20]["which"] = ["mark of a list"]
    log[21]["which"] = "mark of a text"
    pickled = LogCache().dump(log, new_pickler())
    assert b"mark of a list" in pickled.not_final
    assert b"mark of a text" not in pickled.not_final
    assert b"mark of a text" in b"".join(pickled.pieces)


@pytest.mark.parametrize("unsupported", ["getrefcount", "gil"])
def test_interpreter_that_counts_no_references_pickles_in_the_plain_way(monkeypatch, unsupported):
    if unsupported == "gil":
        monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    else:
        module = sys.modules[are_supported.__module__]
        monkeypatch.setattr(module, "_LONELY", 0)
    log = make_log(100)
    cache = LogCache()
    assert cache.dump(log, new_pickler()).pieces == [new_pickler().dump(log)]


# Any sequence of edits and saves

SMALL = st.integers(0, 12)
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.sampled_from([0.0, -0.0, 1.0, "a", ("b", 1), (1, (2.0,))]),
    st.sampled_from(["list", "array", "numpy", "nested", "shared", "row", "view"]),
)


class Editor:
    """Does to a log what extensions may do, holding on to things for a while."""

    def __init__(self):
        self.log = TrainingLog()
        self.cache = LogCache()
        self.held = []
        self.shared = [0]

    def value(self, kind, time):
        makers = {
            "list": lambda: [time],
            "array": lambda: np.array(float(time)),
            "numpy": lambda: np.float32(time),
            "nested": lambda: {"deep": [time, ("t", [time])]},
            "shared": lambda: self.shared,
            "row": lambda: self.log[time],
            "view": lambda: self.hold(np.arange(4.0))[1:],
        }
        return makers[kind]() if isinstance(kind, str) and kind in makers else kind

    def hold(self, thing):
        self.held.append(thing)
        return thing

    def set(self, time, name, kind):
        self.log[time][name] = self.value(kind, time)

    def set_and_hold(self, time, name, kind):
        self.log[time][name] = self.hold(self.value(kind, time))

    def replace(self, time, name, kind):
        self.log[time] = {name: kind} if not isinstance(kind, str) else {}

    def hold_row(self, time, name, kind):
        self.hold(self.log[time])

    def alter_held(self, time, name, kind):
        for thing in self.held:
            if isinstance(thing, dict):
                thing[name] = time
            elif isinstance(thing, list):
                thing.append(time)
            elif isinstance(thing, np.ndarray):
                thing[...] = time

    def let_go(self, time, name, kind):
        self.held.clear()

    def delete(self, time, name, kind):
        self.log.pop(time, None)

    def delete_record(self, time, name, kind):
        self.log[time].pop(name, None)

    def alter_in_place(self, time, name, kind):
        value = self.log[time].get(name)
        if isinstance(value, np.ndarray):
            value += 1
        elif isinstance(value, list):
            value.append(time)

    def alias(self, time, name, kind):
        self.log[time] = self.log[time + 1]

    def put_into_status(self, time, name, kind):
        self.log.status[name] = self.value(kind, time)

    def pickle(self, time, name, kind):
        assert_same(dump(self.cache, self.log), self.log)


EDITS = [
    name for name in vars(Editor) if not name.startswith("_") and name not in ("value", "hold")
]


@hypothesis.settings(deadline=None, max_examples=100)
@hypothesis.given(
    st.lists(
        st.tuples(
            st.sampled_from([*EDITS, "pickle", "pickle"]), SMALL, st.sampled_from("ab"), VALUES
        ),
        max_size=30,
    )
)
def test_any_sequence_of_edits_and_saves_gives_the_log_as_it_is(edits):
    editor = Editor()
    for name, *arguments in edits:
        getattr(editor, name)(*arguments)
    editor.pickle(0, "a", None)
    editor.pickle(0, "a", None)


def test_cache_does_not_keep_what_was_in_rows():
    log = make_log(10)
    array = np.arange(3)
    log[3]["array"] = array
    cache = LogCache()
    dump(cache, log)
    reference = weakref.ref(array)
    del array, log[3]["array"]
    gc.collect()
    assert reference() is None
