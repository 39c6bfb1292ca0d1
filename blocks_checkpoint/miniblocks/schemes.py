"""In which order, and how many at a time, the examples of an epoch come."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy

from .config import config
from .iterator import Chained, Positions

__all__ = [
    "BatchScheme",
    "BatchSizeScheme",
    "ConcatenatedScheme",
    "ConstantScheme",
    "IndexScheme",
    "IterationScheme",
    "SequentialExampleScheme",
    "SequentialScheme",
    "ShuffledExampleScheme",
    "ShuffledScheme",
]


class IterationScheme(ABC):
    """What a data stream asks its data set for, request by request.

    Attributes
    ----------
    requests_examples : bool
        Whether a request is for one example; else it is for a batch.
    """

    requests_examples: bool

    @abstractmethod
    def get_request_iterator(self) -> Iterator[Any]:
        """Return an iterator over the requests of one epoch; it pickles."""


class BatchSizeScheme(IterationScheme):
    """Base of the schemes that request a number of examples, not which ones."""

    requests_examples = False


class BatchScheme(IterationScheme):
    """Base of the schemes that request batches of indices.

    Parameters
    ----------
    examples : int or iterable of int
        Number of examples, or the indices of those to use.
    batch_size : int
        Examples in a batch; the last batch may have fewer.
    """

    requests_examples = False

    def __init__(self, examples: int | Iterable[int], batch_size: int) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; use 1 or more")
        self.indices = _indices(examples)
        self.batch_size = batch_size


class IndexScheme(IterationScheme):
    """Base of the schemes that request one index at a time.

    Parameters
    ----------
    examples : int or iterable of int
        Number of examples, or the indices of those to use.
    """

    requests_examples = True

    def __init__(self, examples: int | Iterable[int]) -> None:
        self.indices = _indices(examples)


class ConstantScheme(BatchSizeScheme):
    """Request the same number of examples again and again.

    Parameters
    ----------
    batch_size : int
    num_examples : int, optional
        End when so many were requested; the last request may be smaller.
    times : int, optional
        End after so many requests. With neither, there is no end.
    """

    def __init__(
        self, batch_size: int, num_examples: int | None = None, times: int | None = None
    ) -> None:
        if num_examples and times:
            raise ValueError("give num_examples or times, not both")
        self.batch_size = batch_size
        self.num_examples = num_examples
        self.times = times

    def get_request_iterator(self) -> Iterator[int]:
        """Return an iterator over batch sizes."""
        examples = self.times * self.batch_size if self.times else self.num_examples
        return _Sizes(self.batch_size, examples)


class SequentialScheme(BatchScheme):
    """Batches of indices in their order."""

    def get_request_iterator(self) -> Iterator[list[int]]:
        """Return an iterator over lists of indices."""
        return _Batches(self.indices, self.batch_size)


class ShuffledScheme(BatchScheme):
    """Batches of indices in an order drawn anew for each epoch.

    Parameters
    ----------
    examples : int or iterable of int
    batch_size : int
    rng : numpy.random.RandomState or numpy.random.Generator, optional
        Draws the orders; it is part of the scheme and pickles with it. By
        default one seeded with ``config.default_seed``.
    sorted_indices : bool, optional
        Sort the indices inside each batch.
    """

    def __init__(
        self,
        examples: int | Iterable[int],
        batch_size: int,
        rng: Any = None,
        sorted_indices: bool = False,
    ) -> None:
        super().__init__(examples, batch_size)
        self.rng = _generator(rng)
        self.sorted_indices = sorted_indices

    def get_request_iterator(self) -> Iterator[list[int]]:
        """Draw an order and return an iterator over lists of indices."""
        return _Batches(_shuffled(self.indices, self.rng), self.batch_size, self.sorted_indices)


class SequentialExampleScheme(IndexScheme):
    """Indices in their order."""

    def get_request_iterator(self) -> Iterator[int]:
        """Return an iterator over indices."""
        return Positions(self.indices)


class ShuffledExampleScheme(IndexScheme):
    """Indices in an order drawn anew for each epoch.

    Parameters
    ----------
    examples : int or iterable of int
    rng : numpy.random.RandomState or numpy.random.Generator, optional
        As for :class:`ShuffledScheme`.
    """

    def __init__(self, examples: int | Iterable[int], rng: Any = None) -> None:
        super().__init__(examples)
        self.rng = _generator(rng)

    def get_request_iterator(self) -> Iterator[int]:
        """Draw an order and return an iterator over indices."""
        return Positions(_shuffled(self.indices, self.rng).tolist())


class ConcatenatedScheme(IterationScheme):
    """The requests of several schemes, one scheme after another.

    Parameters
    ----------
    schemes : sequence of IterationScheme
        All for batches, or all for examples.
    """

    def __init__(self, schemes: Sequence[IterationScheme]) -> None:
        kinds = {scheme.requests_examples for scheme in schemes}
        if len(kinds) != 1:
            raise ValueError("the schemes must all request batches, or all request examples")
        self.schemes = schemes
        self.requests_examples = kinds.pop()

    def get_request_iterator(self) -> Iterator[Any]:
        """Return an iterator over the requests of all schemes."""
        return Chained([scheme.get_request_iterator() for scheme in self.schemes])


class _Batches(Iterator[list[int]]):
    """Successive slices of a sequence of indices, as lists."""

    def __init__(self, indices: Any, batch_size: int, is_sorted: bool = False) -> None:
        self.indices = indices
        self.batch_size = batch_size
        self.is_sorted = is_sorted
        self.position = 0

    def __next__(self) -> list[int]:
        batch = self.indices[self.position : self.position + self.batch_size]
        if not len(batch):
            raise StopIteration
        self.position += self.batch_size
        indices = batch.tolist() if isinstance(batch, numpy.ndarray) else list(batch)
        return sorted(indices) if self.is_sorted else indices


class _Sizes(Iterator[int]):
    """Equal batch sizes, the last one smaller, that add up to ``examples``."""

    def __init__(self, batch_size: int, examples: int | None) -> None:
        self.batch_size = batch_size
        self.examples_left = examples

    def __next__(self) -> int:
        if self.examples_left is None:
            return self.batch_size
        if not self.examples_left:
            raise StopIteration
        size = min(self.batch_size, self.examples_left)
        self.examples_left -= size
        return size


def _indices(examples: int | Iterable[int]) -> Sequence[int]:
    if not isinstance(examples, Iterable):
        return range(examples)
    return examples if isinstance(examples, Sequence) else [int(index) for index in examples]


def _generator(rng: Any) -> Any:
    return numpy.random.RandomState(config.default_seed) if rng is None else rng


def _shuffled(indices: Sequence[int], rng: Any) -> Any:
    order = numpy.array(indices)
    rng.shuffle(order)
    return order
