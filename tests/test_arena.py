"""Copies of arrays, and the memory they are in."""

import os
import pickle
import threading
import zlib

import numpy as np
import pytest

from blocks_checkpoint import arena as arena_module
from blocks_checkpoint.arena import Arena

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

structured = np.zeros(5, dtype=np.dtype([("a", "u1"), ("b", "<f8")], align=True))
structured["b"] = np.arange(5)

ARRAYS = {
    "vector": np.arange(7.0),
    "matrix": np.arange(12, dtype=np.float32).reshape(3, 4),
    "fortran": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "scalar": np.array(3, dtype=np.int16),
    "empty": np.zeros((0, 3)),
    "every-other": np.arange(10)[::2],
    "backwards": np.arange(10)[::-1],
    "broadcast": np.broadcast_to(np.float64(1.5), (2, 3)),
    "turned": np.arange(24.0).reshape(2, 3, 4).transpose(1, 0, 2),
    "big-endian": np.arange(5, dtype=">i4"),
    "dates": np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"),
    "text": np.array(["one", "three"]),
    "bools": np.array([True, False, True]),
    "structured": structured,
    "large": np.random.RandomState(1).randint(0, 255, 17 << 20).astype(np.uint8),
    "large-fortran": np.asfortranarray(np.random.RandomState(2).rand(1100, 1000)),
    "large-every-other": np.random.RandomState(3).rand(1000, 500)[:, ::2],
    "large-long-rows": np.random.RandomState(4).rand(3, 400_000)[:, ::2],
    "large-structured": np.zeros(100_000, structured.dtype),
}
LARGE = [name for name in ARRAYS if name.startswith("large")]
if ml_dtypes is not None:
    ARRAYS["bfloat16"] = np.arange(5).astype(ml_dtypes.bfloat16)


def same(copy, original):
    return (
        copy.shape == original.shape
        and copy.dtype == original.dtype
        and copy.tobytes() == original.tobytes()
    )


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_copy_has_shape_dtype_and_values(array):
    (copy,) = Arena().copy([array]).arrays
    assert same(copy, array)
    assert not np.shares_memory(copy, array)


@pytest.mark.parametrize("name", ["matrix", "fortran", "turned"])
def test_copy_is_in_fortran_order_if_the_original_is_and_in_c_order_otherwise(name):
    (copy,) = Arena().copy([ARRAYS[name]]).arrays
    assert copy.flags.f_contiguous == (name == "fortran")
    assert copy.flags.c_contiguous == (name != "fortran")


def test_bytes_between_the_fields_of_a_structure_come_along():
    array = np.frombuffer(os.urandom(5 * structured.itemsize), dtype=structured.dtype)
    (copy,) = Arena().copy([array]).arrays
    assert copy.view(np.uint8).tobytes() == array.view(np.uint8).tobytes()


@pytest.mark.parametrize("name", LARGE)
def test_sum_of_a_large_copy_is_that_of_its_bytes_as_they_lie(name):
    copies = Arena().copy([ARRAYS["vector"], ARRAYS[name]])
    order = "F" if name == "large-fortran" else "C"
    assert copies.crcs == [None, zlib.crc32(ARRAYS[name].tobytes(order))]


def test_sums_are_of_the_copies_not_of_what_the_originals_became():
    array = ARRAYS["large"].copy()
    copies = Arena().copy([array])
    array[:] = 0
    assert copies.crcs == [zlib.crc32(copies.arrays[0])]


def test_nothing_is_summed_by_a_slow_library(monkeypatch):
    monkeypatch.setattr(arena_module, "_SUMS_ARE_CHEAP", False)
    copies = Arena().copy(ARRAYS.values())
    assert set(copies.crcs) == {None}
    assert all(map(same, copies.arrays, ARRAYS.values()))


@pytest.mark.parametrize("nbytes", [(256 << 10) + 1, (256 << 10) + 4096, 1 << 20])
def test_copies_of_more_than_256_kib_begin_at_a_page(nbytes):
    copies = Arena().copy([np.ones(3), np.ones(nbytes, "u1")] * 3)
    assert [copy.ctypes.data % 4096 for copy in copies.arrays[1::2]] == [0, 0, 0]


def test_many_arrays_stay_apart():
    arrays = list(ARRAYS.values()) * 3
    copies = Arena().copy(arrays)
    for copy in copies.arrays:
        copy[...] = np.zeros((), copy.dtype)
    again = Arena().copy(arrays)
    assert all(map(same, again.arrays, arrays))
    spans = sorted((copy.ctypes.data, copy.nbytes) for copy in again.arrays if copy.nbytes)
    assert all(start + size <= after for (start, size), (after, _) in zip(spans, spans[1:]))
    assert all(start % 64 == 0 for start, _ in spans)


def test_later_changes_do_not_reach_the_copy():
    array = np.arange(5.0)
    copies = Arena().copy([array])
    array += 1
    assert copies.arrays[0].tolist() == [0, 1, 2, 3, 4]


def address(copies):
    return copies.arrays[0].ctypes.data


def test_memory_is_used_again_once_it_is_given_back():
    arena = Arena()
    first = arena.copy([np.zeros(1000)])
    place = address(first)
    first.release()
    assert not first.arrays
    smaller = arena.copy([np.ones(900)])
    assert address(smaller) == place
    assert smaller.arrays[0].tolist() == [1] * 900


def test_memory_in_use_is_not_given_twice():
    arena = Arena()
    first = arena.copy([np.zeros(1000)])
    second = arena.copy([np.ones(1000)])
    assert not np.shares_memory(first.arrays[0], second.arrays[0])
    assert not first.arrays[0].any()


def test_memory_grows_and_the_larger_is_kept():
    arena = Arena()
    small, large = arena.copy([np.zeros(10)]), arena.copy([np.zeros(100)])
    large.release()
    small.release()
    assert arena.nbytes >= 800
    assert arena.copy([np.ones(300)]).arrays[0].all()


def test_copies_that_are_dropped_give_their_memory_back():
    arena = Arena()
    copies = arena.copy([np.zeros(1000)])
    place = address(copies)
    del copies
    assert address(arena.copy([np.zeros(1000)])) == place


def test_releasing_twice_gives_back_once():
    arena = Arena()
    first = arena.copy([np.zeros(1000)])
    first.release()
    second = arena.copy([np.zeros(1000)])
    first.release()
    third = arena.copy([np.zeros(1000)])
    assert not np.shares_memory(second.arrays[0], third.arrays[0])


def test_prepared_memory_is_what_copies_get():
    arena = Arena()
    arena.prepare(9 << 20)
    assert arena.nbytes >= 9 << 20
    arena.copy([np.zeros(1 << 20)])
    assert arena.nbytes >= 9 << 20


def test_cleared_arena_keeps_nothing_but_what_is_in_use():
    arena = Arena()
    arena.copy([np.zeros(1000)]).release()
    copies = arena.copy([np.arange(10)])
    arena.clear()
    assert arena.nbytes == 0
    assert copies.arrays[0].tolist() == list(range(10))


def test_no_array_is_no_copy():
    copies = Arena().copy([])
    assert copies.arrays == []
    copies.release()


def test_arena_travels_without_its_memory():
    arena = Arena()
    arena.prepare(1000)
    assert len(pickle.dumps(arena)) < 200
    assert pickle.loads(pickle.dumps(arena)).nbytes == 0


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_process_gets_memory_though_a_thread_held_the_lock():
    arena = Arena()
    held, done = threading.Event(), threading.Event()

    def hold():
        with arena._guard():
            held.set()
            done.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(30)
    child = os.fork()
    if not child:
        try:
            os._exit(0 if arena.copy([np.arange(3)]).arrays[0].tolist() == [0, 1, 2] else 1)
        finally:
            os._exit(2)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
