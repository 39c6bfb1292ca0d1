"""The model: a graph whose parameters have names."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from .filter import get_brick
from .graph.computation import ComputationGraph

__all__ = ["Model", "numbered"]

logger = logging.getLogger(__name__)


class Model(ComputationGraph):
    """A graph made of bricks, its parameters by name.

    A parameter of a brick goes by its place in the hierarchy,
    ``/mlp/linear_0.W``; any other by its own name. Names that occur more than
    once are all numbered, in the order of ``parameters``.

    Parameters
    ----------
    outputs : variable or iterable of variables
        What the model computes; usually the cost.
    """

    def __init__(self, outputs: Any) -> None:
        super().__init__(outputs)
        bricks = list(dict.fromkeys(filter(None, map(get_brick, self.variables))))
        children = {child for brick in bricks for child in brick.children}
        self.top_bricks = [brick for brick in bricks if brick not in children]
        names = Counter(brick.name for brick in self.top_bricks)
        repeated = [name for name, count in names.items() if count > 1]
        if repeated:
            logger.warning(
                "several top bricks are named %s: parameters of one path are numbered. "
                "Give the bricks names to tell them apart.",
                ", ".join(repeated),
            )
        paths = [_path(parameter) for parameter in self.parameters]
        self._parameter_dict = dict(zip(numbered(paths), self.parameters))

    def check_sanity(self, algorithm: Any) -> None:
        """Warn if the algorithm trains other parameters than the model has."""
        trained = getattr(algorithm, "parameters", None)
        if trained is not None and {*trained} != {*self.parameters}:
            logger.warning("the algorithm trains other parameters than the model has")

    def get_top_bricks(self) -> list[Any]:
        """Return the bricks that are part of no other brick in the graph."""
        return self.top_bricks

    def get_parameter_dict(self) -> dict[str, Any]:
        """Return the parameters by name."""
        return self._parameter_dict

    def get_parameter_values(self) -> dict[str, Any]:
        """Return copies of the parameters' values by name."""
        return {name: variable.get_value() for name, variable in self._parameter_dict.items()}

    def set_parameter_values(self, parameter_values: Mapping[str, Any]) -> None:
        """Give parameters values.

        Names that only one side has are logged, and left alone.

        Parameters
        ----------
        parameter_values : dict of str to array

        Raises
        ------
        ValueError
            A value has not the shape of its parameter; nothing is changed.
        """
        parameters = self._parameter_dict
        unknown = [name for name in parameter_values if name not in parameters]
        missing = [name for name in parameters if name not in parameter_values]
        if unknown:
            logger.error("the model has no parameters of these names: %s", ", ".join(unknown))
        if missing:
            logger.error("no values are given for: %s", ", ".join(missing))
        known = {name: value for name, value in parameter_values.items() if name in parameters}
        for name, value in known.items():
            shape = parameters[name].get_value(borrow=True).shape
            if value.shape != shape:
                raise ValueError(f"parameter {name} has shape {shape}, not {value.shape}")
        for name, value in known.items():
            parameters[name].set_value(value)


def numbered(names: Sequence[str]) -> list[str]:
    """Number the names that occur more than once, from 0, in their order.

    A number that would make a name which really occurs is left out.

    Examples
    --------
    >>> numbered(["W", "b", "W", "W_0"])
    ['W_1', 'b', 'W_2', 'W_0']
    """
    counts = Counter(names)
    taken = set(names)
    next_number: Counter[str] = Counter()
    result = []
    for name in names:
        candidate = name
        while counts[name] > 1 and candidate in taken:
            candidate = f"{name}_{next_number[name]}"
            next_number[name] += 1
        taken.add(candidate)
        result.append(candidate)
    return result


def _path(parameter: Any) -> str:
    brick = get_brick(parameter)
    if brick is not None:
        return str(brick.get_hierarchical_name(parameter))
    return parameter.name or "parameter"
