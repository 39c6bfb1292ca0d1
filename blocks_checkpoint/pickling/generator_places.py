"""Where in a main loop random generators hang, and putting them back there.

Who continues a run gets its extensions from the file. Who resumes it in a
newly built main loop has new ones, of the same shape: the generators in them
are found by the same paths, and are put into the state that they had. The
data stream does come from the file; a generator that an extension shares with
it is shared again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from ..engines import ENGINES
from ..errors import LoadError
from .extension_states import named_extensions, without_doubtful
from .generator_states import is_generator, is_global, new_generator, put_state, state_of

__all__ = [
    "LEAVES",
    "STREAM_PARTS",
    "Path",
    "check_described",
    "children_of",
    "describe_generators",
    "find_generators",
    "part_of",
    "put_generators",
    "replace_at",
    "spelled",
    "take_step",
]

logger = logging.getLogger(__name__)

#: A step of a path: ``.name`` is an attribute, ``:name`` a key, a number an
#: index; the first names a part of the main loop.
Path = tuple[Any, ...]

#: Parts of the main loop that a checkpoint brings along.
STREAM_PARTS = ("data_stream", "epoch_iterator")
MAX_DEPTH = 12
#: Longer ones are data.
MAX_ELEMENTS = 1000
#: Nothing hangs in these.
LEAVES: tuple[type, ...] = (
    *(str, bytes, int, float, complex, bool, type(None)),
    *(type, FunctionType, BuiltinFunctionType, ModuleType),
)
# Data are lists of numbers, and there may be hundreds of thousands of them: that
# there is nothing in one is found out without a step of Python for each element.
_LEAF_TYPES = frozenset(LEAVES)


def find_generators(main_loop: Any) -> list[tuple[Path, Any]]:
    """List the random generators of a main loop, each with its paths.

    One that hangs in several places is listed several times. The global ones
    are left out, and so are those that are the values of shared variables.
    """
    parts = _parts_of(main_loop)
    ends = [id(main_loop), id(main_loop.log), id(getattr(main_loop, "profile", None))]
    return [found for name, part in parts for found in _walk((name,), part, set(ends))]


def _parts_of(main_loop: Any) -> Iterator[tuple[str, Any]]:
    yield "data_stream", main_loop.data_stream
    yield "epoch_iterator", getattr(main_loop, "epoch_iterator", None)
    yield "algorithm", getattr(main_loop, "algorithm", None)
    yield from named_extensions(main_loop.extensions)


def _walk(path: Path, thing: Any, seen: set[int]) -> Iterator[tuple[Path, Any]]:
    if isinstance(thing, LEAVES):
        return
    if is_generator(thing):
        if not is_global(thing):
            yield path, thing
        return
    if id(thing) in seen or len(path) > MAX_DEPTH or _is_of_an_engine(thing):
        return
    seen.add(id(thing))
    for step, child in children_of(thing):
        yield from _walk((*path, step), child, seen)


def _is_of_an_engine(thing: Any) -> bool:
    """Tell whether this belongs to a graph; a random stream's own seeds are used up."""
    return type(thing).__module__.partition(".")[0] in (*ENGINES, "numpy")


def children_of(thing: Any) -> Iterator[tuple[Any, Any]]:
    """Go through what hangs in an object, each with the step that leads to it."""
    if isinstance(thing, (list, tuple)):
        if len(thing) <= MAX_ELEMENTS and not _LEAF_TYPES.issuperset(map(type, thing)):
            yield from enumerate(thing)
    elif isinstance(thing, dict):
        if len(thing) <= MAX_ELEMENTS and not _LEAF_TYPES.issuperset(map(type, thing.values())):
            for key, value in thing.items():
                if isinstance(key, str):
                    yield f":{key}", value
    elif isinstance(thing, MethodType):
        yield ".__self__", thing.__self__
    elif isinstance(thing, partial):
        yield ".func", thing.func
        yield ".args", thing.args
        yield ".keywords", thing.keywords
    attributes = getattr(thing, "__dict__", None)
    if isinstance(attributes, dict):
        for name, value in attributes.items():
            yield f".{name}", value
    for name in _slots(type(thing)):
        if name not in (attributes or ()) and hasattr(thing, name):
            yield f".{name}", getattr(thing, name)


def _slots(cls: type) -> Iterator[str]:
    for each in cls.__mro__:
        slots = each.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if not name.startswith("__"):
                yield name


def describe_generators(main_loop: Any) -> list[dict[str, Any]]:
    """Describe the generators that a main loop has apart from its data stream.

    Returns
    -------
    list of dict
        For each of them ``at``, a list of all its paths, those in the data
        stream included, and its ``state``. JSON can hold it.
    """
    places: dict[int, list[Path]] = {}
    generators: dict[int, Any] = {}
    for path, generator in find_generators(main_loop):
        places.setdefault(id(generator), []).append(path)
        generators[id(generator)] = generator
    return [
        {"at": [list(path) for path in paths], "state": state_of(generators[key])}
        for key, paths in places.items()
        if any(path[0] not in STREAM_PARTS for path in paths)
    ]


def check_described(described: Sequence[Any], path: str | None) -> None:
    """Refuse descriptions of generators that are damaged.

    Raises
    ------
    LoadError
    """
    try:
        for each in described:
            new_generator(each["state"])
            if not each["at"] or not all(_is_path(place) for place in each["at"]):
                raise LoadError("the place of a random generator is damaged")
    except (TypeError, LookupError) as error:
        raise LoadError(
            "the places of random generators are damaged", path=path, member="random_state"
        ) from error
    except LoadError as error:
        error.path = error.path or path
        raise


def _is_path(place: Any) -> bool:
    return (
        isinstance(place, list)
        and bool(place)
        and isinstance(place[0], str)
        and all(isinstance(step, (str, int)) and step != "" for step in place)
    )


def put_generators(main_loop: Any, described: Sequence[Mapping[str, Any]]) -> None:
    """Put the generators of a main loop into the states that were described.

    The data stream of the main loop is the one that was saved. A generator
    for which there is nothing keeps its own state; a warning is logged.

    Parameters
    ----------
    main_loop : MainLoop
    described : sequence of dict
        As :func:`check_described` left it.
    """
    present: dict[Path, Any] = dict(find_generators(main_loop))
    waiting = {path for path in present if path[0] not in STREAM_PARTS}
    stored = [tuple(path) for each in described for path in each["at"]]
    clear = without_doubtful(
        [path[0] for path in waiting], [path[0] for path in stored if path[0] not in STREAM_PARTS]
    )
    waiting = {path for path in waiting if path[0] in clear}
    for each in described:
        paths = [path for path in map(tuple, each["at"]) if path[0] in {*clear, *STREAM_PARTS}]
        if all(path[0] in STREAM_PARTS for path in paths):
            continue
        inside = [present[path] for path in paths if path[0] in STREAM_PARTS and path in present]
        here = [path for path in paths if path in waiting]
        waiting.difference_update(here)
        if not here:
            logger.info("no random generator hangs at %s here", spelled(paths[0]))
            continue
        generator = inside[0] if inside else present[here[0]]
        if not inside:
            try:
                put_state(generator, each["state"])
            except LoadError as error:
                logger.debug("%s: %s", spelled(here[0]), error)
                generator = new_generator(each["state"])
        for path in here:
            if type(present[path]) is not type(generator):
                logger.warning(
                    "the random generator at %s was a %s: it begins anew",
                    spelled(path),
                    type(generator).__name__,
                )
            elif present[path] is not generator:
                _assign(main_loop, path, generator, each["state"])
    for path in sorted(waiting, key=spelled):
        logger.warning(
            "the file has no state for the random generator at %s: it begins anew", spelled(path)
        )


def _assign(main_loop: Any, path: Path, generator: Any, state: Mapping[str, Any]) -> None:
    """Let a place have this generator; or else one in the same state."""
    holder = part_of(main_loop, path[0])
    for step in path[1:-1]:
        holder = take_step(holder, step)
    last = path[-1]
    try:
        replace_at(holder, last, generator)
    except (TypeError, AttributeError) as error:
        logger.warning(
            "the random generator at %s was one with another one, and is no longer: %s",
            spelled(path),
            error,
        )
        put_state(take_step(holder, last), state)


def part_of(main_loop: Any, name: str) -> Any:
    """Return the part of a main loop that a path begins with."""
    return next(part for each, part in _parts_of(main_loop) if each == name)


def take_step(holder: Any, step: Any) -> Any:
    """Return what hangs in an object where a step leads."""
    if isinstance(step, int):
        return holder[step]
    return holder[step[1:]] if step[0] == ":" else getattr(holder, step[1:])


def replace_at(holder: Any, step: Any, thing: Any) -> None:
    """Let another thing hang in an object where a step leads.

    Raises
    ------
    TypeError or AttributeError
        The object cannot be changed.
    """
    if isinstance(step, int):
        holder[step] = thing
    elif step[0] == ":":
        holder[step[1:]] = thing
    else:
        setattr(holder, step[1:], thing)


def spelled(path: Path) -> str:
    """Write a path as a person would."""
    steps = [
        f"[{step}]" if isinstance(step, int) else step if step[0] == "." else f"[{step[1:]!r}]"
        for step in path[1:]
    ]
    return str(path[0]) + "".join(steps)
