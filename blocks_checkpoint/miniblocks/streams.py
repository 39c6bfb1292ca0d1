"""Data streams: a data set and an iteration scheme, read epoch by epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .iterator import DataIterator

if TYPE_CHECKING:
    from .datasets import Dataset
    from .schemes import IterationScheme

__all__ = ["AbstractDataStream", "DataStream"]


class AbstractDataStream:
    """Base of data streams and of the transformers that wrap them.

    Parameters
    ----------
    iteration_scheme : IterationScheme, optional
    axis_labels : dict, optional
        What the axes of each source are; only carried along.

    Attributes
    ----------
    sources : tuple of str
        Names of what it provides.
    produces_examples : bool
        Whether it provides one example at a time; else batches.
    """

    sources: tuple[str, ...]

    def __init__(
        self,
        iteration_scheme: IterationScheme | None = None,
        axis_labels: dict[str, Any] | None = None,
    ) -> None:
        self.iteration_scheme = iteration_scheme
        self.axis_labels = axis_labels
        self._produces_examples = True

    @property
    def produces_examples(self) -> bool:
        """Whether it provides one example at a time; else batches."""
        if self.iteration_scheme is not None:
            return self.iteration_scheme.requests_examples
        return self._produces_examples

    @produces_examples.setter
    def produces_examples(self, value: bool) -> None:
        if self.iteration_scheme is not None:
            raise ValueError("the iteration scheme says what the stream produces")
        self._produces_examples = value

    def get_data(self, request: Any = None) -> tuple[Any, ...]:
        """Return the data for one request, in the order of ``sources``."""
        raise NotImplementedError

    def reset(self) -> None:
        """Start from the beginning."""

    def close(self) -> None:
        """Release files."""

    def next_epoch(self) -> None:
        """Go to the next epoch."""

    def get_epoch_iterator(self, as_dict: bool = False) -> Iterator[Any]:
        """Begin an epoch and return an iterator over it."""
        scheme = self.iteration_scheme
        requests = scheme.get_request_iterator() if scheme is not None else None
        return DataIterator(self, requests, as_dict=as_dict)

    def iterate_epochs(self, as_dict: bool = False) -> Iterator[Iterator[Any]]:
        """Yield an iterator per epoch, without end."""
        while True:
            yield self.get_epoch_iterator(as_dict=as_dict)


class DataStream(AbstractDataStream):
    """Data of a data set, in the order of an iteration scheme.

    Parameters
    ----------
    dataset : Dataset
    iteration_scheme : IterationScheme, optional
        Without one, the data set itself decides what comes next.
    **kwargs
        For :class:`AbstractDataStream`.
    """

    def __init__(self, dataset: Dataset, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset
        self.data_state = dataset.open()
        self._is_fresh = True

    @classmethod
    def default_stream(cls, dataset: Dataset, **kwargs: Any) -> AbstractDataStream:
        """Make a stream with the data set's default transformers around it."""
        return dataset.apply_default_transformers(cls(dataset, **kwargs))

    @property
    def sources(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of what the data set provides."""
        return self.dataset.sources

    def get_data(self, request: Any = None) -> tuple[Any, ...]:
        """Return what the data set has for one request."""
        return self.dataset.get_data(self.data_state, request)

    def reset(self) -> None:
        """Start from the beginning."""
        self.data_state = self.dataset.reset(self.data_state)
        self._is_fresh = True

    def close(self) -> None:
        """Release what the data set holds open."""
        self.data_state = self.dataset.close(self.data_state)

    def next_epoch(self) -> None:
        """Go to the next epoch of the data set."""
        self.data_state = self.dataset.next_epoch(self.data_state)

    def get_epoch_iterator(self, as_dict: bool = False) -> Iterator[Any]:
        """Begin an epoch and return an iterator over it."""
        if not self._is_fresh:
            self.next_epoch()
        self._is_fresh = False
        return super().get_epoch_iterator(as_dict=as_dict)
