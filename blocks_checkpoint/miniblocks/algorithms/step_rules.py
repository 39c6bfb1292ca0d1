"""Step rules: from gradients to what is subtracted from the parameters.

What a rule remembers of a parameter is a *buffer*, a shared variable with the
role :data:`.ALGORITHM_BUFFER` and the parameter as ``tag.for_parameter``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...engines import current
from ..roles import ALGORITHM_BUFFER, ALGORITHM_HYPERPARAMETER, add_role
from ..utils.shared import shared_floatx, shared_floatx_zeros_matching

__all__ = ["Adam", "BasicMomentum", "CompositeRule", "Momentum", "Scale", "StepRule"]

Updates = list[tuple[Any, Any]]


class StepRule:
    """Base of all rules; a subclass defines one of the two methods."""

    def compute_step(self, parameter: Any, previous_step: Any) -> tuple[Any, Updates]:
        """Make the step of one parameter.

        Parameters
        ----------
        parameter : shared variable
        previous_step : variable
            Its gradient, or the step that the rule before has made of it.

        Returns
        -------
        step : variable
        updates : list of (shared variable, variable)
            Of the buffers.
        """
        raise NotImplementedError

    def compute_steps(self, previous_steps: Mapping[Any, Any]) -> tuple[dict[Any, Any], Updates]:
        """Make the steps of all parameters; each by :meth:`compute_step`, by default.

        Parameters
        ----------
        previous_steps : dict of shared variable to variable

        Returns
        -------
        steps : dict of shared variable to variable
            In the same order.
        updates : list of (shared variable, variable)
        """
        steps: dict[Any, Any] = {}
        updates: Updates = []
        for parameter, previous_step in previous_steps.items():
            steps[parameter], more_updates = self.compute_step(parameter, previous_step)
            updates.extend(more_updates)
        return steps, updates


class CompositeRule(StepRule):
    """Several rules, each making steps of the steps of the one before.

    Parameters
    ----------
    components : sequence of StepRule
    """

    def __init__(self, components: Sequence[StepRule]) -> None:
        self.components = components

    def compute_steps(self, previous_steps: Mapping[Any, Any]) -> tuple[dict[Any, Any], Updates]:
        """Make the steps, rule by rule."""
        steps = dict(previous_steps)
        updates: Updates = []
        for rule in self.components:
            steps, more_updates = rule.compute_steps(steps)
            updates.extend(more_updates)
        return steps, updates


class Scale(StepRule):
    """Multiply by a number.

    Parameters
    ----------
    learning_rate : float, optional

    Attributes
    ----------
    learning_rate : shared variable
    """

    def __init__(self, learning_rate: float = 1.0) -> None:
        self.learning_rate = _hyperparameter(learning_rate, "learning_rate")

    def compute_step(self, parameter: Any, previous_step: Any) -> tuple[Any, Updates]:
        """Make the step of one parameter."""
        return self.learning_rate * previous_step, []


class BasicMomentum(StepRule):
    """Add a share of the step before; goes with :class:`Scale`.

    Parameters
    ----------
    momentum : float, optional
        The share.

    Attributes
    ----------
    momentum : shared variable
    """

    def __init__(self, momentum: float = 0.0) -> None:
        self.momentum = _hyperparameter(momentum, "momentum")

    def compute_step(self, parameter: Any, previous_step: Any) -> tuple[Any, Updates]:
        """Make the step of one parameter."""
        velocity = _buffer(parameter, "velocity")
        step = self.momentum * velocity + previous_step
        return step, [(velocity, step)]


class Momentum(CompositeRule):
    """:class:`Scale`, then :class:`BasicMomentum`.

    Parameters
    ----------
    learning_rate, momentum : float, optional

    Attributes
    ----------
    learning_rate, momentum : shared variables
    """

    def __init__(self, learning_rate: float = 1.0, momentum: float = 0.0) -> None:
        scale = Scale(learning_rate)
        basic_momentum = BasicMomentum(momentum)
        super().__init__([scale, basic_momentum])
        self.learning_rate = scale.learning_rate
        self.momentum = basic_momentum.momentum


class Adam(StepRule):
    """Steps of a size that adapts to each parameter.

    Parameters
    ----------
    learning_rate : float, optional
        About the size of a step.
    beta1, beta2 : float, optional
        How slowly the estimates of the gradient's mean and square change.
    epsilon : float, optional
        Keeps the divisor from zero.
    decay_factor : float, optional
        ``beta1`` is multiplied by it after each batch.

    Attributes
    ----------
    learning_rate, beta1, beta2, epsilon, decay_factor : shared variables

    References
    ----------
    Kingma and Ba, *Adam: a method for stochastic optimization*,
    arXiv:1412.6980.
    """

    def __init__(
        self,
        learning_rate: float = 0.002,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        decay_factor: float = 1,
    ) -> None:
        self.learning_rate = _hyperparameter(learning_rate, "learning_rate")
        self.beta1 = _hyperparameter(beta1, "beta1")
        self.beta2 = _hyperparameter(beta2, "beta2")
        self.epsilon = _hyperparameter(epsilon, "epsilon")
        self.decay_factor = _hyperparameter(decay_factor, "decay_factor")

    def compute_step(self, parameter: Any, previous_step: Any) -> tuple[Any, Updates]:
        """Make the step of one parameter."""
        sqrt = current().tensor.sqrt
        mean = _buffer(parameter, "mean")
        variance = _buffer(parameter, "variance")
        time = _mark_buffer(shared_floatx(0.0, "time"), parameter)

        now = time + 1
        beta1 = self.beta1 * self.decay_factor**time
        new_mean = beta1 * mean + (1 - beta1) * previous_step
        new_variance = self.beta2 * variance + (1 - self.beta2) * previous_step**2
        # Both estimates start from zero; this makes up for it.
        rate = self.learning_rate * sqrt(1 - self.beta2**now) / (1 - beta1**now)
        step = rate * new_mean / (sqrt(new_variance) + self.epsilon)
        return step, [(mean, new_mean), (variance, new_variance), (time, now)]


def _hyperparameter(value: float, name: str) -> Any:
    variable = shared_floatx(value, name)
    add_role(variable, ALGORITHM_HYPERPARAMETER)
    return variable


def _buffer(parameter: Any, name: str) -> Any:
    return _mark_buffer(shared_floatx_zeros_matching(parameter, name), parameter)


def _mark_buffer(variable: Any, parameter: Any) -> Any:
    variable.tag.for_parameter = parameter
    add_role(variable, ALGORITHM_BUFFER)
    return variable
