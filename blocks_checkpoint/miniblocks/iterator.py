"""Iterators that pickle in the middle of their work.

Generators do not pickle at all, and those of :mod:`itertools` no longer do
from Python 3.14 on: every iterator that a data stream keeps is one of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .streams import AbstractDataStream

__all__ = ["Chained", "DataIterator", "Positions", "PushedBack", "Zipped", "picklable_iter"]


class DataIterator(Iterator[Any]):
    """One epoch of a data stream.

    Parameters
    ----------
    data_stream : AbstractDataStream
    request_iterator : iterator, optional
        Its values are what the stream is asked for, one after another.
    as_dict : bool, optional
        Return dictionaries from source name to data in the place of tuples.
    """

    def __init__(
        self,
        data_stream: AbstractDataStream,
        request_iterator: Iterator[Any] | None = None,
        as_dict: bool = False,
    ) -> None:
        self.data_stream = data_stream
        self.request_iterator = request_iterator
        self.as_dict = as_dict

    def __next__(self) -> Any:
        if self.request_iterator is None:
            data = self.data_stream.get_data()
        else:
            data = self.data_stream.get_data(next(self.request_iterator))
        return dict(zip(self.data_stream.sources, data)) if self.as_dict else data


class PushedBack(Iterator[Any]):
    """An iterator to which an element was given back.

    Parameters
    ----------
    element : object
        Comes next.
    iterator : iterator
        Comes after it.
    """

    def __init__(self, element: Any, iterator: Iterator[Any]) -> None:
        self._elements = [element]
        self._iterator = iterator

    def __next__(self) -> Any:
        return self._elements.pop() if self._elements else next(self._iterator)


class Positions(Iterator[Any]):
    """The elements of a sequence, one after another.

    Parameters
    ----------
    sequence : sequence
        Whatever has a length and takes integers from 0 on.
    """

    def __init__(self, sequence: Sequence[Any]) -> None:
        self.sequence = sequence
        self.position = 0

    def __next__(self) -> Any:
        if self.position >= len(self.sequence):
            raise StopIteration
        self.position += 1
        return self.sequence[self.position - 1]


class Zipped(Iterator[tuple[Any, ...]]):
    """Tuples of one element from each iterator, as long as all have one."""

    def __init__(self, iterators: Iterable[Iterator[Any]]) -> None:
        self.iterators = list(iterators)

    def __next__(self) -> tuple[Any, ...]:
        return tuple([next(iterator) for iterator in self.iterators])


class Chained(Iterator[Any]):
    """All elements of the first iterator, then all of the second, and so on."""

    def __init__(self, iterators: Iterable[Iterator[Any]]) -> None:
        self.iterators = list(iterators)

    def __next__(self) -> Any:
        while self.iterators:
            try:
                return next(self.iterators[0])
            except StopIteration:
                del self.iterators[0]
        raise StopIteration


def picklable_iter(iterable: Iterable[Any]) -> Iterator[Any]:
    """Iterate over something; with an iterator that pickles, where possible.

    That is so for whatever has a length and takes integers; other things
    are asked for their own iterator.
    """
    is_sequence = hasattr(iterable, "__len__") and hasattr(iterable, "__getitem__")
    if is_sequence and not hasattr(iterable, "keys"):
        return Positions(iterable)  # type: ignore[arg-type]
    return iter(iterable)
