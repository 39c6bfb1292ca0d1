"""Data loaders of other libraries as data streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Union

import numpy as np

from ..state_methods import state_methods
from .iterator import DataIterator
from .streams import AbstractDataStream

__all__ = ["LoaderStream"]

Loader = Union[Iterable[Any], Callable[[], Iterable[Any]]]


class LoaderStream(AbstractDataStream):
    """The batches of a data loader that knows its place.

    That is torchdata's ``StatefulDataLoader``, a data set or ``DataLoader`` of
    Grain, or anything else that is iterable and either has ``state_dict`` and
    ``load_state_dict`` itself, or iterators with ``get_state`` and
    ``set_state``. A checkpoint holds the state that it returns.

    Parameters
    ----------
    loader : iterable or function
        Or a function without arguments, at the top level of a module, that
        makes it. Then the loader itself is not pickled: for one that cannot
        be, or that holds much data.
    sources : sequence of str
        Names of what a batch consists of: keys, if it is a mapping.
    batches_per_epoch : int, optional
        Have epochs of that many batches, of a loader that goes on for longer
        than that. By default an epoch ends with the loader's iterator, and
        the next one begins with a new iterator.
    axis_labels : dict, optional
        Only carried along.

    Raises
    ------
    TypeError
        From ``get_epoch_iterator``: the loader does not know its place.
    """

    def __init__(
        self,
        loader: Loader,
        sources: Sequence[str],
        *,
        batches_per_epoch: int | None = None,
        axis_labels: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(axis_labels=axis_labels)
        if batches_per_epoch is not None and batches_per_epoch < 1:
            raise ValueError(
                f"LoaderStream: batches_per_epoch is {batches_per_epoch}; use 1 or more"
            )
        self.produces_examples = False
        self.sources = tuple(sources)
        self.batches_per_epoch = batches_per_epoch
        self._make: Callable[[], Iterable[Any]] | None = None
        if callable(loader) and not hasattr(loader, "__iter__"):
            self._make = loader
        self.loader: Any = loader if self._make is None else self._make()
        self._begin()

    def _begin(self) -> None:
        self._iterator: Iterator[Any] | None = None
        self._is_in_epoch = False
        self._batches_done = 0
        self._has_begun = False

    def __getstate__(self) -> dict[str, Any]:
        transient = {"_iterator", "_is_in_epoch", "_batches_done", "_has_begun"}
        if self._make is not None:
            transient.add("loader")
        return {name: value for name, value in self.__dict__.items() if name not in transient}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self._make is not None:
            self.loader = self._make()
        self._begin()

    def get_epoch_iterator(self, as_dict: bool = False) -> Iterator[Any]:
        """Begin an epoch and return an iterator over it."""
        if self._iterator is None or self.batches_per_epoch is None:
            self._iterator = iter(self.loader)
            if state_methods(self.loader) is None and state_methods(self._iterator) is None:
                raise TypeError(
                    f"LoaderStream: a {type(self.loader).__name__} cannot say which batch comes "
                    "next. Use torchdata's StatefulDataLoader in the place of PyTorch's "
                    "DataLoader; or give the iterator's class get_state() and set_state(state)"
                )
        self._has_begun = True
        self._is_in_epoch = True
        self._batches_done = 0
        return DataIterator(self, as_dict=as_dict)

    def get_data(self, request: Any = None) -> tuple[Any, ...]:
        """Return the next batch, as arrays in the order of ``sources``."""
        if request is not None:
            raise ValueError("LoaderStream: the loader itself decides which batch comes next")
        if not self._is_in_epoch or self._batches_done == self.batches_per_epoch:
            self._is_in_epoch = False
            raise StopIteration
        assert self._iterator is not None
        try:
            batch = next(self._iterator)
        except StopIteration:
            self._is_in_epoch = False
            self._iterator = None
            raise
        self._batches_done += 1
        if isinstance(batch, Mapping):
            return tuple([np.asarray(batch[source]) for source in self.sources])
        return tuple([np.asarray(part) for part in batch])

    def state_dict(self) -> dict[str, Any]:
        """Return the place in the data. No batch is read."""
        # A loader that has not begun would begin if it were asked.
        knows = self._who_knows() if self._has_begun else None
        return {
            "is_in_epoch": self._is_in_epoch,
            "batches_done": self._batches_done,
            "has_iterator": self._iterator is not None,
            "has_begun": self._has_begun,
            "place": None if knows is None else getattr(knows, _methods_of(knows)[0])(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to a place that :meth:`state_dict` returned."""
        self._begin()
        self._is_in_epoch = state["is_in_epoch"]
        self._batches_done = state["batches_done"]
        self._has_begun = state["has_begun"]
        place, methods = state["place"], state_methods(self.loader)
        if methods is not None and place is not None:
            getattr(self.loader, methods[1])(place)
            if not state["has_iterator"]:
                # Between epochs. Asked for its state, a loader takes up the one
                # that it was given, and will not do so when the epoch begins.
                getattr(self.loader, methods[0])()
        if state["has_iterator"]:
            self._iterator = iter(self.loader)
            if methods is None:
                getattr(self._iterator, _methods_of(self._iterator)[1])(place)

    def _who_knows(self) -> Any:
        return self._iterator if state_methods(self.loader) is None else self.loader


def _methods_of(thing: Any) -> tuple[str, str]:
    pair = state_methods(thing)
    assert pair is not None
    return pair
