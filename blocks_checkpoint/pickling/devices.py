"""Arrays that are not in main memory.

A value of such a type is stored as a NumPy array and turned back on loading.
The package knows none by itself; whoever uses one registers it::

    register_array_type(GpuArray, to_numpy=numpy.asarray, from_numpy=gpu_array)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import LoadError

__all__ = ["register_array_type"]


@dataclass(frozen=True)
class _Conversion:
    to_numpy: Callable[[Any], np.ndarray[Any, Any]]
    from_numpy: Callable[[np.ndarray[Any, Any]], Any]


_conversions: dict[type, _Conversion] = {}


def register_array_type(
    cls: type,
    *,
    to_numpy: Callable[[Any], np.ndarray[Any, Any]],
    from_numpy: Callable[[np.ndarray[Any, Any]], Any],
) -> None:
    """Make values of a class be stored as arrays.

    Parameters
    ----------
    cls : type
        The very class, not its subclasses.
    to_numpy : callable
        From a value to a :class:`numpy.ndarray`, copied to main memory.
    from_numpy : callable
        From such an array to a value equal to the first.
    """
    _conversions[cls] = _Conversion(to_numpy, from_numpy)


def registered_types() -> list[type]:
    """List the classes registered."""
    return list(_conversions)


def type_name(cls: type) -> str:
    """Return the name under which a class is looked up on loading."""
    return f"{cls.__module__}.{cls.__qualname__}"


def to_numpy(value: Any) -> np.ndarray[Any, Any]:
    """Copy a value of a registered class to main memory."""
    return np.asarray(_conversions[type(value)].to_numpy(value))


def from_numpy(name: str, array: np.ndarray[Any, Any]) -> Any:
    """Turn a stored array back into a value of the class called ``name``.

    Raises
    ------
    LoadError
        No class of that name is registered in this process.
    """
    for cls, conversion in _conversions.items():
        if type_name(cls) == name:
            return conversion.from_numpy(array)
    raise LoadError(
        f"the main loop holds an array of type {name}, which nobody has registered here. "
        "Import the library it comes from and call "
        "blocks_checkpoint.register_array_type, or load the parameters alone: "
        "they need no such type"
    )
