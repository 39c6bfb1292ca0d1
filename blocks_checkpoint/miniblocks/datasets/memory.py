"""Data sets made of objects in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..iterator import Zipped, picklable_iter
from ..schemes import SequentialExampleScheme
from .base import Dataset

__all__ = ["IndexableDataset", "IterableDataset"]


class IterableDataset(Dataset):
    """Examples in the order in which iterables give them.

    Parameters
    ----------
    iterables : dict of str to iterable, or iterable
        By source; a single one becomes the source ``data``. Whatever has a
        length and takes integers can be saved in the middle of an epoch;
        other iterables need an iterator that pickles.
    **kwargs
        For :class:`Dataset`.
    """

    def __init__(self, iterables: Mapping[str, Iterable[Any]] | Iterable[Any], **kwargs: Any):
        by_source = iterables if isinstance(iterables, Mapping) else {"data": iterables}
        self.provides_sources = tuple(by_source)
        super().__init__(**kwargs)
        self.iterables = [by_source[source] for source in self.sources]
        for source, iterable in zip(self.sources, self.iterables):
            if not isinstance(iterable, Iterable):
                raise ValueError(f"source {source} is not iterable: {iterable!r}")
        _require_equal_lengths(self.sources, self.iterables)

    @property
    def num_examples(self) -> float:
        """Number of examples; NaN where the iterables have no length."""
        first: Any = self.iterables[0]
        return len(first) if hasattr(first, "__len__") else float("nan")

    def open(self) -> Iterator[tuple[Any, ...]]:
        """Return an iterator over the examples."""
        return Zipped([picklable_iter(iterable) for iterable in self.iterables])

    def get_data(self, state: Any = None, request: Any = None) -> tuple[Any, ...]:
        """Return the next example; it takes no request."""
        if state is None or request is not None:
            raise ValueError("an IterableDataset gives examples in its own order only")
        return next(state)


class IndexableDataset(Dataset):
    """Examples that can be asked for by index.

    Parameters
    ----------
    indexables : dict of str to sequence, or sequence
        Arrays, lists, ... by source; a single one becomes the source
        ``data``. All of one length.
    start, stop : int, optional
        Use the examples in this range only.
    **kwargs
        For :class:`Dataset`.

    Notes
    -----
    Each source is an attribute of the data set as well.
    """

    def __init__(
        self,
        indexables: Mapping[str, Sequence[Any]] | Sequence[Any],
        start: int | None = None,
        stop: int | None = None,
        **kwargs: Any,
    ) -> None:
        by_source = indexables if isinstance(indexables, Mapping) else {"data": indexables}
        self.provides_sources = tuple(by_source)
        super().__init__(**kwargs)
        self.start = start
        self.stop = stop
        self.indexables = [by_source[source] for source in self.sources]
        if start is not None or stop is not None:
            self.indexables = [indexable[start:stop] for indexable in self.indexables]
        _require_equal_lengths(self.sources, self.indexables)

    def __getattr__(self, name: str) -> Any:
        # ``__dict__``: while unpickling, none of the attributes is there yet.
        sources = self.__dict__.get("_sources") or self.__dict__.get("provides_sources", ())
        if name in sources and "indexables" in self.__dict__:
            return self.indexables[sources.index(name)]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    @property
    def num_examples(self) -> int:
        """Number of examples."""
        return len(self.indexables[0])

    @property
    def example_iteration_scheme(self) -> SequentialExampleScheme:
        """Scheme that goes over the examples one by one."""
        return SequentialExampleScheme(self.num_examples)

    def get_data(self, state: Any = None, request: Any = None) -> tuple[Any, ...]:
        """Return the examples requested: one by an int, several by a slice or list."""
        if state is not None or request is None:
            raise ValueError("an IndexableDataset needs an iteration scheme to say which examples")
        return tuple([_take(indexable, request) for indexable in self.indexables])


def _take(indexable: Any, request: Any) -> Any:
    if isinstance(request, list) and not hasattr(indexable, "dtype"):
        return [indexable[index] for index in request]
    return indexable[request]


def _require_equal_lengths(sources: Sequence[str], containers: Sequence[Any]) -> None:
    lengths = {
        source: len(container)
        for source, container in zip(sources, containers)
        if hasattr(container, "__len__")
    }
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the sources differ in length: {lengths}")
