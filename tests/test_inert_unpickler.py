"""The inert unpickler: what a pickle says, without what it does."""

import collections
import os
import pickle

import numpy as np
import pytest

from blocks_checkpoint.errors import DamagedCheckpoint
from blocks_checkpoint.miniblocks.log import TrainingLog
from blocks_checkpoint.safe_unpickling.inert_unpickler import Inert, InertClass, load_inert


class Thing:
    """Something that cannot be imported when the pickle is read."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Slotted:
    __slots__ = ("one", "two")


class Growing(list):
    pass


class Table(collections.OrderedDict):
    pass


class Called:
    def __reduce__(self):
        return os.path.join, ("a", "b")


class WithPersistentId(pickle.Pickler):
    def persistent_id(self, thing):
        return "#1numpy_ndarray.None.|mlp.W" if isinstance(thing, np.ndarray) else None


PROTOCOLS = pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))


@PROTOCOLS
def test_unknown_class_becomes_inert_with_its_state(protocol):
    inert = load_inert(pickle.dumps(Thing(a=1, b=[Thing()]), protocol))
    assert type(inert) is Inert
    assert inert.class_name == f"{Thing.__module__}.Thing"
    assert inert.attributes["a"] == 1
    assert type(inert.attributes["b"][0]) is Inert


@PROTOCOLS
def test_one_object_stays_one(protocol):
    thing = Thing()
    thing.itself = thing
    loaded = load_inert(pickle.dumps([thing, {"again": thing}], protocol))
    assert loaded[0] is loaded[1]["again"] is loaded[0].attributes["itself"]


def test_slots_are_attributes():
    thing = Slotted()
    thing.one, thing.two = 1, 2
    assert load_inert(pickle.dumps(thing, 2)).attributes == {"one": 1, "two": 2}


@PROTOCOLS
def test_items_of_a_container_class_are_kept(protocol):
    loaded = load_inert(pickle.dumps([Growing([1, 2]), Table(a=1)], max(protocol, 2)))
    assert loaded[0].items == [1, 2]
    assert loaded[1].items == [("a", 1)]


@PROTOCOLS
def test_function_is_not_called(protocol):
    inert = load_inert(pickle.dumps(Called(), protocol))
    assert type(inert.made_by) is InertClass
    assert inert.made_by.name == "posixpath.join"
    assert inert.args == ("a", "b")


def test_function_itself_is_a_name():
    assert repr(load_inert(pickle.dumps(os.path.join))) == "<inert posixpath.join>"


@PROTOCOLS
def test_plain_values_and_logs_are_themselves(protocol):
    log = TrainingLog()
    log[1]["cost"] = np.float32(0.5)
    values = {"log": log, "array": np.arange(3), "deque": collections.deque([1])}
    loaded = load_inert(pickle.dumps(Thing(**values), protocol)).attributes
    assert type(loaded["log"]) is TrainingLog
    assert loaded["log"][1] == {"cost": 0.5}
    assert loaded["array"].tolist() == [0, 1, 2]
    assert loaded["deque"] == values["deque"]


@PROTOCOLS
def test_array_of_objects_is_inert_and_stops_nothing(protocol):
    array = np.array([Thing(), None], dtype=object)
    loaded = load_inert(pickle.dumps([array, 7], protocol))
    assert type(loaded[0]) is Inert
    assert loaded[1] == 7


def test_inert_objects_can_be_keys_and_members():
    loaded = load_inert(pickle.dumps([{Thing(): 1, (Thing(), 2): 3}, {Thing()}]))
    assert sorted(loaded[0].values()) == [1, 3]
    assert len(loaded[1]) == 1


def test_persistent_ids_are_inert(tmp_path):
    path = tmp_path / "pkl"
    with open(path, "wb") as target:
        WithPersistentId(target, 2).dump([np.arange(3)])
    (inert,) = load_inert(path.read_bytes())
    assert inert.args == ("#1numpy_ndarray.None.|mlp.W",)


def test_instance_of_a_classic_class_of_python_2_is_inert():
    inert = load_inert(b"(imodule\nClassic\np0\n(dp1\nS'a'\nI1\nsb.")
    assert (inert.class_name, inert.attributes) == ("module.Classic", {"a": 1})


def test_representation_of_an_endless_structure_ends():
    thing = Thing()
    thing.itself = [thing]
    assert repr(load_inert(pickle.dumps(thing))).startswith("<inert object of ")


def test_damage_is_reported_with_its_place():
    with pytest.raises(DamagedCheckpoint) as caught:
        load_inert(pickle.dumps(Thing())[:-3], path="old.zip", member="pkl")
    assert str(caught.value).startswith("old.zip, member 'pkl': ")
