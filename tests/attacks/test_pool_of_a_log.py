"""The arrays behind a log, described by a stranger: memory that is not there, or is no array."""

import io
import json
import pickle

import numpy as np
import pytest
from forged import memory_within

from blocks_checkpoint import open_checkpoint
from blocks_checkpoint.archive import ArchiveWriter
from blocks_checkpoint.errors import LoadError
from blocks_checkpoint.zip_pickler import array_reference

F8 = np.dtype("<f8")
STORED = np.arange(4.0)
ROW = {
    "name": "W",
    "parameter_name": "W",
    "member": "W.npy",
    "dtype": "<f8",
    "shape": [4],
    "order": "C",
    "kind": "array",
    "id": 0,
}


class Reference:
    """What stands in a pickle for array 1."""

    def __reduce__(self):
        return array_reference, (1,)


def log_with(pool):
    """Load a log that refers to array 1, which the pool describes."""
    log = pickle.dumps({"array": Reference()}, 4)
    file = io.BytesIO()
    with ArchiveWriter(file) as archive:
        archive.add_array("W.npy", STORED)
        archive.add_bytes("log", log + pickle.dumps(pool, 4))
        manifest = {
            "format": "blocks_checkpoint",
            "format_version": 1,
            "arrays": [ROW],
            "pickles": {"log": {"bytes": len(log), "pool": True}},
        }
        archive.add_bytes("checkpoint.json", json.dumps(manifest).encode())
    with open_checkpoint(file) as checkpoint:
        return checkpoint.log()


def view(of=0, offset=0, dtype=F8, shape=(2,), strides=(8,)):
    return (of, offset, dtype, shape, strides, True)


def test_honest_pool_is_read():
    assert log_with({1: view(offset=8)})["array"].tolist() == [1.0, 2.0]
    assert log_with({1: np.arange(3)})["array"].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("pool", "reason"),
    [
        # The bytes of the file would be taken for addresses of objects.
        pytest.param({1: view(dtype="O")}, "'O' is no dtype", id="objects-by-name"),
        pytest.param({1: view(dtype=[("a", "O")])}, "is no dtype", id="objects-in-fields"),
        pytest.param({1: view(dtype=np.dtype("O"))}, "Python objects", id="objects"),
        pytest.param(
            {1: view(dtype=np.dtype([("a", "O")]))}, "Python objects", id="a-field-of-them"
        ),
        pytest.param({1: (8, [(view(dtype="O"), 0)])}, "'O' is no dtype", id="objects-in-a-piece"),
        pytest.param({1: view(shape=(5,))}, "described wrongly", id="beyond-the-end"),
        pytest.param({1: view(offset=-8)}, "described wrongly", id="before-the-beginning"),
        pytest.param({1: view(strides=(-8,))}, "described wrongly", id="backwards"),
        pytest.param({1: (1 << 40, [])}, "spread over", id="memory-without-end"),
        pytest.param({1: (-1, [])}, "spread over", id="negative-memory"),
        pytest.param({1: view(of=1)}, "array 1", id="of-itself"),
        pytest.param({1: view(of=2), 2: view(of=1)}, "view of itself", id="round-in-a-circle"),
        pytest.param({1: view(of=7)}, "array 7", id="of-nothing"),
        pytest.param({n: view(of=n + 1) for n in range(1, 3000)}, "nested", id="deep"),
        pytest.param({1: (1, 2, 3)}, "described wrongly", id="too-short"),
        pytest.param([1], "pool is a list", id="a-list"),
        pytest.param("ab", "pool is a str", id="text"),
        pytest.param(None, "pool is a NoneType", id="nothing"),
    ],
)
def test_pool_that_lies_is_refused_in_bounded_memory(pool, reason):
    with memory_within(16 << 20), pytest.raises(LoadError, match=reason) as caught:
        log_with(pool)
    assert caught.value.member in ("log", None)
