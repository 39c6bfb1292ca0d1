"""What a data set is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from ..schemes import IterationScheme
from ..streams import AbstractDataStream, DataStream

__all__ = ["Dataset"]


class Dataset(ABC):
    """Named sources of data that belong together, example by example.

    A data set keeps no position: what changes while it is read is a *state*,
    which the data stream owns.

    Parameters
    ----------
    sources : sequence of str, optional
        Which of the sources to provide; all by default.
    axis_labels : dict, optional
        What the axes of each source are; only carried along.

    Attributes
    ----------
    provides_sources : tuple of str
        Names of all sources there are.
    default_transformers : tuple of (type, list, dict)
        Class, arguments and keywords of the transformers that
        :meth:`.DataStream.default_stream` puts around a stream.
    example_iteration_scheme : IterationScheme or None
        Goes over the examples one by one.
    """

    provides_sources: tuple[str, ...] = ()
    default_transformers: tuple[tuple[type, list[Any], dict[str, Any]], ...] = ()

    def __init__(
        self, sources: Sequence[str] | None = None, axis_labels: dict[str, Any] | None = None
    ) -> None:
        self._sources = None if sources is None else tuple(sources)
        self.axis_labels = axis_labels

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the sources provided, in the order that data comes in."""
        if self._sources is None:
            return self.provides_sources
        unknown = [source for source in self._sources if source not in self.provides_sources]
        if unknown or not self._sources:
            raise ValueError(
                f"there is no source {', '.join(unknown)}; "
                f"the data set provides {', '.join(self.provides_sources)}"
            )
        return self._sources

    @property
    def example_iteration_scheme(self) -> IterationScheme | None:
        """Scheme that goes over the examples one by one."""
        return None

    def get_example_stream(self) -> DataStream:
        """Make a stream of single examples, in their order."""
        return DataStream(self, iteration_scheme=self.example_iteration_scheme)

    def apply_default_transformers(self, stream: AbstractDataStream) -> AbstractDataStream:
        """Wrap ``stream`` in each of ``default_transformers``."""
        for transformer, args, kwargs in self.default_transformers:
            stream = transformer(stream, *args, **kwargs)
        return stream

    def open(self) -> Any:
        """Return the state in which reading begins."""
        return None

    def reset(self, state: Any) -> Any:
        """Return the state at the beginning again."""
        self.close(state)
        return self.open()

    def next_epoch(self, state: Any) -> Any:
        """Return the state for another epoch."""
        return self.reset(state)

    def close(self, state: Any) -> Any:
        """Release what the state holds open."""
        return None

    @abstractmethod
    def get_data(self, state: Any = None, request: Any = None) -> tuple[Any, ...]:
        """Return data in the order of ``sources``.

        Parameters
        ----------
        state : object
            As :meth:`open` returned it.
        request : int, slice or list of int
            Which examples; data sets that are read in their own order take None.
        """
