"""Pickles that refer to arrays by number, back to the object graph."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .garbage import no_garbage_collection
from .pickling import stateful
from .zip_pickler import device_array_reference, member_reference

__all__ = ["ArrayLoader", "ZipUnpickler", "present_module"]

ArrayLoader = Callable[[int], "np.ndarray[Any, Any]"]

#: NumPy 2 renamed a package that pickles name; those of either load in both.
_NUMPY_CORE = "numpy._core" if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else "numpy.core"


class ZipUnpickler(pickle.Unpickler):
    """Reads a chain of pickles, asking for each array by its number.

    Parameters
    ----------
    pickles : sequence of bytes
        In the order in which they were written.
    load_array : callable
        From the number of an array to the array, always the same object for
        one number.
    load_device_array : callable, optional
        From the number of an array and the name of a class to an array of
        that class. Likewise.
    load_member : callable, optional
        From the name of another member to the object in it.
    stateful_part : callable, optional
        Makes or finds an object that was saved by its state, as
        :func:`.stateful.stateful_part`.
    find_special : callable, optional
        From module and name to a function or class that is not simply
        imported, or to None.
    persistent_load : callable, optional
        The user's own, the counterpart of ``persistent_id``.
    """

    def __init__(
        self,
        pickles: Sequence[bytes],
        load_array: ArrayLoader,
        *,
        load_device_array: Callable[[int, str], Any] | None = None,
        load_member: Callable[[str], Any] | None = None,
        stateful_part: Callable[..., Any] = stateful.stateful_part,
        find_special: Callable[[str, str], Any] | None = None,
        persistent_load: Callable[[Any], Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(io.BytesIO(b"".join(pickles)), **kwargs)
        self._find_special = find_special
        self._users_persistent_load = persistent_load
        self._exports: Callable[[int], Any] | None = None
        references = member_reference.__module__
        self._replaced: dict[tuple[str, str], Any] = {
            (references, "array_reference"): load_array,
            (references, "device_array_reference"): load_device_array or device_array_reference,
            (references, "member_reference"): load_member or member_reference,
            (stateful.__name__, "stateful_part"): stateful_part,
        }

    def find_class(self, module: str, name: str) -> Any:
        """Return what a name in the pickle stands for."""
        replaced = self._replaced.get((module, name))
        if replaced is not None:
            return replaced
        special = None if self._find_special is None else self._find_special(module, name)
        if special is not None:
            return special
        return super().find_class(present_module(module), name)

    def load(self) -> Any:
        """Read the next pickle of the chain."""
        with no_garbage_collection():
            return super().load()

    def load_exports(self, find: Callable[[list[Any]], Any]) -> None:
        """Read what :meth:`ZipPickler.note_exports` wrote.

        Parameters
        ----------
        find : callable
            From the way to an export to the object.
        """
        ways = json.loads(super().load())
        self._exports = lambda index: find(ways[index])
        try:
            super().load()
        finally:
            self._exports = None

    def persistent_load(self, identity: Any) -> Any:
        """Return what stands for a persistent id: an export, or the user's own."""
        if self._exports is not None:
            return self._exports(identity)
        if self._users_persistent_load is not None:
            return self._users_persistent_load(identity)
        raise pickle.UnpicklingError(
            f"the pickle has the persistent id {identity!r}, and no persistent_load was given"
        )


def present_module(module: str) -> str:
    """Return the name that a module of NumPy has in this release of it."""
    for core in ("numpy.core", "numpy._core"):
        if module == core or module.startswith(f"{core}."):
            return _NUMPY_CORE + module[len(core) :]
    return module
