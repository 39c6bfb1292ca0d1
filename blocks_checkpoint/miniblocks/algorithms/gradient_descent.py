"""Gradient descent."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from ...engines import current
from .step_rules import Scale, StepRule
from .updates import UpdatesAlgorithm

__all__ = ["GradientDescent"]

logger = logging.getLogger(__name__)


class GradientDescent(UpdatesAlgorithm):
    """Subtract from each parameter a step, which a rule makes of the gradients.

    Parameters
    ----------
    cost : scalar variable, optional
        What to make small; not needed where gradients are given.
    parameters : sequence of shared variables, optional
        What to change; the keys of ``gradients`` by default.
    step_rule : StepRule, optional
        :class:`.Scale` by default.
    gradients : dict, or list of pairs, optional
        Gradient by parameter; derived from ``cost`` by default.
    known_grads, consider_constant : optional
        For the engine's ``grad``.
    **kwargs
        For :class:`.UpdatesAlgorithm`.

    Attributes
    ----------
    gradients, steps : dict of shared variable to variable
    total_gradient_norm, total_step_norm : scalar variables
        Lengths of all gradients, and of all steps, taken as one vector.
    """

    def __init__(
        self,
        cost: Any = None,
        parameters: Sequence[Any] | None = None,
        step_rule: StepRule | None = None,
        gradients: Any = None,
        known_grads: Any = None,
        consider_constant: Any = None,
        **kwargs: Any,
    ) -> None:
        if gradients:
            self.gradients = _given(gradients, parameters)
            if cost is not None:
                logger.warning("gradients are given: the cost is not used")
        else:
            self.gradients = _derived(cost, parameters, known_grads, consider_constant)
        self.cost = cost
        self.parameters = list(self.gradients)
        self.step_rule = step_rule or Scale()
        self.steps, self.step_rule_updates = self.step_rule.compute_steps(self.gradients)
        self.total_gradient_norm = _norm(self.gradients, "total_gradient_norm")
        self.total_step_norm = _norm(self.steps, "total_step_norm")
        super().__init__(**kwargs)
        self.add_updates([(each, each - self.steps[each]) for each in self.parameters])
        self.add_updates(self.step_rule_updates)


def _given(gradients: Any, parameters: Sequence[Any] | None) -> dict[Any, Any]:
    by_parameter = dict(gradients if isinstance(gradients, Mapping) else list(gradients))
    if parameters is None:
        return by_parameter
    if {*parameters} != {*by_parameter}:
        raise ValueError("parameters and gradients speak of different shared variables")
    return {parameter: by_parameter[parameter] for parameter in parameters}


def _derived(
    cost: Any, parameters: Sequence[Any] | None, known_grads: Any, consider_constant: Any
) -> dict[Any, Any]:
    if cost is None or not parameters:
        raise ValueError("GradientDescent needs a cost and parameters, or gradients")
    parameters = list(parameters)
    gradients = current().tensor.grad(
        cost, parameters, known_grads=known_grads, consider_constant=consider_constant
    )
    return dict(zip(parameters, gradients))


def _norm(vectors: Mapping[Any, Any], name: str) -> Any:
    norm = current().tensor.sqrt(sum((vector**2).sum() for vector in vectors.values()))
    return norm.copy(name=name)
