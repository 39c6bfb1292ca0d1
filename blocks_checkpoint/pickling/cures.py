"""What an object that cannot be pickled is, and what to do about it."""

from __future__ import annotations

import io
import multiprocessing.process
import threading
import types
import weakref
from typing import Any

from .loaders import is_live

__all__ = ["cure_for", "is_worker", "place_of_definition"]

_OPEN_ON_USE = "Keep the path, leave the {} out of __getstate__, and open it on first use"
_MAKE_ANEW = "Leave it out with __getstate__, and make it anew in __setstate__ or on first use"

_SAVE_BY_STATE = (
    "Keep it in the object that is the data stream beside the loader or data set that it came "
    "from; or use miniblocks.loaders.LoaderStream (docs/resuming.rst, other streams)"
)
_MAKE_BY_FUNCTION = (
    "It is Grain's own: give LoaderStream a function that makes the loader (docs/resuming.rst, "
    "other streams)"
)

_WORKERS = (threading.Thread, multiprocessing.process.BaseProcess)
_READS_AHEAD = (
    "If it is to read ahead, its place is not that of the training: have the main loop read the "
    "data itself. If not, leave it out with __getstate__, and make it anew on first use"
)

_CURES: tuple[tuple[tuple[type, ...], str], ...] = (
    (
        (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType),
        "Use a class with __next__, which keeps its position in attributes",
    ),
    (_WORKERS, _READS_AHEAD),
    ((io.IOBase,), _OPEN_ON_USE.format("file")),
    ((types.ModuleType,), "Import the module where it is used, in place of keeping it"),
    ((weakref.ref, weakref.ProxyType, weakref.CallableProxyType), _MAKE_ANEW),
    ((types.FrameType, types.TracebackType), "Keep its text: traceback.format_exc()"),
)


def is_worker(thing: Any) -> bool:
    """Tell whether this is a thread or process that knows no way of being pickled."""
    return issubclass(type(thing), _WORKERS) and not hasattr(type(thing), "__setstate__")


def cure_for(thing: Any, error: Exception) -> str:
    """Say what to do about an object for which a pickler gave an error."""
    if isinstance(error, RecursionError):
        return "A __getattr__ must raise AttributeError for names that begin with two underscores"
    if isinstance(error, OverflowError):
        return "Or keep it as a NumPy array, which is stored outside of the pickle"
    # Asking ``isinstance`` would ask a weak proxy for what it stands for.
    cls = type(thing)
    if is_live(thing):
        return _SAVE_BY_STATE
    if cls is types.FunctionType:
        if str(thing.__module__).partition(".")[0] == "grain":
            return _MAKE_BY_FUNCTION
        if thing.__name__ == "<lambda>":
            return "Write the lambda as a function with a name, at the top level of a module"
        return "Move the function to the top level of a module"
    if issubclass(cls, type) or "<locals>" in cls.__qualname__:
        return "Move the class to the top level of a module"
    for types_, cure in _CURES:
        if issubclass(cls, types_):
            return cure
    if cls.__module__.partition(".")[0] in ("h5py", "sqlite3", "_sqlite3"):
        return _OPEN_ON_USE.format("handle")
    return _MAKE_ANEW


def place_of_definition(thing: Any) -> str:
    """Say where something comes from; an empty string where that cannot be told."""
    try:
        return _place(thing)
    except Exception:
        # Proxies and closed handles answer any question with an error.
        return ""


def _place(thing: Any) -> str:
    cls = type(thing)
    code = getattr(thing, "__code__", None) or getattr(thing, "gi_code", None)
    if isinstance(code, types.CodeType):
        return f"{code.co_filename}, line {code.co_firstlineno}"
    if issubclass(cls, io.IOBase):
        name = getattr(thing, "name", "")
        return name if isinstance(name, str) else ""
    if issubclass(cls, type):
        return _place_of_class(thing)
    return _place_of_class(cls) if "<locals>" in cls.__qualname__ else ""


def _place_of_class(cls: type) -> str:
    name = f"{cls.__module__}.{cls.__qualname__}"
    codes = [getattr(value, "__code__", None) for value in vars(cls).values()]
    lines = [(c.co_filename, c.co_firstlineno) for c in codes if isinstance(c, types.CodeType)]
    if not lines:
        return name
    file, line = min(lines)
    return f"{file}, line {line} or above, as {name}"
