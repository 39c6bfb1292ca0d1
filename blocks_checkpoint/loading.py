"""One loading of objects from a checkpoint: what is one stays one.

A session keeps the arrays and members that it has loaded, so that whatever
refers to them, from whichever pickle, gets the same object.
"""

from __future__ import annotations

import importlib
import platform
import traceback
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .engines import count_from, loaded_versions
from .errors import CheckpointError, DamagedCheckpoint, LoadError
from .format import CHAIN, LOG, MAIN
from .main_module import MainModule, is_main_module
from .pickling.deep import is_endless, with_deep_stack
from .pickling.devices import from_numpy
from .pickling.log_sharing import find_part
from .pickling.memory_views import Patchwork, described, rebuild_view
from .safe_unpickling.log_unpickler import load_log_pickle
from .version import __version__
from .zip_unpickler import ZipUnpickler

if TYPE_CHECKING:
    from .checkpoint_file import CheckpointFile
    from .pickling.present_parts import PresentParts

__all__ = ["LoadingSession"]

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]
else:
    # numpy before 1.22 has no such subscripts at run time.
    Array = np.ndarray


class LoadingSession:
    """Loads objects of one checkpoint that belong together.

    Parameters
    ----------
    checkpoint : CheckpointFile
    main : str, os.PathLike or module, optional
        Where functions of ``__main__`` are found, if not in the running one.
    persistent_load : callable, optional
        The user's own.
    present : PresentParts, optional
        Of a main loop that is to have the states of what was saved by its
        state alone.
    **kwargs
        For :class:`pickle.Unpickler`.
    """

    def __init__(
        self,
        checkpoint: CheckpointFile,
        main: Any = None,
        *,
        persistent_load: Callable[[Any], Any] | None = None,
        present: PresentParts | None = None,
        **kwargs: Any,
    ) -> None:
        self._checkpoint = checkpoint
        self._main = main
        self._kwargs = {"persistent_load": persistent_load, **kwargs}
        if present is not None:
            self._kwargs["stateful_part"] = present.stateful_part
        self._rows = {
            row["id"]: row for row in checkpoint.manifest["arrays"] if row["id"] is not None
        }
        self._arrays: dict[int, Array] = {}
        self._being_made: set[int] = set()
        self._device_arrays: dict[int, Any] = {}
        self._pools: dict[int, Any] = {}
        self._objects: dict[str, Any] = {}
        self._main_module: MainModule | None = None

    def load_array(self, number: int) -> Array:
        """Return the array of that number, always the same object."""
        array = self._arrays.get(number)
        if array is None:
            if number in self._being_made:
                raise self._damaged(f"array {number!r:.40} is a view of itself")
            self._being_made.add(number)
            try:
                array = self._arrays[number] = self._make_array(number)
            except (TypeError, ValueError, AttributeError) as error:
                raise self._damaged(
                    f"array {number!r:.40} is described wrongly: {error}"
                ) from error
            finally:
                self._being_made.discard(number)
        return array

    def load_device_array(self, number: int, name: str) -> Any:
        """Return an array of another class, made of the one of that number."""
        if number not in self._device_arrays:
            self._device_arrays[number] = from_numpy(name, self.load_array(number))
        return self._device_arrays[number]

    def _make_array(self, number: int) -> Array:
        pooled = self._pools.get(number)
        if isinstance(pooled, np.ndarray):
            # It lies in a buffer of the pickle's; a copy owns its memory. That
            # of records would not have what is between the fields.
            return pooled if pooled.dtype.names else pooled.copy(order="K")
        if not isinstance(pooled, tuple):
            return self._stored(number)
        description = described(pooled)
        if isinstance(description, Patchwork):
            return description.filled(self._values)
        # An array may be stored without all that makes it what it is.
        of_itself = description.of == number
        memory = self._stored(number) if of_itself else self.load_array(description.of)
        return rebuild_view(description, memory)

    def _values(self, number: int) -> Array:
        """Return the values of an array that may be a view of where they belong."""
        return self._stored(number) if number in self._rows else self.load_array(number)

    def _stored(self, number: int) -> Array:
        """Return an array as it is stored in its member."""
        row = self._rows.get(number)
        if row is None:
            raise self._damaged(
                f"a pickle refers to array {number!r:.40}, which is not in the file"
            )
        return _as_it_was(self._checkpoint.read_row(row), row)

    def _damaged(self, what: str) -> DamagedCheckpoint:
        return DamagedCheckpoint(what, path=self._checkpoint.path)

    def load_log(self, *, allow: Iterable[Any] = ()) -> Any:
        """Load the log with the restricted unpickler."""
        content, pool = self._split(LOG)
        path = self._checkpoint.path
        if pool:
            pooled = load_log_pickle(pool, path=path)
            if type(pooled) is not dict:
                raise DamagedCheckpoint(
                    f"its pool is a {type(pooled).__name__}, not a dictionary",
                    path=path,
                    member=LOG,
                )
            self._pools.update(pooled)
        return load_log_pickle(content, allow=allow, path=path, array_loader=self.load_array)

    def load_member(self, member: str) -> Any:
        """Load a pickle that stands by itself, once."""
        if member not in self._objects:
            self._objects[member] = self._guarded(member, lambda: self._load_alone(member))
        return self._objects[member]

    def load_chain(self, member: str) -> Any:
        """Load the chain of pickles up to ``member``, and return its object."""
        return self._guarded(member, lambda: self._load_chain(member))

    def _load_alone(self, member: str) -> Any:
        content, pool = self._split(member)
        self._add_pool(pool)
        return self._unpickler([content]).load()

    def _load_chain(self, last: str) -> Any:
        described = self._checkpoint.manifest["pickles"]
        names = [name for name in CHAIN if name in described]
        names = names[: names.index(last) + 1]
        parts = [self._split(name) for name in names]
        for _, pool in parts:
            self._add_pool(pool)
        if last == MAIN:
            self._read_ahead()
        unpickler = self._unpickler([content for content, _ in parts])
        for name in names:
            if described[name].get("exports"):
                unpickler.load_exports(partial(find_part, self.load_member(LOG)))
            self._objects[name] = unpickler.load()
        # Names are numbered in the order in which variables were made. Those
        # made by a run that goes on come after all that it brings along. Not
        # before it is loaded: that may be what imports the engine.
        made = self._checkpoint.manifest.get("variables_made")
        if last == MAIN and isinstance(made, int):
            count_from(made)
        return self._objects[last]

    def _unpickler(self, contents: list[bytes]) -> ZipUnpickler:
        return ZipUnpickler(
            contents,
            self.load_array,
            load_member=self.load_member,
            load_device_array=self.load_device_array,
            find_special=self._find_special,
            **self._kwargs,
        )

    def _read_ahead(self) -> None:
        """Read all arrays at once, which is faster than one by one."""
        wanted = {n: r for n, r in self._rows.items() if n not in self._pools}
        arrays = self._checkpoint.read_rows(list(wanted.values()))
        for (number, row), array in zip(wanted.items(), arrays):
            self._arrays[number] = _as_it_was(array, row)

    def _add_pool(self, pool: bytes) -> None:
        if pool:
            self._pools.update(self._unpickler([pool]).load())

    def _split(self, member: str) -> tuple[bytes, bytes]:
        """Read a pickle member: the pickle itself, and the pool behind it."""
        content = self._checkpoint.archive.read(member)
        length = self._checkpoint.manifest["pickles"][member]["bytes"]
        if not 0 < length <= len(content):
            raise DamagedCheckpoint(
                f"the manifest says the pickle has {length} bytes, the member has {len(content)}",
                path=self._checkpoint.path,
                member=member,
            )
        return content[:length], content[length:]

    def _find_special(self, module: str, name: str) -> Any:
        if not is_main_module(module):
            return None
        if self._main_module is None:
            needs = self._checkpoint.manifest.get("main_module")
            self._main_module = MainModule(needs, self._main, self._checkpoint.path)
        return self._main_module.find(name)

    def _guarded(self, member: str, load: Callable[[], Any]) -> Any:
        """Turn whatever goes wrong into an error that says where."""
        path = self._checkpoint.path
        try:
            try:
                return load()
            except RecursionError as error:
                if is_endless(error):
                    raise
                # Rebuilding a graph may recurse as deeply as pickling it.
                for known in (self._arrays, self._device_arrays, self._objects):
                    known.clear()
                return with_deep_stack(load)
        except CheckpointError as error:
            error.path = error.path or path
            error.member = error.member or member
            raise
        except RecursionError as error:
            culprit = _recursing_class(error)
            raise LoadError(
                f"{culprit or 'a class'} calls itself without end while it is being unpickled. "
                "A __getattr__ must raise AttributeError for names that begin with two "
                "underscores, and for attributes that are not there yet",
                path=path,
                member=member,
            ) from error
        except MemoryError:
            raise
        except Exception as error:
            raise LoadError(
                f"unpickling failed with {type(error).__name__}: {error}. {self._advice()}",
                path=path,
                member=member,
            ) from error

    def _advice(self) -> str:
        changed = [
            f"{name} was {saved} and is {now or 'not here'}"
            for name, saved in self._checkpoint.manifest["versions"].items()
            for now in [_present_version(name)]
            if now != saved
        ]
        since = f"Since it was saved, {'; '.join(changed)}. " if changed else ""
        return (
            f"{since}The parameters need no unpickling: LoadParameters(path) in a script that "
            "builds the main loop, or load_parameters(path)"
        )


def _as_it_was(array: Array, row: Mapping[str, Any]) -> Array:
    if row.get("writeable") is False:
        array.flags.writeable = False
    return array


def _present_version(name: str) -> str | None:
    present: dict[str, str] = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blocks_checkpoint": __version__,
        **loaded_versions(),
    }
    if name in present:
        return present[name]
    try:
        version = getattr(importlib.import_module(name), "__version__", None)
    except Exception:
        # An old library may fail to be imported in ways of its own.
        return None
    return version if isinstance(version, str) else None


def _recursing_class(error: RecursionError) -> str | None:
    frames = list(traceback.walk_tb(error.__traceback__))
    for frame, _ in reversed(frames):
        if frame.f_code.co_name.startswith("__") and "self" in frame.f_locals:
            return type(frame.f_locals["self"]).__qualname__
    return None
