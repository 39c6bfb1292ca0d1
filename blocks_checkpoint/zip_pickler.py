"""Object graph to pickles that refer to arrays by number.

Blocks took the arrays out of its pickles with persistent ids. The C pickler
then calls Python for every single object, which costs 2 to 4 times the time
of the whole. A dispatch table is looked up for arrays and shared variables
only, and costs nothing: here an array pickles as a call of
:func:`array_reference`, a function that exists for its name alone and that
:mod:`.zip_unpickler` replaces by its own.

Several pickles of one save may form a chain: they are written by one pickler,
whose memo lets the later ones refer to objects of the earlier ones, and read
by one unpickler in the same order.
"""

from __future__ import annotations

import copyreg
import io
import json
import logging
import pickle
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from .engines import shared_variable_types, stored_value
from .errors import LoadError, SaveError
from .pickling.array_table import ArrayTable
from .pickling.deep import DeepPickler, is_endless, with_deep_stack
from .pickling.devices import registered_types, to_numpy, type_name
from .pickling.foreign_objects import foreign_reducers
from .pickling.log_cache import LogCache
from .pickling.stateful import Stateful
from .unpicklable import Searches

__all__ = [
    "DEFAULT_PROTOCOL",
    "AlreadyPickled",
    "PicklerSettings",
    "ZipPickler",
    "array_reference",
    "device_array_reference",
    "member_reference",
    "write_pickles",
]

DEFAULT_PROTOCOL = 5

#: Attributes that a main loop must not take along: the signal handlers that
#: the process had before the loop set its own. They belong to the process.
HANDLER_ATTRIBUTES = ("original_sigint_handler", "original_sigterm_handler")

logger = logging.getLogger(__name__)

T = TypeVar("T")
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
    global_generators_apart : bool
        The state of the global random generators is saved apart: a pickle
        refers to them by name.
    log_cache : LogCache, optional
        What is left of earlier pickles of the log, and will be used again.
    stateful : Stateful
        Objects that are saved by the state that they return.
    searches : Searches
        For what cannot be pickled. Those of earlier saves are not repeated.

    Raises
    ------
    SaveError
        There is no such protocol.
    """

    protocol: Any = DEFAULT_PROTOCOL
    persistent_id: Callable[[Any], Any] | None = None
    members: list[tuple[str, Any]] = field(default_factory=list)
    global_generators_apart: bool = False
    log_cache: LogCache | None = None
    stateful: Stateful = field(default_factory=Stateful)
    searches: Searches = field(default_factory=Searches)

    def __post_init__(self) -> None:
        highest = pickle.HIGHEST_PROTOCOL
        if self.protocol is None:
            self.protocol = DEFAULT_PROTOCOL
        if not isinstance(self.protocol, int) or self.protocol > highest:
            raise SaveError(
                f"the pickle protocol is {self.protocol!r}; this Python has 0 to {highest}"
            )
        if self.protocol < 0:
            self.protocol = highest


class AlreadyPickled(Exception):
    """What was to be referred to is in the chain of pickles itself."""


class _Asking:
    """Asks the user about every object."""

    # Not set as an attribute, because from Python 3.13 on it cannot be.
    users_persistent_id: Callable[[Any], Any]

    def persistent_id(self, thing: Any) -> Any:
        return self.users_persistent_id(thing)


class _AskingPickler(_Asking, pickle.Pickler):
    pass


class _AskingDeepPickler(_Asking, DeepPickler):
    pass


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
        self._buffer = io.BytesIO()
        if settings.persistent_id is None:
            pickler = DeepPickler if deep else pickle.Pickler
            self._pickler: Any = pickler(self._buffer, settings.protocol)
        else:
            asking = _AskingDeepPickler if deep else _AskingPickler
            self._pickler = asking(self._buffer, settings.protocol)
            self._pickler.users_persistent_id = settings.persistent_id
        # A plain dict: a ChainMap would cost more than the pickling itself.
        self.reducers: dict[type, Reducer] = {
            **copyreg.dispatch_table,
            **dict(_reducers(table, settings, self_contained)),
        }
        self._pickler.dispatch_table = self.reducers

    def dump(self, thing: Any) -> bytes:
        """Pickle one object, as the next of the chain."""
        self._pickler.dump(thing)
        # No copy is made here: the buffer lets go of the bytes it gave away.
        pickled = self._buffer.getvalue()
        self._buffer.seek(0)
        self._buffer.truncate()
        return pickled

    def remember(self, things: Sequence[Any]) -> None:
        """Let what follows refer to objects as if they had been pickled here."""
        memo = self._pickler.memo.copy()
        for thing in things:
            memo[id(thing)] = (len(memo), thing)
        self._pickler.memo = memo

    def note_exports(self, exports: Sequence[tuple[Any, Any]]) -> bytes:
        """Let what follows refer to objects that are not in the chain.

        Parameters
        ----------
        exports : sequence of (way, object)
            The way is how the unpickler will find the object: plain values
            that JSON can hold.

        Returns
        -------
        bytes
            Two pickles to be read at this place of the chain. The first is
            the list of ways, in JSON. The second asks the unpickler for each
            object by its index, and puts it into the memo as if it had been
            pickled here.

        Raises
        ------
        AlreadyPickled
            One of the objects is in the chain.
        """
        known = self._pickler.memo.copy()
        if any(id(thing) in known for _, thing in exports):
            raise AlreadyPickled
        self.remember([thing for _, thing in exports])
        ways = json.dumps([way for way, _ in exports], default=int).encode()
        asks = b"".join(
            pickle.BININT + struct.pack("<i", index) + pickle.BINPERSID + pickle.MEMOIZE
            for index in range(len(exports))
        )
        begin, end = pickle.PROTO + b"\x04", pickle.STOP
        return b"".join(
            (
                *(begin, pickle.BINUNICODE8, struct.pack("<Q", len(ways)), ways, end),
                *(begin, asks, pickle.NONE, end),
            )
        )


def _reducers(
    table: ArrayTable, settings: PicklerSettings, self_contained: bool
) -> Iterator[tuple[type, Reducer]]:
    # None of these refers to the pickler. A circle would keep its memo, and
    # through it everything that was pickled, until the next garbage collection.
    protocol = settings.protocol

    def reduce_array(array: np.ndarray[Any, Any]) -> Any:
        if array.dtype.hasobject:
            return array.__reduce_ex__(protocol)
        return array_reference, (table.reference(array),)

    def reduce_known(array: np.ndarray[Any, Any]) -> Any:
        return reduce_array(array) if table.knows(array) else array.__reduce_ex__(protocol)

    def reduce_device_array(thing: Any) -> Any:
        return device_array_reference, (table.reference(thing, to_numpy), type_name(type(thing)))

    def reduce_shared(variable: Any) -> Any:
        if not own_value(table, variable):
            table.others.append(variable)
        return variable.__reduce_ex__(protocol)

    def reduce_main_loop(main_loop: Any) -> Any:
        reduced = main_loop.__reduce_ex__(protocol)
        if len(reduced) > 2 and isinstance(reduced[2], dict):
            state = {k: v for k, v in reduced[2].items() if k not in HANDLER_ATTRIBUTES}
            reduced = (*reduced[:2], state, *reduced[3:])
        return reduced

    yield from settings.stateful.reducers(protocol)
    for cls in main_loop_types():
        yield cls, reduce_main_loop
    for cls in shared_variable_types():
        yield cls, reduce_shared
    for name, thing in settings.members:
        yield type(thing), _member_reducer(name, thing, protocol)
    for cls in registered_types():
        yield cls, reduce_device_array
    if self_contained:
        yield np.ndarray, reduce_known
    else:
        yield from foreign_reducers(protocol, by_reference=settings.global_generators_apart)
        yield np.ndarray, reduce_array


def own_value(table: ArrayTable, variable: Any) -> bool:
    """Enter a shared variable's value into the table, if it is an array.

    Returns
    -------
    bool
        False if the value is something else (a random generator, a sparse
        matrix, a masked array): it stays in the pickle.
    """
    value = stored_value(variable)
    if type(value) is np.ndarray:
        if value.dtype.hasobject:
            return False
        table.own(value, variable)
        return True
    if isinstance(value, np.ndarray):
        return False
    if type(value) in registered_types():
        table.own(value, variable, to_numpy)
        return True
    # Whatever it is, an array for all the world to see, or a number: then the
    # pickle has it as it is, and those who look for the variable have it too.
    shown = variable.get_value(borrow=True)
    is_array = type(shown) is np.ndarray and not shown.dtype.hasobject
    if is_array or isinstance(shown, np.generic):
        table.own(value, variable, lambda _: np.asarray(shown))
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
    except RecursionError as error:
        if is_endless(error):
            raise
        logger.info("objects are deeply nested; pickling them again on a larger stack")
    try:
        return with_deep_stack(lambda: write(False))
    except RecursionError:
        logger.info("too deeply for the C pickler of this Python; using the slow one")
    return with_deep_stack(lambda: write(True))
