"""From the values of a variable on each batch to one value over all of them.

How that is done is a *scheme*, which hangs on the variable as
``tag.aggregation_scheme``. What has been seen so far is kept in shared
variables, so that a checkpoint in mid-epoch has it.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ...engines import current
from ..utils.shared import shared_like

__all__ = [
    "AggregationScheme",
    "Aggregator",
    "Maximum",
    "Mean",
    "Minimum",
    "MonitoredQuantity",
    "TakeLast",
    "maximum",
    "mean",
    "minimum",
    "take_last",
]


class Aggregator:
    """What a scheme keeps of one variable.

    Parameters
    ----------
    accumulators : sequence of _Accumulator
    read : callable
        Makes the value over all batches of the accumulators' values.
    """

    def __init__(self, accumulators: Sequence[_Accumulator], read: Callable[..., Any]) -> None:
        self.accumulators = accumulators
        self.read = read

    @property
    def accumulation_updates(self) -> list[tuple[Any, Any]]:
        """The updates to do on each batch."""
        return [update for accumulator in self.accumulators for update in accumulator.updates]

    def initialize(self) -> None:
        """Forget what was seen."""
        for accumulator in self.accumulators:
            accumulator.is_filled.set_value(accumulator.is_filled.get_value() * 0)

    def get_value(self) -> Any:
        """Return the value over all batches since."""
        return self.read(*[accumulator.storage.get_value() for accumulator in self.accumulators])


class _Accumulator:
    """A shared variable into which the values on the batches are folded.

    Parameters
    ----------
    value : variable
        Its value on one batch.
    fold : callable
        Makes the next content of the present one and the value.
    name : str
    """

    def __init__(self, value: Any, fold: Callable[[Any, Any], Any], name: str) -> None:
        value = current().tensor.as_tensor_variable(value)
        self.storage = shared_like(value, name=name)
        self.is_filled = shared_like(0.0, name=f"{name}_is_filled")
        one = self.is_filled * 0 + 1
        folded = fold(_in_shape_of(self.storage, value), value)
        folded = current().tensor.switch(self.is_filled, folded, value)
        self.updates = [(self.storage, folded), (self.is_filled, one)]


class AggregationScheme(ABC):
    """Base of all schemes.

    Parameters
    ----------
    variable : variable
        Its value on one batch.
    """

    def __init__(self, variable: Any) -> None:
        self.variable = variable

    @abstractmethod
    def get_aggregator(self) -> Aggregator:
        """Make a new aggregator."""


class Mean(AggregationScheme):
    """Sum of the numerators by the sum of the denominators.

    Parameters
    ----------
    numerator : variable
    denominator : variable or number
    """

    def __init__(self, numerator: Any, denominator: Any) -> None:
        super().__init__(numerator)
        self.denominator = denominator

    def get_aggregator(self) -> Aggregator:
        """Make a new aggregator."""
        name = self.variable.name
        numerator = _Accumulator(self.variable, operator.add, f"{name}_numerator")
        denominator = _Accumulator(self.denominator, operator.add, f"{name}_denominator")
        return Aggregator([numerator, denominator], operator.truediv)


class _Fold(AggregationScheme):
    """Base of the schemes with one accumulator."""

    @abstractmethod
    def fold(self, content: Any, value: Any) -> Any:
        """Return the next content of the accumulator."""

    def get_aggregator(self) -> Aggregator:
        """Make a new aggregator."""
        name = f"{self.variable.name}_{type(self).__name__.lower()}"
        return Aggregator([_Accumulator(self.variable, self.fold, name)], _identity)


class TakeLast(_Fold):
    """The value on the last batch."""

    def fold(self, content: Any, value: Any) -> Any:
        """Return the value."""
        return value


class Minimum(_Fold):
    """The least value, element by element."""

    def fold(self, content: Any, value: Any) -> Any:
        """Return the lesser of the two."""
        return current().tensor.minimum(content, value)


class Maximum(_Fold):
    """The greatest value, element by element."""

    def fold(self, content: Any, value: Any) -> Any:
        """Return the greater of the two."""
        return current().tensor.maximum(content, value)


def mean(numerator: Any, denominator: Any = 1.0) -> Any:
    """Return a variable whose mean over batches is weighed by a denominator.

    Parameters
    ----------
    numerator : variable
        The sum over the examples of a batch, for instance; gives the name.
    denominator : variable or number, optional
        The number of examples, for instance.
    """
    variable = numerator / denominator
    variable.tag.aggregation_scheme = Mean(numerator, denominator)
    variable.name = numerator.name
    return variable


def _with_scheme(scheme: type[AggregationScheme], variable: Any) -> Any:
    variable = variable.copy(name=variable.name)
    variable.tag.aggregation_scheme = scheme(variable)
    return variable


#: Return a copy of a variable that is aggregated by the scheme of that name.
take_last = partial(_with_scheme, TakeLast)
minimum = partial(_with_scheme, Minimum)
maximum = partial(_with_scheme, Maximum)


class MonitoredQuantity(ABC):
    """Something computed by Python code from the values of variables.

    Parameters
    ----------
    requires : sequence of variables, optional
    name : str, optional
        Of the record in the log.
    """

    def __init__(self, requires: Sequence[Any] | None = None, name: str | None = None) -> None:
        self.requires = list(requires or ())
        self.name = name

    @abstractmethod
    def initialize(self) -> None:
        """Forget what was seen."""

    @abstractmethod
    def aggregate(self, *args: Any) -> None:
        """Take in the values of the required variables on one batch."""

    @abstractmethod
    def get_aggregated_value(self) -> Any:
        """Return the value over all batches since."""


def _in_shape_of(storage: Any, value: Any) -> Any:
    """Return the content of a storage, with zeros where it has none yet."""
    if value.ndim == 0:
        return storage
    # Before the first batch, nobody knows the shape: the storage is empty,
    # and could not be combined with the value.
    tensor = current().tensor
    content = tuple([slice(0, storage.shape[axis]) for axis in range(value.ndim)])
    return tensor.set_subtensor(tensor.zeros_like(value)[content], storage)


def _identity(value: Any) -> Any:
    return value
