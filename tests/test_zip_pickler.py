"""The pickler: protocols, persistent ids, references, and the speed of C."""

import gc
import io
import pickle
import pickletools
import weakref
import zipfile
from contextlib import nullcontext

import numpy as np
import pytest
from drifting import make_main_loop

from blocks_checkpoint import dump, load, load_main_loop, open_checkpoint
from blocks_checkpoint.errors import LoadError, SaveError, UnpicklableError
from blocks_checkpoint.pickling.array_table import ArrayTable
from blocks_checkpoint.zip_pickler import (
    AlreadyPickled,
    PicklerSettings,
    ZipPickler,
    array_reference,
    device_array_reference,
    member_reference,
)
from blocks_checkpoint.zip_unpickler import ZipUnpickler

PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)


class Thing:
    """A plain object."""

    class Inner:
        """A class within a class."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)

    def method(self):
        return self


class Slotted:
    """An object without a dictionary."""

    __slots__ = ("value",)


def saved(thing, **options):
    file = io.BytesIO()
    dump(thing, file, **options)
    return file


def pickle_of(file, member="pkl"):
    with open_checkpoint(file) as checkpoint:
        return checkpoint.archive.read(member)


def make_things():
    thing = Thing(é="ü", text="line\nline\0\ud800", number=1 << 70, none=None)
    return {
        "thing": thing,
        "method": thing.method,
        "builtin-method": [3].index,
        "classes": [Thing, Thing.Inner, dict, type(None)],
        "inner": Thing.Inner(),
        "containers": [{1, 2}, frozenset([3]), (1, [2]), range(3), slice(1, 2), 1j, ..., object()],
        "bytes": [b"\x00\xff", bytearray(b"a")],
        "numbers": [np.float32(0.1), np.int64(3), np.bool_(True), np.datetime64("2020-01-01")],
        "array": np.arange(3.0),
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("deep", [False, True])
def test_every_protocol_holds_everything(protocol, deep):
    table = ArrayTable()
    pickled = ZipPickler(table, PicklerSettings(protocol), deep=deep).dump(make_things())
    again = ZipUnpickler([pickled], lambda number: np.arange(3.0)).load()
    expected = make_things()
    assert again.keys() == expected.keys()
    assert vars(again["thing"]) == vars(expected["thing"])
    assert again["method"]() is again["thing"]
    assert again["classes"] == expected["classes"]
    assert type(again["inner"]) is Thing.Inner
    assert again["containers"][:-1] == expected["containers"][:-1]
    assert again["bytes"] == expected["bytes"]
    assert again["numbers"] == expected["numbers"]
    assert list(map(type, again["numbers"])) == list(map(type, expected["numbers"]))
    assert all(opcode.proto <= protocol for opcode, _, _ in pickletools.genops(pickled))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_object_with_slots_is_refused_by_name_where_the_protocol_does_not_hold_it(protocol):
    slotted = Slotted()
    slotted.value = [1]
    if protocol > 1:
        assert load(saved([slotted], protocol=protocol))[0].value == [1]
        return
    with pytest.raises(UnpicklableError, match=r"object\[0\] is a .*Slotted: .*__slots__"):
        saved([slotted], protocol=protocol)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_main_loop_can_be_saved_with_every_protocol(protocol, tmp_path):
    main_loop = make_main_loop(epochs=1)
    main_loop.run()
    dump(main_loop, tmp_path / "made.zip", protocol=protocol)
    again = load_main_loop(tmp_path / "made.zip")
    for one, other in zip(main_loop.model.parameters, again.model.parameters):
        assert np.array_equal(one.get_value(), other.get_value())
    assert again.log.status is again.status
    assert dict(again.log) == dict(main_loop.log)


def test_protocol_5_is_the_default():
    for options in ({}, {"protocol": None}, {"protocol": -1}):
        content = pickle_of(saved(Thing(), **options))
        assert next(pickletools.genops(content))[1] == 5


@pytest.mark.parametrize("protocol", [6, 99, "5", 2.0])
def test_a_protocol_that_there_is_not_is_refused_by_name(protocol, tmp_path):
    with pytest.raises(SaveError, match=f"protocol is {protocol!r}; this Python has 0 to 5"):
        dump(Thing(), tmp_path / "made.zip", protocol=protocol)
    assert list(tmp_path.iterdir()) == []


def test_a_protocol_that_does_not_hold_the_data_is_refused_by_name(tmp_path):
    # Zeros that are never written to take up no memory.
    thing = Thing(huge=[bytes((1 << 32) + 1)])
    with pytest.raises(UnpicklableError) as caught:
        dump(thing, tmp_path / "made.zip", protocol=3)
    assert "object.huge[0] is a bytes: it has 4294967297 bytes" in str(caught.value)
    assert "protocol 3 holds 4294967295 in one piece at most; ask for protocol 4 or 5" in str(
        caught.value
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_large_arrays_fit_every_protocol_because_they_are_in_no_pickle(protocol):
    file = saved([np.zeros(1_000_000)], protocol=protocol)
    assert len(pickle_of(file)) < 1_000
    assert not load(file)[0].any()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_persistent_id_of_the_user_s_is_honoured(protocol):
    data, large = Thing(), np.zeros(20_000)

    def persistent_id(thing):
        return {id(data): "the data", id(large): "the large"}.get(id(thing))

    thing = Thing(data=data, large=large, small=np.arange(3.0))
    file = saved(thing, protocol=protocol, persistent_id=persistent_id)
    again = load(file, persistent_load=lambda identity: f"<{identity}>")
    assert (again.data, again.large) == ("<the data>", "<the large>")
    assert again.small.tolist() == [0, 1, 2]
    with zipfile.ZipFile(file) as archive:
        assert not any(name.endswith(".npy") for name in archive.namelist())


def test_a_persistent_id_of_the_user_s_is_honoured_in_deep_graphs():
    deep = None
    for _ in range(20_000):
        deep = [deep]
    data = Thing()
    file = saved([data, deep], persistent_id=lambda thing: 7 if thing is data else None)
    assert load(file, persistent_load=lambda identity: identity)[0] == 7


def test_a_persistent_id_without_anyone_to_load_it_is_named():
    file = saved(Thing(a=1), persistent_id=lambda thing: "me" if type(thing) is Thing else None)
    with pytest.raises(LoadError, match="persistent id 'me', and no persistent_load was given"):
        load(file)


def test_a_pickle_taken_out_of_its_file_says_where_its_arrays_are():
    content = pickle_of(saved([np.arange(3.0)]))
    with pytest.raises(LoadError, match=r"array 0 of the checkpoint.*open_checkpoint"):
        pickle.loads(content)
    for refer, args in (
        (array_reference, (3,)),
        (device_array_reference, (3, "Gpu")),
        (member_reference, ("log",)),
    ):
        with pytest.raises(LoadError, match="Read it with blocks_checkpoint"):
            refer(*args)


def test_what_the_first_of_a_chain_holds_the_second_refers_to():
    pickler = ZipPickler(ArrayTable(), PicklerSettings())
    shared = Thing(value=[1])
    pickles = [pickler.dump([shared]), pickler.dump({"again": shared})]
    unpickler = ZipUnpickler(pickles, lambda number: None)
    first, second = unpickler.load(), unpickler.load()
    assert second["again"] is first[0]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("deep", [False, True])
def test_exports_are_asked_for_by_the_way_to_them(protocol, deep):
    pickler = ZipPickler(ArrayTable(), PicklerSettings(protocol), deep=deep)
    elsewhere = [Thing(), {"a": 1}, Thing()]
    exports = [(("place", index), thing) for index, thing in enumerate(elsewhere)]
    pickles = [
        pickler.dump([1, [2]]),
        pickler.note_exports(exports),
        pickler.dump([elsewhere[2], elsewhere[0], [3], elsewhere[1]]),
        pickler.dump([elsewhere[1], [4]]),
    ]
    unpickler = ZipUnpickler(pickles, lambda number: None)
    assert unpickler.load() == [1, [2]]
    unpickler.load_exports(lambda way: elsewhere[way[1]])
    third, last = unpickler.load(), unpickler.load()
    assert [third[0] is elsewhere[2], third[1] is elsewhere[0], third[3] is elsewhere[1]] == [
        True,
        True,
        True,
    ]
    assert third[2] == [3]
    assert last[0] is elsewhere[1]
    assert last[1] == [4]


def test_what_is_in_the_chain_cannot_be_exported():
    pickler = ZipPickler(ArrayTable(), PicklerSettings())
    thing = Thing()
    pickler.dump([thing])
    with pytest.raises(AlreadyPickled):
        pickler.note_exports([(("x",), thing)])


class Failing:
    """Cannot be rebuilt."""

    def __reduce__(self):
        return fail, ()


def fail():
    raise ZeroDivisionError("on purpose")


@pytest.mark.parametrize("thing", [Thing(), Failing()])
@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_as_it_was_after_loading(thing, enabled):
    file = saved([thing])
    was_enabled, frozen = gc.isenabled(), gc.get_freeze_count()
    fails = isinstance(thing, Failing)
    try:
        (gc.enable if enabled else gc.disable)()
        with pytest.raises(LoadError, match="on purpose") if fails else nullcontext():
            load(file)
        assert gc.isenabled() == enabled
        assert gc.get_freeze_count() == frozen
    finally:
        (gc.enable if was_enabled else gc.disable)()


def test_garbage_among_what_was_loaded_is_still_collected():
    circle = []
    circle.append(circle)
    again = load(saved([circle, Thing()]))
    watched = again[1]
    watched.circle = again[0]
    again[0].append(watched)
    gc.collect()
    before = len(gc.get_objects())
    del again, watched
    assert gc.collect() > 0
    assert len(gc.get_objects()) < before


@pytest.mark.parametrize("options", [{}, {"persistent_id": lambda thing: None}])
def test_a_save_keeps_nothing_alive(options):
    deep = None
    for _ in range(3_000):
        deep = [deep]
    gc.collect()
    gc.disable()
    try:
        for extra in (None, deep):
            thing, array = Thing(extra=extra), np.arange(20_000.0)
            saved([thing, array, array[3:]], **options)
            watched = weakref.ref(thing), weakref.ref(array)
            del thing, array
            assert [reference() for reference in watched] == [None, None]
    finally:
        gc.enable()


def test_objects_that_are_no_arrays_never_call_python(monkeypatch):
    """The C pickler asks no Python function about objects of other types."""
    pickler = ZipPickler(ArrayTable(), PicklerSettings())
    calls = []
    for cls, reduce in list(pickler.reducers.items()):
        pickler.reducers[cls] = lambda thing, r=reduce, c=cls: calls.append(c) or r(thing)
    pickler.dump([[Thing(a=1.5, b="c", d=[None]) for _ in range(100)], np.arange(3.0)])
    assert calls == [np.ndarray]
    assert type(pickler._pickler) is pickle.Pickler
    assert type(pickler._pickler.dispatch_table) is dict


def test_signal_handlers_do_not_travel():
    main_loop = make_main_loop(epochs=1)
    main_loop.original_sigint_handler = lambda *args: None
    main_loop.original_sigterm_handler = main_loop.original_sigint_handler
    again = load(saved(main_loop))
    assert "original_sigint_handler" not in vars(again)
    assert "original_sigterm_handler" not in vars(again)


def test_two_saves_of_one_state_are_alike_but_for_the_manifest():
    main_loop = make_main_loop(epochs=1)
    main_loop.run()
    members = []
    for _ in range(2):
        with zipfile.ZipFile(saved(main_loop)) as archive:
            members.append({n: archive.read(n) for n in archive.namelist() if n[-5:] != ".json"})
    assert members[0] == members[1]
