"""Saving and loading as functions, under the names that Blocks gave them.

Every function takes a path or a binary file. Files are written whole or not
at all where a path is given.

=============================  ================================================
:func:`dump`                   any object, every shared variable in it by name
:func:`secure_dump`            the same, to a path
:func:`add_to_dump`            one more object into a file that exists
:func:`load`                   an object that ``dump`` or ``add_to_dump`` saved
:func:`load_parameters`        parameters alone, without unpickling
:func:`save_parameters`        arrays by name, without a main loop
:func:`load_log`               the log alone, without running code
=============================  ================================================
"""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from .checkpoint_file import Main, PathOrFile, open_checkpoint
from .commit import replacing
from .contents import Contents
from .continuation import continue_training
from .engines import is_shared
from .errors import NameConflict
from .file_names import member_names
from .format import MAIN, RESERVED
from .read_ahead import warn_of_reading_ahead
from .snapshot import Snapshot, take_snapshot
from .writing import warn_of_main_module, write_snapshot
from .zip_pickler import PicklerSettings, main_loop_types

__all__ = [
    "add_to_dump",
    "continue_training",
    "dump",
    "dump_and_add_to_dump",
    "load",
    "load_iteration_state",
    "load_log",
    "load_main_loop",
    "load_parameters",
    "save_parameters",
    "secure_dump",
]

DEFAULT_PROTOCOL = 5


def dump(
    object_: Any,
    file_: PathOrFile,
    parameters: Iterable[Any] | None = None,
    to_add: Mapping[str, Any] | None = None,
    protocol: int = DEFAULT_PROTOCOL,
    persistent_id: Callable[[Any], Any] | None = None,
    use_cpickle: bool = True,
) -> None:
    """Save an object, every shared variable in it as a named array.

    Parameters
    ----------
    object_ : object
        A main loop, a brick, anything that can be pickled; None to save the
        parameters alone.
    file_ : str, os.PathLike or binary file
        Where to.
    parameters : iterable of shared variables, optional
        They are stored whether or not ``object_`` reaches them, and their
        order numbers those that have one name.
    to_add : mapping of str to object, optional
        Further objects; see :func:`add_to_dump`.
    protocol : int
        Pickle protocol.
    persistent_id : callable, optional
        As for :class:`pickle.Pickler`; called for every object, which is slow.
    use_cpickle : bool
        Accepted for the sake of old scripts. The C pickler is always used.

    Raises
    ------
    UnpicklableError
        Something cannot be pickled; the message lists all that cannot.
    SaveError
        The file cannot be written.

    Notes
    -----
    Each call pickles the whole log of a main loop. ``Checkpoint`` pickles what is
    new in it since the save before.
    """
    del use_cpickle
    contents = contents_of(object_, parameters)
    for name, thing in (to_add or {}).items():
        _check_member_name(name)
        contents.further[name] = thing
    warn_of_reading_ahead(contents.reads_ahead, "saving a main loop", stacklevel=2)
    snapshot = take_snapshot(contents, settings=PicklerSettings(protocol, persistent_id))
    warn_of_main_module(snapshot, contents, file_, stacklevel=2)
    write_snapshot(snapshot, file_)


def contents_of(object_: Any, parameters: Iterable[Any] | None) -> Contents:
    """Say what to save of any object."""
    if isinstance(object_, tuple(main_loop_types())):
        return Contents.of_main_loop(object_, parameters=parameters)
    get_names = getattr(object_, "get_parameter_dict", None)
    own = getattr(object_, "parameters", ()) if get_names else ()
    return Contents(
        main=object_,
        parameters=list(own if parameters is None else parameters),
        given_names=get_names() if get_names else {},
        root_name="object",
    )


def secure_dump(
    object_: Any,
    path: str | os.PathLike[str],
    dump_function: Callable[..., Any] = dump,
    **kwargs: Any,
) -> None:
    """Save an object to a path, all or nothing.

    Parameters
    ----------
    object_ : object
    path : str or os.PathLike
        A file that is there is replaced when the new one is complete and on
        the disk, and not before.
    dump_function : callable
        Called with the object, a binary file and ``kwargs``.
    **kwargs
        For ``dump_function``.
    """
    with replacing(path) as file:
        dump_function(object_, file, **kwargs)


def add_to_dump(
    object_: Any,
    file_: PathOrFile,
    name: str,
    parameters: Iterable[Any] | None = None,
    protocol: int = DEFAULT_PROTOCOL,
    persistent_id: Callable[[Any], Any] | None = None,
    use_cpickle: bool = True,
) -> None:
    """Save one more object in a file that :func:`dump` has written.

    The file is written anew: an archive that is appended to in place is
    damaged whenever that is interrupted.

    Parameters
    ----------
    object_ : object
    file_ : str, os.PathLike or binary file
        An open file has to be open for reading and writing (``'r+b'``).
    name : str
        Member to save it as, and to :func:`load` it by.
    parameters : iterable of shared variables, optional
        Variables of ``object_`` that the file has already, under the same
        names: they are not stored again.
    protocol, persistent_id, use_cpickle
        As for :func:`dump`.

    Raises
    ------
    NameConflict
        There is a member of that name, or ``parameters`` has variables that
        the file has not.
    """
    from .extending import extended

    del use_cpickle
    _check_member_name(name)
    settings = PicklerSettings(protocol, persistent_id)
    with open_checkpoint(file_) as checkpoint:
        snapshot, new = extended(checkpoint, name, object_, list(parameters or ()), settings)
    warn_of_main_module(new, Contents(main=object_, root_name=name), file_, stacklevel=2)
    if isinstance(file_, (str, os.PathLike)):
        write_snapshot(snapshot, file_)
        return
    content = io.BytesIO()
    snapshot.write(content)
    file_.seek(0)
    file_.write(content.getbuffer())
    file_.truncate()


def dump_and_add_to_dump(
    object_: Any,
    file_: PathOrFile,
    parameters: Iterable[Any] | None = None,
    to_add: Mapping[str, Any] | None = None,
    use_cpickle: bool = True,
    protocol: int = DEFAULT_PROTOCOL,
    **kwargs: Any,
) -> None:
    """Save several objects in one file; the same as :func:`dump` with ``to_add``."""
    dump(object_, file_, parameters, to_add, protocol=protocol, use_cpickle=use_cpickle, **kwargs)


def load(
    file_: PathOrFile,
    name: str = MAIN,
    use_cpickle: bool = True,
    *,
    main: Main = None,
    **kwargs: Any,
) -> Any:
    """Load an object that was saved by :func:`dump`.

    Runs what the file says. Only for files you trust.

    Parameters
    ----------
    file_ : str, os.PathLike or binary file
    name : str
        Member to load: ``'pkl'``, ``'log'``, ``'iteration_state'`` or a name
        given to :func:`add_to_dump`.
    use_cpickle : bool
        Accepted for the sake of old scripts.
    main : str, os.PathLike or module, optional
        The script whose functions the object needs.
    **kwargs
        ``persistent_load``, or options of :class:`pickle.Unpickler`.

    Returns
    -------
    object

    Raises
    ------
    LoadError
        There is no such object in the file, or it cannot be unpickled.
    """
    del use_cpickle
    # Blocks called the main object ``_pkl`` in its last format.
    name = MAIN if name == "_pkl" else name
    with open_checkpoint(file_) as checkpoint:
        return checkpoint.load(name, main=main, **kwargs)


def load_parameters(file_: PathOrFile) -> dict[str, np.ndarray[Any, Any]]:
    """Load the parameters of a model, without unpickling anything.

    Parameters
    ----------
    file_ : str, os.PathLike or binary file

    Returns
    -------
    dict of str to numpy.ndarray
        Under the names that the model's ``get_parameter_dict`` uses:
        ``/mlp/linear_0.W`` for the parameter of a brick, the variable's name
        otherwise.
    """
    with open_checkpoint(file_) as checkpoint:
        if not hasattr(checkpoint, "read_rows"):
            return dict(checkpoint.parameters)
        rows = [r for r in checkpoint.manifest["arrays"] if r["kind"] == "parameter"]
        arrays = checkpoint.read_rows(rows)
        return {row["parameter_name"]: array for row, array in zip(rows, arrays)}


def save_parameters(
    values: Mapping[str, Any] | Iterable[tuple[str, Any]], file_: PathOrFile
) -> None:
    """Save arrays by name, as a checkpoint without a main loop.

    Parameters
    ----------
    values : mapping of str to array, or iterable of (str, array) or of shared variables
        Names as :func:`load_parameters` returns them.
    file_ : str, os.PathLike or binary file

    Raises
    ------
    NameConflict
        Two arrays have one name.
    SaveError
        An array holds Python objects, or the file cannot be written.
    """
    pairs = list(values.items()) if isinstance(values, Mapping) else list(values)
    named = [_named_value(pair) for pair in pairs]
    if len(dict(named)) < len(named):
        counts = Counter(name for name, _ in named)
        twice = sorted(name for name, count in counts.items() if count > 1)
        raise NameConflict(
            f"several arrays are called {', '.join(map(repr, twice))}. Give each a name of its "
            "own, or let dump(None, file, parameters=[...]) number them"
        )
    write_snapshot(Snapshot.of_arrays(named), file_)


def _named_value(pair: Any) -> tuple[str, np.ndarray[Any, Any]]:
    # There may be ten thousand, and looking for shared variables takes time.
    if not isinstance(pair, tuple) and is_shared(pair):
        return str(pair.name), np.asarray(pair.get_value(borrow=True))
    name, value = pair
    if not isinstance(value, np.ndarray) and is_shared(value):
        value = value.get_value(borrow=True)
    return str(name), np.asarray(value)


def load_log(file_: PathOrFile, *, allow: Iterable[Any] = ()) -> Any:
    """Load the training log, and nothing else; runs no code of the file.

    Parameters
    ----------
    file_ : str, os.PathLike or binary file
    allow : iterable of type or str
        Classes that the log may contain beyond those a log is made of.

    Returns
    -------
    TrainingLog
    """
    with open_checkpoint(file_) as checkpoint:
        return checkpoint.log(allow=allow) if allow else checkpoint.log()


def load_iteration_state(file_: PathOrFile, *, main: Main = None) -> Any:
    """Load the pair of data stream and epoch iterator. Only for files you trust."""
    with open_checkpoint(file_) as checkpoint:
        return checkpoint.iteration_state(main=main)


def load_main_loop(file_: PathOrFile, *, main: Main = None) -> Any:
    """Load the main loop, without running it. Only for files you trust."""
    with open_checkpoint(file_) as checkpoint:
        return checkpoint.main_loop(main=main)


def _check_member_name(name: str) -> None:
    if name in (*RESERVED, "_pkl", "_parameters") or not name or name.endswith(".npy"):
        raise NameConflict(f"{name!r} is a name that checkpoints use themselves; choose another")
    if member_names([name], reserved=()) != [f"{name}.npy"]:
        raise NameConflict(f"{name!r} is no name for a file on every system; choose another")
