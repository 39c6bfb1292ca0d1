"""Values of variables over a data set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...engines import current
from ..graph.computation import ComputationGraph, is_variable
from .aggregation import Aggregator, Mean, MonitoredQuantity, TakeLast, take_last

__all__ = ["AggregationBuffer", "DatasetEvaluator", "MonitoredQuantityBuffer", "split"]


def split(things: Iterable[Any]) -> tuple[list[Any], list[MonitoredQuantity]]:
    """Tell variables from monitored quantities.

    Raises
    ------
    ValueError
        One is neither.
    """
    things = list(things)
    for thing in things:
        if not is_variable(thing) and not isinstance(thing, MonitoredQuantity):
            raise ValueError(f"cannot monitor {thing!r}: it is no variable and no quantity")
    quantities = [thing for thing in things if isinstance(thing, MonitoredQuantity)]
    return [thing for thing in things if not isinstance(thing, MonitoredQuantity)], quantities


class AggregationBuffer:
    """Several variables, each aggregated by its own scheme.

    A variable without a scheme is averaged over the batches; one that does
    not depend on the data has the value it had last.

    Parameters
    ----------
    variables : sequence of variables
        With different names.

    Attributes
    ----------
    accumulation_updates : list of (shared variable, variable)
        To do on each batch.
    inputs : list of variables
        What the updates need.
    """

    def __init__(self, variables: Sequence[Any]) -> None:
        _require_distinct_names(variables)
        graph = ComputationGraph(variables)
        self.aggregators: dict[str, Aggregator] = {}
        for variable in variables:
            scheme = getattr(variable.tag, "aggregation_scheme", None)
            if scheme is None:
                is_fixed = not graph.has_inputs(variable)
                scheme = TakeLast(variable) if is_fixed else Mean(variable, 1.0)
            self.aggregators[variable.name] = scheme.get_aggregator()
        self.accumulation_updates = [
            update
            for aggregator in self.aggregators.values()
            for update in aggregator.accumulation_updates
        ]
        self.inputs = ComputationGraph([value for _, value in self.accumulation_updates]).inputs

    def initialize_aggregators(self) -> None:
        """Forget what was seen."""
        for aggregator in self.aggregators.values():
            aggregator.initialize()

    def get_aggregated_values(self) -> dict[str, Any]:
        """Return the values by the names of the variables."""
        return {name: aggregator.get_value() for name, aggregator in self.aggregators.items()}


class MonitoredQuantityBuffer:
    """Several monitored quantities, and what they require of each batch.

    Parameters
    ----------
    quantities : sequence of MonitoredQuantity
        With different names.

    Attributes
    ----------
    required : AggregationBuffer
        Keeps the required variables' values on the last batch.
    """

    def __init__(self, quantities: Sequence[MonitoredQuantity]) -> None:
        _require_distinct_names(quantities)
        self.quantities = list(quantities)
        requires = list(dict.fromkeys(each for q in self.quantities for each in q.requires))
        self._positions = [[requires.index(each) for each in q.requires] for q in self.quantities]
        copies = [take_last(variable) for variable in requires]
        for number, copy in enumerate(copies):
            copy.name = f"{copy.name}_{number}"
        self.required = AggregationBuffer(copies)

    def initialize_quantities(self) -> None:
        """Let each forget what it has seen."""
        for quantity in self.quantities:
            quantity.initialize()

    def aggregate_quantities(self) -> None:
        """Let each take in the last batch."""
        values = list(self.required.get_aggregated_values().values())
        for quantity, positions in zip(self.quantities, self._positions):
            quantity.aggregate(*[values[position] for position in positions])

    def get_aggregated_values(self) -> dict[str, Any]:
        """Return the values by the names of the quantities."""
        return {str(each.name): each.get_aggregated_value() for each in self.quantities}


class DatasetEvaluator:
    """Evaluate variables and quantities over one epoch of a data stream.

    Parameters
    ----------
    variables : sequence of variables and MonitoredQuantity
    updates : list of pairs, or dict, optional
        More updates to do on each batch.
    """

    def __init__(self, variables: Iterable[Any], updates: Any = None) -> None:
        plain, quantities = split(variables)
        self.variables = AggregationBuffer(plain)
        self.quantities = MonitoredQuantityBuffer(quantities)
        more = updates.items() if isinstance(updates, Mapping) else updates or ()
        self._updates = [
            *self.variables.accumulation_updates,
            *self.quantities.required.accumulation_updates,
            *more,
        ]
        self._inputs = ComputationGraph([value for _, value in self._updates]).inputs
        self._function: Any = None

    def evaluate(self, data_stream: Any) -> dict[str, Any]:
        """Return the values by name.

        Parameters
        ----------
        data_stream : AbstractDataStream
            An epoch is read, unless nothing depends on the data.
        """
        if self._function is None:
            # At first use: many a script is loaded, looked at and left.
            self._function = current().function(self._inputs, [], updates=self._updates)
        self.variables.initialize_aggregators()
        self.quantities.initialize_quantities()
        batches = data_stream.get_epoch_iterator(as_dict=True) if self._inputs else [{}]
        for batch in batches:
            self._process(batch)
        return {
            **self.variables.get_aggregated_values(),
            **self.quantities.get_aggregated_values(),
        }

    def _process(self, batch: Mapping[str, Any]) -> None:
        names = [variable.name for variable in self._inputs]
        missing = [name for name in names if name not in batch]
        if missing:
            raise ValueError(
                "Not all data sources that monitoring needs are provided: "
                f"{', '.join(map(str, missing))} missing from {', '.join(batch)}"
            )
        self._function(*[batch[name] for name in names])
        self.quantities.aggregate_quantities()


def _require_distinct_names(things: Sequence[Any]) -> None:
    if any(thing.name is None for thing in things):
        raise ValueError("variables to monitor must have names: give them one as .name")
    repeated = [name for name, n in Counter(thing.name for thing in things).items() if n > 1]
    if repeated:
        raise ValueError(f"variables to monitor need unique names; repeated: {repeated}")
