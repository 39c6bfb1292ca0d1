"""Room for deeply nested objects.

Pickling follows references by recursion, so a chain of objects needs as deep
a stack as it is long. The stack of the calling thread is small, and Python
guards it with a limit on recursion that is one number for the whole process.
:func:`with_deep_stack` runs a function where both are large, and puts the
limit back.
"""

from __future__ import annotations

import io
import pickle
import sys
import threading
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["DeepPickler", "is_endless", "with_deep_stack"]

T = TypeVar("T")

#: Tried in turn: not every machine grants a thread the largest (bytes).
STACK_BYTES = (512 << 20, 128 << 20, 32 << 20)

#: What one level of recursion may take of the stack (bytes). The worst seen
#: is below half of it: ``__getattr__`` calling itself, on Python 3.9. Since
#: 3.12 a call from Python to Python takes none of the C stack, and calls
#: through C have a limit of their own.
BYTES_PER_LEVEL = 2048 if sys.version_info < (3, 12) else 512


def with_deep_stack(function: Callable[[], T]) -> T:
    """Call ``function`` on a thread with a large stack, and wait for it.

    Parameters
    ----------
    function : callable
        Takes no arguments.

    Returns
    -------
    object
        What it returned.

    Raises
    ------
    RecursionError
        Even that stack was not enough.
    BaseException
        Whatever ``function`` raised.
    """
    outcome: list[tuple[bool, Any]] = []

    def run(levels: int) -> None:
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(max(before, levels))
        try:
            outcome.append((True, function()))
        except BaseException as error:
            outcome.append((False, error))
        finally:
            sys.setrecursionlimit(before)

    for size in STACK_BYTES:
        thread = threading.Thread(
            target=run, args=(size // BYTES_PER_LEVEL,), name="blocks_checkpoint-deep"
        )
        # The size is read when a thread starts, and is one for all threads:
        # put it back before anybody else starts one.
        before = threading.stack_size(size)
        try:
            thread.start()
        except (RuntimeError, MemoryError):
            if size == STACK_BYTES[-1]:
                raise
            continue
        finally:
            threading.stack_size(before)
        thread.join()
        break
    succeeded, result = outcome.pop()
    try:
        if not succeeded:
            raise result
        return result  # type: ignore[no-any-return]
    finally:
        # An error refers to this frame, and all that was alive in it.
        del result


def is_endless(error: RecursionError) -> bool:
    """Tell whether a method that calls itself is to blame, so that no stack would do."""
    called = [frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)][-100:]
    return sum(name in ("__getattr__", "__getattribute__") for name in called) > 50


if TYPE_CHECKING:
    _PythonPickler: Any = object
else:
    _PythonPickler = pickle._Pickler


class DeepPickler(_PythonPickler):  # type: ignore[misc]
    """The pure-Python pickler, recursing without the C stack.

    CPython 3.12 and 3.13 allow only a few hundred to a few thousand levels of
    recursion in C, whatever the limit says. Calls from Python to Python are
    exempt, but the standard pickler makes one of its calls,
    ``self.save_reduce(obj=obj, *rv)``, in a form that the interpreter
    executes through C. Here the same call is made plainly.

    See Also
    --------
    https://github.com/python/cpython/issues/128590
    """

    def __init__(self, file: io.BytesIO, protocol: int) -> None:
        super().__init__(file, protocol)
        self.dispatch_table: dict[type, Callable[[Any], Any]] = {}

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        """Pickle one object, as the standard pickler does."""
        self.framer.commit_frame()
        if save_persistent_id:
            identity = self.persistent_id(obj)
            if identity is not None:
                self.save_pers(identity)
                return
        known = self.memo.get(id(obj))
        if known is not None:
            self.write(self.get(known[0]))
            return
        cls = type(obj)
        save_builtin = self.dispatch.get(cls)
        if save_builtin is not None:
            save_builtin(self, obj)
            return
        reduce = self.dispatch_table.get(cls)
        if reduce is not None:
            value = reduce(obj)
        elif issubclass(cls, type):
            self.save_global(obj)
            return
        else:
            value = obj.__reduce_ex__(self.proto)
        if isinstance(value, str):
            self.save_global(obj, value)
            return
        if not isinstance(value, tuple) or not 2 <= len(value) <= 6:
            raise pickle.PicklingError(f"{cls.__name__}.__reduce_ex__ gave {type(value).__name__}")
        function, args, state, items, pairs, setter = (*value, None, None, None, None)[:6]
        _PythonPickler.save_reduce(self, function, args, state, items, pairs, setter, obj=obj)
