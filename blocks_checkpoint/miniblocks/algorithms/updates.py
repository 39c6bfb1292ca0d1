"""Algorithms that are a compiled function with updates of shared variables."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from ...engines import current
from ..graph.computation import ComputationGraph
from .base import TrainingAlgorithm

__all__ = ["UpdatesAlgorithm"]

logger = logging.getLogger(__name__)


class UpdatesAlgorithm(TrainingAlgorithm):
    """Change shared variables on each batch.

    Parameters
    ----------
    updates : list of pairs, or dict, optional
        New value by shared variable, computed from the values of before.
    theano_func_kwargs : dict, optional
        More arguments for the engine's ``function``.
    on_unused_sources : {'raise', 'ignore', 'warn'}, optional
        What to do with a source of the data stream that is no input.

    Attributes
    ----------
    inputs : list of variables
        Of the function, once it is compiled; each gets the source of its name.
    """

    def __init__(
        self,
        updates: Any = None,
        theano_func_kwargs: Mapping[str, Any] | None = None,
        on_unused_sources: str = "raise",
    ) -> None:
        if on_unused_sources not in ("raise", "ignore", "warn"):
            raise ValueError(f"on_unused_sources is {on_unused_sources!r}")
        self.updates = _pairs(updates or ())
        self.theano_func_kwargs = dict(theano_func_kwargs or {})
        self.on_unused_sources = on_unused_sources
        self._has_warned = False

    def add_updates(self, updates: Any) -> None:
        """Do more updates on each batch, with the values from before it.

        Parameters
        ----------
        updates : list of pairs, or dict
        """
        self.updates.extend(_pairs(updates))

    def initialize(self, **kwargs: Any) -> None:
        """Compile the function; updates added later have no effect."""
        self.inputs = ComputationGraph([value for _, value in self.updates]).inputs
        self._function = current().function(
            self.inputs, [], updates=self.updates, **self.theano_func_kwargs
        )

    def process_batch(self, batch: Mapping[str, Any]) -> None:
        """Do the updates for one batch.

        Raises
        ------
        ValueError
            The batch lacks an input, or has a source that is none.
        """
        names = [variable.name for variable in self.inputs]
        self._check_sources(names, batch)
        self._function(*[batch[name] for name in names])

    def _check_sources(self, names: list[str], batch: Mapping[str, Any]) -> None:
        missing = [name for name in names if name not in batch]
        if missing:
            raise ValueError(
                f"the data stream lacks {', '.join(map(str, missing))}; "
                f"it provides {', '.join(batch)}"
            )
        unused = [source for source in batch if source not in names]
        if not unused or self.on_unused_sources == "ignore" or self._has_warned:
            return
        message = (
            f"the data stream provides {', '.join(unused)}, which the algorithm does not use "
            f"(it uses {', '.join(map(str, names))})"
        )
        if self.on_unused_sources == "raise":
            raise ValueError(
                f"{message}. Leave them out with the data set's argument sources, "
                "or pass on_unused_sources='ignore' to the algorithm"
            )
        logger.warning(message)
        self._has_warned = True


def _pairs(updates: Any) -> list[tuple[Any, Any]]:
    items: Iterable[Any] = updates.items() if isinstance(updates, Mapping) else updates
    return list(items)
