"""Write down the whole state of a training run, and bring it back exactly.

In a script, add ``Checkpoint(path)`` to the extensions of a main loop, and
``Resume(path, load_log=True)`` to go on from it; in an interpreter, call
``continue_training(path)``. ``LoadParameters(path)`` starts another model
from the parameters alone, without running anything from the file.

Importing this package imports no engine; what needs one imports it on use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from .archive import Damage
    from .checkpoint_file import CheckpointFile, open_checkpoint
    from .continuation import continue_training
    from .errors import (
        CheckpointError,
        CheckpointNotFound,
        CheckpointWarning,
        DamagedCheckpoint,
        DataNotFound,
        EngineError,
        HeavyDataWarning,
        HostileCheckpoint,
        LoadError,
        MainModuleError,
        MainModuleWarning,
        NameConflict,
        NoGoodCheckpoint,
        NotACheckpoint,
        ParameterMismatch,
        ParameterWarning,
        ReadAheadWarning,
        RefusedClass,
        SaveError,
        UnpicklableError,
        UnsupportedFormat,
    )
    from .extensions import Checkpoint, LoadParameters, Resume
    from .pickling.devices import register_array_type
    from .retention import KeepAll, KeepBest, KeepEvery, KeepFor, KeepLast, Policy
    from .serialization import (
        add_to_dump,
        dump,
        dump_and_add_to_dump,
        load,
        load_iteration_state,
        load_log,
        load_main_loop,
        load_parameters,
        save_parameters,
        secure_dump,
    )

_HOMES = {
    "archive": ["Damage"],
    "checkpoint_file": ["CheckpointFile", "open_checkpoint"],
    "continuation": ["continue_training"],
    "pickling.devices": ["register_array_type"],
    "errors": [
        "CheckpointError",
        "CheckpointNotFound",
        "CheckpointWarning",
        "DamagedCheckpoint",
        "DataNotFound",
        "EngineError",
        "HeavyDataWarning",
        "HostileCheckpoint",
        "LoadError",
        "MainModuleError",
        "MainModuleWarning",
        "NameConflict",
        "NoGoodCheckpoint",
        "NotACheckpoint",
        "ParameterMismatch",
        "ParameterWarning",
        "ReadAheadWarning",
        "RefusedClass",
        "SaveError",
        "UnpicklableError",
        "UnsupportedFormat",
    ],
    "extensions": ["Checkpoint", "LoadParameters", "Resume"],
    "retention": ["KeepAll", "KeepBest", "KeepEvery", "KeepFor", "KeepLast", "Policy"],
    "serialization": [
        "add_to_dump",
        "dump",
        "dump_and_add_to_dump",
        "load",
        "load_iteration_state",
        "load_log",
        "load_main_loop",
        "load_parameters",
        "save_parameters",
        "secure_dump",
    ],
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = ["__version__", *sorted(_HOME_OF)]  # noqa: PLE0604 - computed, and tested


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME_OF[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
