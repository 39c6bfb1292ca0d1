"""Unpickle what Blocks pickled, with Blocks itself. Runs what the file says."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import CheckpointError, LoadError
from ..main_module import MainModule
from ..zip_unpickler import present_module

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

__all__ = ["unpickle_with_blocks"]

#: The second is what the script is called in the processes it starts.
MAIN_MODULES = ("__main__", "__mp_main__")


def unpickle_with_blocks(
    pickled: bytes,
    *,
    load_array: Callable[[str], Array],
    main: Any,
    path: str | None,
    member: str,
    written_by: str,
) -> Any:
    """Unpickle an object.

    Parameters
    ----------
    pickled : bytes
    load_array : callable
        From the stored name of an array to the array.
    main : str, os.PathLike or module, optional
        Where functions of ``__main__`` are found, if not in the running one.
    path, member, written_by : str
        For messages.

    Raises
    ------
    LoadError
        It cannot be unpickled here.
    """
    unpickler = _Unpickler(pickled, load_array, MainModule(None, main, path))
    try:
        return unpickler.load()
    except (CheckpointError, MemoryError):
        raise
    except Exception as error:
        raise LoadError(
            f"unpickling failed with {type(error).__name__}: {error}. It was written by "
            f"{written_by}, and needs that Blocks, with its Theano and Fuel. The parameters "
            "and the log need none of them: load_parameters(path), load_log(path)",
            path=path,
            member=member,
        ) from error


class _Unpickler(pickle.Unpickler):
    """Finds arrays that were stored beside the pickle, each once."""

    def __init__(
        self, pickled: bytes, load_array: Callable[[str], Array], main_module: MainModule
    ) -> None:
        # The strings of Python 2 have no encoding; Latin-1 keeps every byte.
        super().__init__(io.BytesIO(pickled), encoding="latin1")
        self._load_array = load_array
        self._main_module = main_module
        self._arrays: dict[Any, Any] = {}

    def find_class(self, module: str, name: str) -> Any:
        if module in MAIN_MODULES:
            return self._main_module.find(name)
        return super().find_class(present_module(module), name)

    def persistent_load(self, identity: Any) -> Any:
        if identity not in self._arrays:
            self._arrays[identity] = self._load_array(_stored_name(identity))
        return self._arrays[identity]


def _stored_name(identity: Any) -> str:
    """Take the name of an array out of a persistent id.

    There were three forms: ``#1numpy_ndarray.None.|mlp.W`` with the device's
    context, ``#numpy_ndarray.|mlp.W``, and Theano's ``ndarray.mlp-W``.
    """
    text = identity.decode("utf-8") if isinstance(identity, bytes) else str(identity)
    parts = text.split(".", 2 if text.startswith("#1") else 1)
    if parts[0].lstrip("#1") not in ("numpy_ndarray", "ndarray", "array"):
        raise LoadError(
            f"the main loop has the array {parts[-1]!r} on a device ({parts[0]!r}). Build it in "
            "a script, and load the parameters alone with LoadParameters(path)"
        )
    return parts[-1]
