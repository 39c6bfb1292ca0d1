"""The collector rests while something large is built, and is as it was afterwards."""

import gc

import pytest

from blocks_checkpoint.garbage import no_garbage_collection


def test_collector_rests_and_works_again():
    with no_garbage_collection():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_collector_works_again_after_an_error():
    with pytest.raises(KeyError), no_garbage_collection():
        raise KeyError
    assert gc.isenabled()


def test_few_objects_are_built_as_ever():
    with no_garbage_collection(10):
        assert gc.isenabled()


def test_collector_that_somebody_stopped_stays_so():
    gc.disable()
    try:
        with no_garbage_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_somebody_froze_stays_frozen():
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with no_garbage_collection():
            built = [[] for _ in range(10)]
        # Some of what was frozen may be gone by now; thawed, none would be left.
        assert gc.get_freeze_count() > frozen // 2
        assert len(built) == 10
    finally:
        gc.unfreeze()
