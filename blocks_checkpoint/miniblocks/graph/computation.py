"""A graph with all that its annotations add to it."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

from ...engines import current, is_shared
from ..roles import AUXILIARY, PARAMETER, has_roles

__all__ = ["ComputationGraph", "is_graph_input", "is_shared_variable", "is_variable"]

logger = logging.getLogger(__name__)


def is_variable(thing: Any) -> bool:
    """Tell whether something is a variable of an engine's graph."""
    return all(hasattr(thing, name) for name in ("owner", "tag", "type", "name"))


def is_shared_variable(variable: Any) -> bool:
    """Tell whether a variable is shared; one that holds a random generator is not."""
    is_generator = not hasattr(variable.type, "dtype") or hasattr(variable.tag, "is_rng")
    return is_shared(variable) and not is_generator


def is_graph_input(variable: Any) -> bool:
    """Tell whether a variable is given from outside: not computed, shared or constant."""
    # Of the variables that nothing computes, only constants have data.
    return variable.owner is None and not is_shared(variable) and not hasattr(variable, "data")


class ComputationGraph:
    """The variables that outputs are computed from, in a fixed order.

    The order is topological: inputs of an operation before those of the
    operations that use its result. It depends on the graph alone, not on
    addresses or hashes, and is the same in every run.

    Parameters
    ----------
    outputs : variable or iterable of variables

    Attributes
    ----------
    outputs : list of variables
    variables : list of variables
        All there are, auxiliary ones behind the variable they hang on.
    updates : dict of shared variable to variable
        Those that hang on the variables.
    """

    def __init__(self, outputs: Any) -> None:
        self.outputs: list[Any] = [outputs] if is_variable(outputs) else list(outputs)
        self.variables: list[Any] = []
        self.updates: dict[Any, Any] = {}
        self._collect()
        self._has_inputs: dict[Any, bool] = {}

    def __iter__(self) -> Iterator[Any]:
        return iter(self.variables)

    @property
    def inputs(self) -> list[Any]:
        """Variables that are given from outside."""
        return [variable for variable in self.variables if is_graph_input(variable)]

    @property
    def intermediary_variables(self) -> list[Any]:
        """Variables that are neither inputs nor outputs."""
        ends = [*self.inputs, *self.outputs]
        return [variable for variable in self.variables if variable not in ends]

    @property
    def shared_variables(self) -> list[Any]:
        """Shared variables, without those that hold random generators."""
        return [variable for variable in self.variables if is_shared_variable(variable)]

    @property
    def parameters(self) -> list[Any]:
        """Shared variables with the role :data:`.PARAMETER`."""
        return [var for var in self.shared_variables if has_roles(var, [PARAMETER])]

    @property
    def auxiliary_variables(self) -> list[Any]:
        """Variables with the role :data:`.AUXILIARY`."""
        return [variable for variable in self.variables if has_roles(variable, [AUXILIARY])]

    def dict_of_inputs(self) -> dict[str, Any]:
        """Return the inputs by name."""
        return {variable.name: variable for variable in self.inputs}

    def has_inputs(self, variable: Any) -> bool:
        """Tell whether a variable depends on what is given from outside."""
        if variable not in self._has_inputs:
            self._has_inputs[variable] = any(map(is_graph_input, _variables_of([variable])))
        return self._has_inputs[variable]

    def replace(self, replacements: Any) -> ComputationGraph:
        """Return a graph with some variables replaced by others.

        Parameters
        ----------
        replacements : dict, or iterable of pairs
            New variable by old variable. A new one may be computed from old
            ones, its own included; those further up are replaced in it too.

        Returns
        -------
        ComputationGraph
        """
        pairs = dict(replacements)
        unknown = [variable for variable in pairs if variable not in self.variables]
        if unknown:
            logger.warning("cannot replace what is not in the graph: %s", unknown)
        # One by one, from the inputs on: each step rewrites what is still to
        # be replaced along with the outputs.
        old = [variable for variable in self.variables if variable in pairs]
        new = [pairs[variable] for variable in old]
        outputs = self.outputs
        while old:
            first_old, *old = old
            first_new, *new = new
            result = current().clone_replace([*outputs, *old, *new], {first_old: first_new})
            outputs, rest = result[: len(outputs)], result[len(outputs) :]
            old, new = rest[: len(old)], rest[len(old) :]
        return ComputationGraph(outputs)

    def get_theano_function(self, additional_updates: Any = None, **kwargs: Any) -> Any:
        """Compile a function from the inputs to the outputs, with the updates."""
        updates = {**self.updates, **dict(additional_updates or ())}
        return current().function(
            self.inputs, self.outputs, updates=list(updates.items()), **kwargs
        )

    def _collect(self) -> None:
        computed = _variables_of(self.outputs)
        seen = set(computed)
        annotations: list[Any] = []
        for variable in computed:
            self.variables.append(variable)
            for annotation in getattr(variable.tag, "annotations", []):
                if annotation in annotations:
                    continue
                annotations.append(annotation)
                self.updates.update(annotation.updates)
                for auxiliary in annotation.auxiliary_variables:
                    if auxiliary not in seen:
                        seen.add(auxiliary)
                        self.variables.append(auxiliary)


def _variables_of(outputs: Iterable[Any]) -> list[Any]:
    """List what ``outputs`` are computed from, and them, each once, in order."""
    outputs = list(outputs)
    inputs_in_order = [variable for node in _sorted_nodes(outputs) for variable in node.inputs]
    return list(dict.fromkeys([*inputs_in_order, *outputs]))


def _sorted_nodes(outputs: Iterable[Any]) -> list[Any]:
    """List the operations behind ``outputs``, each after those it depends on."""
    # Without recursion: a graph may be thousands of operations deep.
    done: dict[Any, None] = {}
    waiting = [variable.owner for variable in reversed(list(outputs)) if variable.owner]
    while waiting:
        node = waiting[-1]
        missing = [
            variable.owner
            for variable in node.inputs
            if variable.owner is not None and variable.owner not in done
        ]
        if missing and node not in done:
            waiting.extend(missing)
        else:
            waiting.pop()
            done.setdefault(node)
    return list(done)
