"""The names that writer and reader of a checkpoint agree on; see docs/format."""

from __future__ import annotations

__all__ = [
    "CHAIN",
    "EXTENSION_STATES",
    "FORMAT",
    "FORMAT_VERSION",
    "ITERATION_STATE",
    "LOG",
    "MAIN",
    "MANIFEST",
    "RANDOM_STATE",
    "RESERVED",
]

FORMAT = "blocks_checkpoint"
FORMAT_VERSION = 1

MANIFEST = "checkpoint.json"
LOG = "log"
ITERATION_STATE = "iteration_state"
MAIN = "pkl"
RANDOM_STATE = "random_state"
EXTENSION_STATES = "extension_states"

#: Written and read one after another, by one pickler and one unpickler.
CHAIN = (ITERATION_STATE, MAIN)

#: Members that are no arrays. No variable's member may be called like one of
#: them, not even as a folder: ``unzip`` cannot make ``log`` and ``log/W.npy``.
RESERVED = (MANIFEST, LOG, ITERATION_STATE, MAIN, RANDOM_STATE, EXTENSION_STATES)
