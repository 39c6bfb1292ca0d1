"""Writing values of variables into the log."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..algorithms.updates import UpdatesAlgorithm
from ..monitoring.evaluators import (
    AggregationBuffer,
    DatasetEvaluator,
    MonitoredQuantityBuffer,
    split,
)
from .base import TrainingExtension
from .simple import SimpleExtension

if TYPE_CHECKING:
    from ..log import TrainingLog

__all__ = ["DataStreamMonitoring", "MonitoringExtension", "TrainingDataMonitoring"]

logger = logging.getLogger(__name__)


class MonitoringExtension(TrainingExtension):
    """What monitoring extensions share: names of records.

    Parameters
    ----------
    prefix, suffix : str, optional
        Come before and after the names of the variables.
    **kwargs
        For :class:`.TrainingExtension`.
    """

    SEPARATOR = "_"

    def __init__(self, prefix: str | None = None, suffix: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.prefix = prefix
        self.suffix = suffix

    def record_name(self, variable: Any) -> str:
        """Return the name under which a variable is recorded."""
        return self._record_name(variable.name)

    def add_records(self, log: TrainingLog, record_tuples: Iterable[tuple[str, Any]]) -> None:
        """Write pairs of name and value into the current row of a log."""
        for name, value in record_tuples:
            log.current_row[self._record_name(name)] = value

    def _record_name(self, name: Any) -> str:
        if not isinstance(name, str):
            raise ValueError("record name must be a string")
        parts = (self.prefix, name, self.suffix)
        return self.SEPARATOR.join([part for part in parts if part is not None])


class DataStreamMonitoring(SimpleExtension, MonitoringExtension):
    """Evaluate variables over a data stream, such as that of the validation set.

    Parameters
    ----------
    variables : sequence of variables and MonitoredQuantity
        With names, under which they are recorded.
    data_stream : AbstractDataStream
        An epoch of it is read each time.
    updates : list of pairs, or dict, optional
        More updates to do on each batch.
    **kwargs
        ``prefix``, ``suffix``, and triggers: before the first and after every
        epoch by default.
    """

    def __init__(
        self, variables: Iterable[Any], data_stream: Any, updates: Any = None, **kwargs: Any
    ) -> None:
        kwargs.setdefault("before_first_epoch", True)
        kwargs.setdefault("after_epoch", True)
        super().__init__(**kwargs)
        self.data_stream = data_stream
        self._evaluator = DatasetEvaluator(variables, updates)

    def do(self, which_callback: str, *args: Any) -> None:
        """Evaluate and record them."""
        logger.info("monitoring on auxiliary data")
        values = self._evaluator.evaluate(self.data_stream)
        self.add_records(self.main_loop.log, values.items())


class TrainingDataMonitoring(SimpleExtension, MonitoringExtension):
    """Evaluate variables on the training batches, along with the training.

    Values are those from before the update. When :meth:`do` is triggered, they
    are recorded as aggregated since the last time.

    Parameters
    ----------
    variables : sequence of variables and MonitoredQuantity
        With names, under which they are recorded.
    **kwargs
        ``prefix``, ``suffix``, and triggers.

    Notes
    -----
    The algorithm has to be an :class:`.UpdatesAlgorithm`.
    """

    def __init__(self, variables: Iterable[Any], **kwargs: Any) -> None:
        kwargs.setdefault("before_training", True)
        super().__init__(**kwargs)
        plain, quantities = split(variables)
        self._variables = AggregationBuffer(plain)
        self._quantities = MonitoredQuantityBuffer(quantities)
        self._last_time_called = -1
        if quantities:
            self.add_condition(["after_batch"], arguments=("just_aggregate",))

    def do(self, which_callback: str, *args: Any) -> None:
        """Hook into the algorithm before training; later, record the values."""
        if which_callback == "before_training":
            self._begin()
            return
        iterations_done = self.main_loop.status["iterations_done"]
        if iterations_done > self._last_time_called:
            self._quantities.aggregate_quantities()
            self._last_time_called = iterations_done
        _, from_user = self.parse_args(which_callback, args)
        if from_user != ("just_aggregate",):
            log = self.main_loop.log
            self.add_records(log, self._variables.get_aggregated_values().items())
            self.add_records(log, self._quantities.get_aggregated_values().items())
            self._variables.initialize_aggregators()
            self._quantities.initialize_quantities()

    def _begin(self) -> None:
        algorithm = self.main_loop.algorithm
        if not isinstance(algorithm, UpdatesAlgorithm):
            raise ValueError("TrainingDataMonitoring needs an algorithm with updates")
        algorithm.add_updates(self._variables.accumulation_updates)
        algorithm.add_updates(self._quantities.required.accumulation_updates)
        self._quantities.initialize_quantities()
        # Where a log was loaded, so was perhaps what the present epoch has
        # accumulated in shared variables.
        if not self.main_loop.status["iterations_done"]:
            self._variables.initialize_aggregators()
