"""Arrays of a file by their names, each as its row of the manifest describes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from .errors import LoadError

__all__ = ["ArrayMapping", "as_described"]


class ArrayMapping(Mapping[str, "np.ndarray[Any, Any]"]):
    """Arrays by name, each read when it is asked for.

    A name is the true one, ``mlp/linear_0/W``; the one that the model uses,
    ``/mlp/linear_0.W``, is understood as well.

    Parameters
    ----------
    read : callable
        Returns the array that a row describes.
    rows : iterable of dict
        Of the manifest.
    """

    def __init__(
        self,
        read: Callable[[Mapping[str, Any]], np.ndarray[Any, Any]],
        rows: Iterable[Mapping[str, Any]],
    ) -> None:
        self._read = read
        self._rows = {row["name"]: row for row in rows}

    @cached_property
    def _by_parameter_name(self) -> dict[str, Mapping[str, Any]]:
        return {row["parameter_name"]: row for row in self._rows.values()}

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        row = self._rows.get(name) or self._by_parameter_name.get(name)
        if row is None:
            raise KeyError(name)
        return self._read(row)

    def __contains__(self, name: object) -> bool:
        return name in self._rows or name in self._by_parameter_name

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"<{len(self)} arrays: {', '.join(self._rows)}>"


def as_described(
    array: np.ndarray[Any, Any], row: Mapping[str, Any], path: str | None
) -> np.ndarray[Any, Any]:
    """Check an array against its row, and give it a dtype that NPY cannot name."""
    if [*array.shape] != row["shape"]:
        raise LoadError(
            f"the manifest says the shape is {row['shape']}, the member has {list(array.shape)}",
            path=path,
            member=row["member"],
        )
    if array.dtype.kind == "V" and array.dtype.names is None and row["dtype"].isidentifier():
        try:
            import ml_dtypes
        except ImportError:
            return array
        # The name may be any that a stranger liked to write there.
        kind = getattr(ml_dtypes, row["dtype"], None)
        if not isinstance(kind, type) or not issubclass(kind, np.generic):
            return array
        dtype = np.dtype(kind)
        if dtype.itemsize != array.dtype.itemsize:
            raise LoadError(
                f"the manifest says the dtype is {dtype}, and the member has items of "
                f"{array.dtype.itemsize} bytes",
                path=path,
                member=row["member"],
            )
        return array.view(dtype)
    return array
