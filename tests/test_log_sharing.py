"""Parts of a log that something else holds: found, named, and one object after loading."""

import pickle

import numpy as np
import pytest

from blocks_checkpoint.miniblocks.log import TrainingLog
from blocks_checkpoint.pickling.log_sharing import find_part, shared_parts


@pytest.fixture
def log():
    log = TrainingLog()
    for time in range(100):
        log[time]["cost"] = time / 7
        log[time]["name"] = f"row {time}"
    log.status["iterations_done"] = 99
    return log


def found_in(log):
    """Return the parts that are found, without the log's own that nobody holds."""
    return shared_parts(log)


def test_a_log_that_nobody_holds_a_part_of_has_none(log):
    log[5]["list"] = [1, {"a": [2]}]
    log[6]["array"] = np.arange(3.0)
    log.status["mine"] = {"a": [1]}
    assert found_in(log) == []


HOLD = {
    "status": (lambda log: log.status, ("attribute", "status")),
    "list-in-the-status": (lambda log: log.status["_epoch_ends"], None),
    "first-row": (lambda log: log[0], ("row", 0)),
    "row-in-the-middle": (lambda log: log[50], ("row", 50)),
    "row-of-containers": (lambda log: log[51], ("row", 51)),
    "list-in-a-row": (lambda log: log[51]["list"], ("row", 51, 2)),
    "dictionary-in-a-list": (lambda log: log[51]["list"][1], ("row", 51, 2, 1)),
    "list-in-a-dictionary-in-a-list": (lambda log: log[51]["list"][1]["a"], ("row", 51, 2, 1, 0)),
    "object": (lambda log: log[52]["object"], ("row", 52, 2)),
    "set": (lambda log: log[52]["set"], ("row", 52, 3)),
    "tuple-with-a-list": (lambda log: log[52]["tuple"], ("row", 52, 4)),
    "list-in-a-tuple": (lambda log: log[52]["tuple"][0], ("row", 52, 4, 0)),
}


class Anything:
    pass


@pytest.mark.parametrize(("get", "way"), HOLD.values(), ids=HOLD)
def test_a_part_that_is_held_is_found_and_found_again(log, get, way):
    log[51]["list"] = [1, {"a": [2]}]
    log[52].update(object=Anything(), set={1}, tuple=([1], 2))
    held = get(log)
    ((found_way, found),) = found_in(log)
    assert found is held
    assert way is None or found_way == way
    del found
    again = pickle.loads(pickle.dumps(log))
    assert find_part(again, found_way) is get(again)
    assert find_part(again, list(found_way)) is get(again)


def test_a_part_within_a_part_that_is_held_is_found_as_well(log):
    log[51]["list"] = [1, {"a": [2]}]
    row, inner = log[51], log[51]["list"][1]["a"]
    ways = dict(found_in(log))
    assert ways[("row", 51)] is row
    assert ways[("row", 51, 2, 1, 0)] is inner


def test_a_part_that_is_in_several_places_of_the_log_is_listed_once(log):
    log[7]["status"] = log.status
    log[8]["row"] = log[7]
    held = log[8]["list"] = log[9]["list"] = [1]
    parts = [part for _, part in found_in(log)]
    assert len(parts) == len(set(map(id, parts))) == 3
    assert any(part is held for part in parts)


def test_containers_that_hold_themselves_end_the_search(log):
    circle = []
    circle.append(circle)
    log[7]["circle"] = circle
    log[8]["log"] = log
    assert ("row", 7, 2) in dict(found_in(log))


def test_only_what_a_dictionary_holds_in_memory_is_looked_at():
    assert shared_parts(object()) == []
    assert shared_parts(None) == []


def test_rows_may_have_any_whole_number_as_their_time():
    log = TrainingLog()
    time = np.int64(3)
    log[time]["a"] = 1
    row = log[3]
    assert [(tuple(map(str, way)), part) for way, part in found_in(log)] == [(("row", "3"), row)]


def test_a_log_of_many_rows_of_which_one_is_held():
    log = TrainingLog()
    for time in range(50_000):
        log[time]["cost"] = 0.5
    row = log[31_415]
    assert [way for way, _ in found_in(log)] == [("row", 31_415)]
    assert row == {"cost": 0.5}
