"""Data streams that change what another stream provides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy

from .iterator import Positions
from .schemes import BatchSizeScheme, IterationScheme
from .streams import AbstractDataStream

__all__ = ["Batch", "Cast", "Flatten", "Mapping", "ScaleAndShift", "Transformer"]


class Transformer(AbstractDataStream):
    """Base of the streams that wrap another one.

    Parameters
    ----------
    data_stream : AbstractDataStream
        The stream to wrap.
    produces_examples : bool, optional
        As the wrapped stream does, by default.
    **kwargs
        For :class:`.AbstractDataStream`.

    Attributes
    ----------
    child_epoch_iterator : iterator
        The present epoch of the wrapped stream.
    """

    def __init__(
        self,
        data_stream: AbstractDataStream,
        produces_examples: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.data_stream = data_stream
        if self.iteration_scheme is None:
            if produces_examples is None:
                produces_examples = data_stream.produces_examples
            self.produces_examples = produces_examples
        self.child_epoch_iterator: Iterator[Any] = Positions(())

    @property
    def sources(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of what it provides: what the wrapped stream does."""
        return self.data_stream.sources

    def close(self) -> None:
        """Close the wrapped stream."""
        self.data_stream.close()

    def reset(self) -> None:
        """Start the wrapped stream from the beginning."""
        self.data_stream.reset()

    def next_epoch(self) -> None:
        """Go to the next epoch of the wrapped stream."""
        self.data_stream.next_epoch()

    def get_epoch_iterator(self, as_dict: bool = False) -> Iterator[Any]:
        """Begin an epoch, also of the wrapped stream."""
        self.child_epoch_iterator = self.data_stream.get_epoch_iterator()
        return super().get_epoch_iterator(as_dict=as_dict)

    def get_data(self, request: Any = None) -> tuple[Any, ...]:
        """Return the next data of the wrapped stream, transformed."""
        if request is not None:
            raise ValueError(f"{type(self).__name__} takes no requests")
        return self.transform(next(self.child_epoch_iterator))

    def transform(self, data: tuple[Any, ...]) -> tuple[Any, ...]:
        """Transform one example or batch."""
        raise NotImplementedError


class Mapping(Transformer):
    """Apply a function to the data.

    Parameters
    ----------
    data_stream : AbstractDataStream
    mapping : callable
        Takes and returns a tuple, or a dictionary by source. It is pickled
        with the stream, so define it at the top of a module.
    add_sources : sequence of str, optional
        Keep the data, and add what the function returns under these names.
    mapping_accepts : {list, dict}, optional
        What the function takes; ``list`` stands for a tuple.
    """

    def __init__(
        self,
        data_stream: AbstractDataStream,
        mapping: Callable[[Any], Any],
        add_sources: Sequence[str] | None = None,
        mapping_accepts: type = list,
        **kwargs: Any,
    ) -> None:
        super().__init__(data_stream, **kwargs)
        if mapping_accepts not in (list, dict):
            raise ValueError(f"mapping_accepts is list or dict, not {mapping_accepts!r}")
        self.mapping = mapping
        self.mapping_accepts = mapping_accepts
        self.add_sources = tuple(add_sources or ())

    @property
    def sources(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the wrapped stream's sources and of those added."""
        return self.data_stream.sources + self.add_sources

    def transform(self, data: tuple[Any, ...]) -> tuple[Any, ...]:
        """Apply the function."""
        if self.mapping_accepts is dict:
            by_source = self.mapping(dict(zip(self.data_stream.sources, data)))
            image = tuple([by_source[source] for source in self.add_sources or self.sources])
        else:
            image = self.mapping(data)
        return (*data, *image) if self.add_sources else image


class _Sourcewise(Transformer):
    """Base of the transformers that treat each of some sources alike."""

    def __init__(
        self,
        data_stream: AbstractDataStream,
        which_sources: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(data_stream, **kwargs)
        self.which_sources = tuple(which_sources or data_stream.sources)

    def transform(self, data: tuple[Any, ...]) -> tuple[Any, ...]:
        """Transform each of ``which_sources``."""
        return tuple(
            [
                self.transform_source(numpy.asarray(item)) if source in self.which_sources else item
                for source, item in zip(self.sources, data)
            ]
        )

    def transform_source(self, data: Any) -> Any:
        """Transform the data of one source."""
        raise NotImplementedError


class Flatten(_Sourcewise):
    """Make one axis of all axes of an example.

    Parameters
    ----------
    data_stream : AbstractDataStream
    which_sources : sequence of str, optional
        All by default.
    """

    def transform_source(self, data: Any) -> Any:
        """Flatten an example, or each example of a batch."""
        return data.reshape(-1) if self.produces_examples else data.reshape(len(data), -1)


class ScaleAndShift(_Sourcewise):
    """Multiply by a number, then add one.

    Parameters
    ----------
    data_stream : AbstractDataStream
    scale, shift : float
    which_sources : sequence of str, optional
        All by default.
    """

    def __init__(
        self, data_stream: AbstractDataStream, scale: float, shift: float, **kwargs: Any
    ) -> None:
        super().__init__(data_stream, **kwargs)
        self.scale = scale
        self.shift = shift

    def transform_source(self, data: Any) -> Any:
        """Scale and shift."""
        return data * self.scale + self.shift


class Cast(_Sourcewise):
    """Change the type of the numbers.

    Parameters
    ----------
    data_stream : AbstractDataStream
    dtype : str or numpy.dtype
        ``'floatX'`` is the default floating point type of the engine.
    which_sources : sequence of str, optional
        All by default.
    """

    def __init__(self, data_stream: AbstractDataStream, dtype: Any, **kwargs: Any) -> None:
        super().__init__(data_stream, **kwargs)
        if dtype == "floatX":
            # Here, not at the top: streams work without an engine.
            from ..engines import current

            dtype = current().floatX
        self.dtype = numpy.dtype(dtype)

    def transform_source(self, data: Any) -> Any:
        """Cast."""
        return data.astype(self.dtype)


class Batch(Transformer):
    """Make batches of the examples of a stream.

    Parameters
    ----------
    data_stream : AbstractDataStream
        Provides examples.
    iteration_scheme : BatchSizeScheme
        Says how many examples make each batch.
    """

    def __init__(
        self, data_stream: AbstractDataStream, iteration_scheme: IterationScheme, **kwargs: Any
    ) -> None:
        if not data_stream.produces_examples:
            raise ValueError("the wrapped stream produces batches already")
        if not isinstance(iteration_scheme, BatchSizeScheme):
            raise ValueError("Batch needs a scheme that requests numbers of examples")
        super().__init__(data_stream, iteration_scheme=iteration_scheme, **kwargs)

    def get_data(self, request: Any = None) -> tuple[Any, ...]:
        """Return a batch of ``request`` examples; of fewer at the end of the epoch."""
        if request is None:
            raise ValueError("Batch needs to be told a number of examples")
        examples = []
        for example in self.child_epoch_iterator:
            examples.append(example)
            if len(examples) == request:
                break
        if not examples:
            raise StopIteration
        return self.transform(tuple(zip(*examples)))

    def transform(self, data: tuple[Any, ...]) -> tuple[Any, ...]:
        """Make one array of each source's examples."""
        return tuple([numpy.asarray(examples) for examples in data])
