"""Object graph to pickles that refer to arrays by number, and back.

Blocks took the arrays out of its pickles with persistent ids. The C pickler
then calls Python for every single object, which costs 2 to 4 times the time
of the whole. A dispatch table is looked up for arrays and shared variables
only, and costs nothing: here an array pickles as a call of
:func:`array_reference`, a function that exists for its name alone and that the
unpickler replaces by its own.

Several pickles of one save may form a chain: they are written by one pickler,
whose memo lets the later ones refer to objects of the earlier ones, and read
by one unpickler in the same order.
"""

from __future__ import annotations

import copyreg
import gc
import importlib
import io
import logging
import pickle
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from .array_table import ArrayTable
from .deep import DeepPickler, with_deep_stack
from .devices import from_numpy, registered_types, to_numpy, type_name
from .engines import shared_variable_types, stored_value
from .errors import LoadError

__all__ = [
    "ArrayLoader",
    "PicklerSettings",
    "ZipPickler",
    "ZipUnpickler",
    "array_reference",
    "device_array_reference",
    "member_reference",
    "write_pickles",
]

#: Attributes that a main loop must not take along: the signal handlers that
#: the process had before the loop set its own. They belong to the process.
HANDLER_ATTRIBUTES = ("original_sigint_handler", "original_sigterm_handler")

logger = logging.getLogger(__name__)

T = TypeVar("T")
ArrayLoader = Callable[[int], "np.ndarray[Any, Any]"]
Reducer = Callable[[Any], Any]


def array_reference(number: int) -> Any:
    """Stand in a pickle for the array of that number.

    Raises
    ------
    LoadError
        Always: whoever calls it has opened the pickle by itself, without the
        archive that the array is in.
    """
    raise LoadError(
        f"this pickle refers to array {number} of the checkpoint it was taken from. "
        "Read it with blocks_checkpoint.open_checkpoint or blocks_checkpoint.load"
    )


def device_array_reference(number: int, type_name: str) -> Any:
    """Stand in a pickle for an array that was not in main memory."""
    return array_reference(number)


def member_reference(member: str) -> Any:
    """Stand in a pickle for the object in another member."""
    raise LoadError(
        f"this pickle refers to the member {member!r} of the checkpoint it was taken from. "
        "Read it with blocks_checkpoint.open_checkpoint or blocks_checkpoint.load"
    )


@dataclass
class PicklerSettings:
    """How the pickles of one save are written.

    Attributes
    ----------
    protocol : int
        Pickle protocol.
    persistent_id : callable, optional
        The user's own, as for :class:`pickle.Pickler`. Slow; see the module.
    members : list of (str, object)
        Objects that have a member to themselves: in the chain, the object is
        replaced by a reference to the member.
    """

    protocol: int = 5
    persistent_id: Callable[[Any], Any] | None = None
    members: list[tuple[str, Any]] = field(default_factory=list)


class ZipPickler:
    """Writes a chain of pickles whose arrays are in an :class:`ArrayTable`.

    Parameters
    ----------
    table : ArrayTable
    settings : PicklerSettings
    deep : bool
        Use the pickler for deeply nested objects, which is slow.
    self_contained : bool
        Keep arrays in the pickle, but for those that were met before. For
        logs, which are full of small arrays.

    Attributes
    ----------
    reducers : dict of type to callable
        The dispatch table: how objects of these types are pickled.
    """

    def __init__(
        self,
        table: ArrayTable,
        settings: PicklerSettings,
        *,
        deep: bool = False,
        self_contained: bool = False,
    ) -> None:
        self._table = table
        self._settings = settings
        self._self_contained = self_contained
        self._buffer = io.BytesIO()
        pickler = DeepPickler if deep else pickle.Pickler
        self._pickler: Any = pickler(self._buffer, settings.protocol)
        if settings.persistent_id is not None:
            self._pickler.persistent_id = settings.persistent_id
        # A plain dict: a ChainMap would cost more than the pickling itself.
        self.reducers: dict[type, Reducer] = {**copyreg.dispatch_table, **dict(self._reducers())}
        self._pickler.dispatch_table = self.reducers

    def dump(self, thing: Any) -> bytes:
        """Pickle one object, as the next of the chain."""
        self._pickler.dump(thing)
        # No copy is made here: the buffer lets go of the bytes it gave away.
        pickled = self._buffer.getvalue()
        self._buffer.seek(0)
        self._buffer.truncate()
        return pickled

    def note_exports(self, exports: Sequence[Any]) -> bytes:
        """Let what follows refer to objects that are not in the chain.

        Parameters
        ----------
        exports : sequence of objects

        Returns
        -------
        bytes
            A pickle to be read at this place of the chain. It asks the
            unpickler for each of the objects by its index, and puts them into
            the memo, as if they had been pickled here.
        """
        memo = self._pickler.memo.copy()
        size = len(memo)
        for index, thing in enumerate(exports):
            memo[id(thing)] = (size + index, thing)
        self._pickler.memo = memo
        asks = b"".join(
            pickle.BININT + struct.pack("<i", index) + pickle.BINPERSID + pickle.MEMOIZE
            for index in range(len(exports))
        )
        return pickle.PROTO + b"\x04" + asks + pickle.NONE + pickle.STOP

    def _reducers(self) -> Iterator[tuple[type, Reducer]]:
        protocol = self._settings.protocol
        for cls in main_loop_types():
            yield cls, self._reduce_main_loop
        for cls in shared_variable_types():
            yield cls, self._reduce_shared
        for name, thing in self._settings.members:
            yield type(thing), _member_reducer(name, thing, protocol)
        for cls in registered_types():
            yield cls, self._reduce_device_array
        yield from _fortran_reducers()
        yield np.ndarray, self._reduce_known if self._self_contained else self._reduce_array

    def _reduce_array(self, array: np.ndarray[Any, Any]) -> Any:
        if array.dtype.hasobject:
            return array.__reduce_ex__(self._settings.protocol)
        return array_reference, (self._table.reference(array),)

    def _reduce_known(self, array: np.ndarray[Any, Any]) -> Any:
        if self._table.knows(array):
            return self._reduce_array(array)
        return array.__reduce_ex__(self._settings.protocol)

    def _reduce_device_array(self, thing: Any) -> Any:
        number = self._table.reference(thing, to_numpy)
        return device_array_reference, (number, type_name(type(thing)))

    def _reduce_shared(self, variable: Any) -> Any:
        own_value(self._table, variable)
        return variable.__reduce_ex__(self._settings.protocol)

    def _reduce_main_loop(self, main_loop: Any) -> Any:
        reduced = main_loop.__reduce_ex__(self._settings.protocol)
        if len(reduced) > 2 and isinstance(reduced[2], dict):
            state = {k: v for k, v in reduced[2].items() if k not in HANDLER_ATTRIBUTES}
            reduced = (*reduced[:2], state, *reduced[3:])
        return reduced


def own_value(table: ArrayTable, variable: Any) -> bool:
    """Enter a shared variable's value into the table, if it is an array.

    Returns
    -------
    bool
        False if the value is something else (a random generator, a sparse
        matrix, a masked array): it stays in the pickle.
    """
    value = stored_value(variable)
    if type(value) is np.ndarray and not value.dtype.hasobject:
        table.own(value, variable)
        return True
    if type(value) in registered_types():
        table.own(value, variable, to_numpy)
        return True
    return False


def main_loop_types() -> list[type]:
    """List the classes of main loops in this process, Blocks' and ours."""
    stack = []
    for module in ("blocks.main_loop", "blocks_checkpoint.miniblocks.main_loop"):
        cls = getattr(sys.modules.get(module), "MainLoop", None)
        if isinstance(cls, type):
            stack.append(cls)
    found: list[type] = []
    while stack:
        cls = stack.pop()
        found.append(cls)
        stack.extend(cls.__subclasses__())
    return found


def _member_reducer(name: str, thing: Any, protocol: int) -> Reducer:
    def reduce(other: Any) -> Any:
        if other is thing:
            return member_reference, (name,)
        return other.__reduce_ex__(protocol)

    return reduce


_FORTRAN_MODULES = ("scipy.linalg.blas", "scipy.linalg.lapack")


def _fortran_reducers() -> Iterator[tuple[type, Reducer]]:
    # Theano 1.0.5 beside a newer SciPy leaves BLAS functions in its graphs.
    # They are attributes of an extension module, of a type that knows nothing
    # of pickling.
    for module_name in _FORTRAN_MODULES:
        for name in ("dgemm", "dgetrf"):
            cls = type(getattr(sys.modules.get(module_name), name, None))
            if cls.__name__ == "fortran":
                yield cls, _reduce_fortran


def _reduce_fortran(function: Any) -> Any:
    for module_name in _FORTRAN_MODULES:
        for name, value in vars(sys.modules.get(module_name, sys)).items():
            if value is function:
                return fortran_function, (module_name, name)
    raise pickle.PicklingError(
        f"the Fortran function {getattr(function, '__name__', function)!r} is in none of "
        + ", ".join(_FORTRAN_MODULES)
    )


def fortran_function(module_name: str, name: str) -> Any:
    """Find a function of SciPy's wrappers of BLAS and LAPACK again."""
    if module_name not in _FORTRAN_MODULES:
        raise LoadError(f"{module_name} is not a module of Fortran functions")
    return getattr(importlib.import_module(module_name), name)


class ZipUnpickler(pickle.Unpickler):
    """Reads a chain of pickles, asking for each array by its number.

    Parameters
    ----------
    pickles : sequence of bytes
        In the order in which they were written.
    load_array : callable
        From the number of an array to the array, always the same object for
        one number.
    load_member : callable, optional
        From the name of another member to the object in it.
    find_global : callable, optional
        From module and name to the function or class. By default they are
        imported.
    persistent_load : callable, optional
        The user's own, the counterpart of ``persistent_id``.
    """

    def __init__(
        self,
        pickles: Sequence[bytes],
        load_array: ArrayLoader,
        *,
        load_member: Callable[[str], Any] | None = None,
        find_global: Callable[[str, str], Any] | None = None,
        persistent_load: Callable[[Any], Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(io.BytesIO(b"".join(pickles)), **kwargs)
        self._find_global = find_global
        self._users_persistent_load = persistent_load
        self._exports: Callable[[int], Any] | None = None
        self._replaced = {
            "array_reference": load_array,
            "device_array_reference": lambda number, name: from_numpy(name, load_array(number)),
            "member_reference": load_member or member_reference,
        }

    def find_class(self, module: str, name: str) -> Any:
        if module == __name__ and name in self._replaced:
            return self._replaced[name]
        if self._find_global is not None:
            return self._find_global(module, name)
        return super().find_class(module, name)

    def load(self) -> Any:
        """Read the next pickle of the chain."""
        with _no_garbage_collection():
            return super().load()

    def load_exports(self, export: Callable[[int], Any]) -> None:
        """Read what :meth:`ZipPickler.note_exports` wrote.

        Parameters
        ----------
        export : callable
            From the index of an export to the object.
        """
        self._exports = export
        try:
            super().load()
        finally:
            self._exports = None

    def persistent_load(self, identity: Any) -> Any:
        if self._exports is not None:
            return self._exports(identity)
        if self._users_persistent_load is not None:
            return self._users_persistent_load(identity)
        raise pickle.UnpicklingError(
            f"the pickle has the persistent id {identity!r}, and no persistent_load was given"
        )


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    # Everything that is being built is alive. Looking through it for garbage,
    # again and again while it grows, takes most of the time of unpickling.
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
        if not gc.get_freeze_count():
            # Counts what was built among the old objects. As new ones, the
            # collector would go through all of it at the next opportunity.
            gc.freeze()
            gc.unfreeze()
    finally:
        gc.enable()


def write_pickles(write: Callable[[bool], T]) -> T:
    """Call ``write``, at C speed wherever that is possible.

    Parameters
    ----------
    write : callable
        Takes ``deep``, for :class:`ZipPickler`, and begins from nothing each
        time: it is called anew where objects turn out to be nested too deeply
        for the pickler before.

    Returns
    -------
    object
        What ``write`` returned.

    Raises
    ------
    RecursionError
        The objects are nested too deeply for every pickler.
    """
    try:
        return write(False)
    except RecursionError:
        logger.info("objects are deeply nested; pickling them again on a larger stack")
    try:
        return with_deep_stack(lambda: write(False))
    except RecursionError:
        logger.info("too deeply for the C pickler of this Python; using the slow one")
    return with_deep_stack(lambda: write(True))
