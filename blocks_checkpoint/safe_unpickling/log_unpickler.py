"""Read the pickle of a training log without running what else it names.

A log is made of its own class and of plain values: numbers, text, containers,
dates, NumPy arrays and generators. That is all such a pickle may name, besides
what the reader allows. The names of Blocks' log classes mean the log of
*miniblocks*, so that neither Blocks nor Theano is needed; in a process that
has imported Blocks, they mean Blocks' own.

Time and memory are in proportion to the pickle's length: up to a hundred bytes
for a byte, for a pickle made of nothing but empty dictionaries.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, Union

import numpy as np

from ..errors import CheckpointError, HostileCheckpoint, LoadError
from .pickle_machine import PickleMachine
from .plain_values import Name
from .safe_vocabulary import SafeVocabulary
from .vocabulary import shortened

__all__ = ["ArrayLoader", "LogVocabulary", "load_log_pickle"]

ArrayLoader = Callable[[int], Any]
Allowed = Union[str, type, Callable[..., Any]]

#: A log has a status, a UUID, and what a user's subclass adds.
MAX_LOG_ATTRIBUTES = 1000

_MINIBLOCKS = "blocks_checkpoint.miniblocks.log"
#: Where the class of logs has been, in Blocks and here.
_LOG_MODULES = ("blocks.log", "blocks.log.log", _MINIBLOCKS)
_SQLITE = ("blocks.log.sqlite", "SQLiteLog")
_PICKLER = "blocks_checkpoint.zip_pickler"

# An array that was on a device comes back as NumPy's.
_ARRAY_REFERENCES = ("array_reference", "device_array_reference")
_ARRAY = Name(_PICKLER, "array_reference")


def load_log_pickle(
    file_or_bytes: bytes | BinaryIO,
    *,
    allow: Iterable[Allowed] = (),
    path: str | None = None,
    member: str = "log",
    array_loader: ArrayLoader | None = None,
) -> Any:
    """Read the pickle of a log.

    Parameters
    ----------
    file_or_bytes : bytes or binary file
        The pickle; what follows it is left alone.
    allow : iterable of str, type or function
        What the log may name besides: classes and functions, or their dotted
        names (``'my_package.MyRecord'``). Those are imported and called as
        the pickle says.
    path, member : str, optional
        Where the pickle is, for messages.
    array_loader : callable, optional
        From the number of an array to the array, for a log some of whose
        arrays are elsewhere in the checkpoint.

    Returns
    -------
    object
        The log; or whatever value was pickled.

    Raises
    ------
    RefusedClass
        It names something that is not allowed.
    HostileCheckpoint
        It asks for what no pickler writes.
    DamagedCheckpoint
        It is no pickle, or not a whole one.
    """
    data = file_or_bytes if isinstance(file_or_bytes, bytes) else bytes(file_or_bytes.read())
    vocabulary = LogVocabulary(allow=allow, array_loader=array_loader)
    try:
        return PickleMachine(data, vocabulary).load()
    except CheckpointError as error:
        error.path = error.path or path
        error.member = error.member or member
        raise


class LogVocabulary(SafeVocabulary):
    """Plain values, the class of logs, and what the reader allows.

    Parameters
    ----------
    allow, array_loader
        As for :func:`load_log_pickle`.
    """

    def __init__(
        self, *, allow: Iterable[Allowed] = (), array_loader: ArrayLoader | None = None
    ) -> None:
        super().__init__()
        self._allowed = dict(map(_named, [allow] if isinstance(allow, (str, type)) else allow))
        self._load_array = array_loader
        self._log_class: type | None = None
        # What was allowed, and what it made; kept, so that no id comes twice.
        self._free: dict[int, Any] = {}

    def find(self, module: str, name: str) -> Any:
        """Return what a name stands for, importing it only if it was allowed."""
        dotted = f"{module}.{name}"
        if dotted in self._allowed:
            return self._keep(_imported(module, name, self._allowed[dotted]))
        if name == "TrainingLog" and module in _LOG_MODULES:
            self._log_class = _log_class(module)
            return self._log_class
        if (module, name) == _SQLITE:
            raise LoadError(
                "the records of an SQLite log are in its database, not in this file. "
                "Read them there, from the tables 'entries' and 'status'"
            )
        if module == _PICKLER and name in _ARRAY_REFERENCES:
            return _ARRAY
        return super().find(module, name)

    def call(self, function: Any, args: tuple[Any, ...]) -> Any:
        """Make a log, get an array, or call what was allowed."""
        if id(function) in self._free:
            return self._keep(function(*args))
        if function is _ARRAY:
            return self._array(args[0])
        if self._log_class is not None and function is self._log_class and not args:
            return self._log_class()
        return super().call(function, args)

    def new(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make an instance of a class that was allowed, or of a value's."""
        if id(cls) in self._free:
            return self._keep(cls.__new__(cls, *args, **kwargs))
        return super().new(cls, args, kwargs)

    def reconstruct(self, cls: Any, base: Any, state: Any) -> Any:
        """Make an instance of a class that was allowed, as protocols 0 and 1 do."""
        if id(cls) not in self._free or base is object:
            return super().reconstruct(cls, base, state)
        thing = base.__new__(cls, state)
        base.__init__(thing, state)
        return self._keep(thing)

    def build(self, thing: Any, state: Any) -> Any:
        """Give a log, or what an allowed class made, its attributes."""
        if self._is_log(thing):
            self.allowance.spend(len(state) if type(state) is dict else 1)
            _set_log_state(thing, state)
        elif id(thing) in self._free:
            _set_state(thing, state)
        else:
            return super().build(thing, state)
        return thing

    def extend(self, thing: Any, items: list[Any]) -> None:
        """Append items to what an allowed class made, or to a deque."""
        if id(thing) in self._free:
            for item in items:
                thing.append(item)
        else:
            super().extend(thing, items)

    def update(self, thing: Any, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Set rows of a log, or items of another dictionary."""
        if self._is_log(thing):
            _set_rows(thing, dict(pairs))
        elif id(thing) in self._free:
            for key, value in pairs:
                thing[key] = value
        else:
            super().update(thing, pairs)

    def add(self, thing: Any, items: list[Any]) -> None:
        """Add items to what an allowed class made."""
        if id(thing) not in self._free:
            super().add(thing, items)
        for item in items:
            thing.add(item)

    def _is_log(self, thing: Any) -> bool:
        return type(thing) is self._log_class

    def _keep(self, thing: Any) -> Any:
        self._free[id(thing)] = thing
        return thing

    def _array(self, number: Any) -> Any:
        if type(number) is not int or number < 0:
            raise HostileCheckpoint(f"the pickle refers to array {shortened(number)}")
        if self._load_array is None:
            raise LoadError(
                f"the log refers to array {number} of the checkpoint it was taken from. "
                "Read it with load_log(path)"
            )
        return self._load_array(number)


def _named(allowed: Allowed) -> tuple[str, Any]:
    if isinstance(allowed, str):
        return allowed, None
    return f"{allowed.__module__}.{allowed.__qualname__}", allowed


def _imported(module: str, name: str, thing: Any) -> Any:
    if thing is not None:
        return thing
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise LoadError(f"{module}.{name} was allowed, and cannot be imported: {error}") from error
    return found


def _log_class(module: str) -> type:
    blocks = sys.modules.get("blocks.log") if module != _MINIBLOCKS else None
    home = blocks or importlib.import_module(_MINIBLOCKS)
    cls: type = home.TrainingLog
    return cls


def _set_rows(log: dict[int, Any], rows: dict[Any, Any]) -> None:
    if not all(isinstance(time, (int, np.integer)) and time >= 0 for time in rows):
        raise HostileCheckpoint("a row of the log has a key that is no iteration")
    # Not by the log's own method, which checks and inserts one row at a time.
    dict.update(log, rows)


def _set_log_state(log: Any, state: Any) -> None:
    if type(state) is not dict or len(state) > MAX_LOG_ATTRIBUTES:
        raise HostileCheckpoint("the log's attributes are no dictionary, or very many")
    for name in state:
        # An attribute of the instance would be called in the method's place.
        if type(name) is not str or hasattr(type(log), name):
            raise HostileCheckpoint(f"the log has an attribute {shortened(name)} of its own")
    log.__dict__.update(state)


def _set_state(thing: Any, state: Any) -> None:
    """Do what the standard unpickler does with a state."""
    setstate = getattr(thing, "__setstate__", None)
    if setstate is not None:
        setstate(state)
        return
    attributes, slots = state if type(state) is tuple and len(state) == 2 else (state, None)
    if attributes:
        thing.__dict__.update(attributes)
    for name, value in (slots or {}).items():
        setattr(thing, name, value)
