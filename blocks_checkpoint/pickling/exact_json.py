"""Plain values as JSON, and back, without losing what they are.

JSON knows lists, texts and numbers, and nothing of tuples, of dictionaries
whose keys are numbers, or of NumPy's dtypes. What it does not know is written
as an object with one key that says what it is, ``{"=tuple": [1, 2]}``. JSON
rather than a pickle: it can be read from a file that one does not trust.
"""

from __future__ import annotations

import base64
import math
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

__all__ = ["from_json", "to_json"]

#: What begins the key that says what a value is.
MARK = "="
_FACTORIES: dict[str, Any] = {
    cls.__name__: cls for cls in (int, float, complex, str, list, dict, set, tuple)
}


def to_json(value: Any) -> Any:
    """Return a value as JSON can hold it.

    Raises
    ------
    TypeError
        It is, or holds, something else than numbers, texts, bytes, arrays of
        such, and Python's containers. The message says what.
    """
    if isinstance(value, (np.generic, np.ndarray)):
        return _array_to_json(value)
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is list:
        return [to_json(each) for each in value]
    if kind is dict and all(type(key) is str and key[:1] != MARK for key in value):
        return {key: to_json(each) for key, each in value.items()}
    if kind not in _TAKEN_APART:
        raise TypeError(f"it has a {kind.__module__}.{kind.__qualname__}")
    return {MARK + kind.__name__: _TAKEN_APART[kind](value)}


def from_json(value: Any) -> Any:
    """Return the value that :func:`to_json` made JSON of.

    Raises
    ------
    ValueError
        It made no such thing.
    """
    if isinstance(value, list):
        return [from_json(each) for each in value]
    if not isinstance(value, dict):
        return value
    marks = [key for key in value if key[:1] == MARK]
    if not marks:
        return {key: from_json(each) for key, each in value.items()}
    mark = marks[0]
    if len(value) != 1 or mark[1:] not in _PUT_TOGETHER:
        raise ValueError(f"there is no value of the kind {mark!r:.40}")
    try:
        return _PUT_TOGETHER[mark[1:]](value[mark])
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        raise ValueError(f"this is no {mark[1:]}: {error}") from error


def _elements(value: Any) -> list[Any]:
    return [to_json(each) for each in value]


def _items(value: Mapping[Any, Any]) -> list[Any]:
    return [[to_json(key), to_json(each)] for key, each in value.items()]


def _pairs(stored: Any) -> list[tuple[Any, Any]]:
    return [(from_json(key), from_json(each)) for key, each in stored]


def _default_dict(value: Any) -> list[Any]:
    factory = value.default_factory
    if factory is not None and factory not in _FACTORIES.values():
        raise TypeError(f"it has a defaultdict of {factory!r:.60}")
    return [None if factory is None else factory.__name__, _items(value)]


_TAKEN_APART: dict[type, Callable[[Any], Any]] = {
    tuple: _elements,
    set: _elements,
    frozenset: _elements,
    dict: _items,
    OrderedDict: _items,
    Counter: _items,
    defaultdict: _default_dict,
    deque: lambda value: [value.maxlen, _elements(value)],
    bytes: lambda value: base64.b64encode(value).decode(),
    bytearray: lambda value: base64.b64encode(value).decode(),
    complex: lambda value: [value.real, value.imag],
}


def _array_to_json(value: Any) -> Any:
    array = np.asarray(value)
    if type(value) is not np.ndarray and not isinstance(value, np.generic):
        raise TypeError(f"it has a {type(value).__module__}.{type(value).__qualname__}")
    if array.dtype.hasobject or array.dtype.kind == "V":
        raise TypeError(f"it has an array of {array.dtype}")
    content = base64.b64encode(array.tobytes()).decode()
    if isinstance(value, np.generic):
        return {f"{MARK}scalar": [array.dtype.str, content]}
    return {f"{MARK}array": [array.dtype.str, list(array.shape), content]}


def _array(stored: Any) -> Any:
    spec, shape, content = stored
    dtype = np.dtype(str(spec))
    if dtype.hasobject or dtype.kind == "V" or not dtype.itemsize:
        raise TypeError(f"an array of {dtype} is not among the plain values")
    raw = base64.b64decode(content, validate=True)
    if any(type(n) is not int or n < 0 for n in shape) or (
        math.prod(shape) * dtype.itemsize != len(raw)
    ):
        raise TypeError(f"{len(raw)} bytes are no array of the shape {shape!r:.60}")
    return np.frombuffer(raw, dtype).reshape(shape).copy()


def _scalar(stored: Any) -> Any:
    spec, content = stored
    return _array([spec, [], content])[()]


def _from_default_dict(stored: Any) -> Any:
    name, items = stored
    return defaultdict(None if name is None else _FACTORIES[name], _pairs(items))


def _deque(stored: Any) -> Any:
    length, elements = stored
    return deque(map(from_json, elements), length)


_PUT_TOGETHER: dict[str, Callable[[Any], Any]] = {
    "tuple": lambda stored: tuple(map(from_json, stored)),
    "set": lambda stored: set(map(from_json, stored)),
    "frozenset": lambda stored: frozenset(map(from_json, stored)),
    "dict": lambda stored: dict(_pairs(stored)),
    "OrderedDict": lambda stored: OrderedDict(_pairs(stored)),
    "Counter": lambda stored: Counter(dict(_pairs(stored))),
    "defaultdict": _from_default_dict,
    "deque": _deque,
    "bytes": lambda stored: base64.b64decode(stored, validate=True),
    "bytearray": lambda stored: bytearray(base64.b64decode(stored, validate=True)),
    "complex": lambda stored: complex(*stored),
    "array": _array,
    "scalar": _scalar,
}
