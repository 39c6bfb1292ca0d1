"""Batch normalisation."""

from __future__ import annotations

from typing import Any

import numpy

from ...engines import current
from ..graph.annotations import add_annotation
from ..initialization import Constant
from ..roles import (
    BATCH_NORM_DIVISOR,
    BATCH_NORM_MINIBATCH_ESTIMATE,
    BATCH_NORM_OFFSET,
    BATCH_NORM_POPULATION_MEAN,
    BATCH_NORM_POPULATION_STDEV,
    BATCH_NORM_SCALE_PARAMETER,
    BATCH_NORM_SHIFT_PARAMETER,
    VariableRole,
    add_role,
)
from ..utils.shared import shared_floatx, shared_floatx_nans
from .base import ApplicationCall, application, lazy
from .interfaces import Feedforward, RNGMixin
from .sequences import MLP, Sequence
from .simple import Linear

__all__ = ["BatchNormalization", "BatchNormalizedMLP"]


class BatchNormalization(RNGMixin, Feedforward):
    """Give each feature mean 0 and deviation 1, then a learned mean and deviation.

    By default with the *population* statistics, which the brick keeps as
    shared variables and training has to keep up to date
    (:func:`.get_batch_normalization_updates`); inside ``with brick:``, with
    those of the batch.

    Parameters
    ----------
    input_dim : int
        Number of features; needed for allocation.
    epsilon : float, optional
        Added to a batch's variance.
    scale_init, shift_init : NdarrayInitialization, optional
        Initial deviation and mean; 1 and 0 by default.
    **kwargs
        For :class:`.Brick`.

    Attributes
    ----------
    population_mean, population_stdev : shared variables, shape (input_dim,)
    scale, shift : shared variables, shape (input_dim,)

    References
    ----------
    Ioffe and Szegedy, *Batch normalization: accelerating deep network
    training by reducing internal covariate shift*, ICML 2015.
    """

    @lazy(allocation=["input_dim"])
    def __init__(
        self,
        input_dim: Any,
        epsilon: float = 1e-4,
        scale_init: Any = None,
        shift_init: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.input_dim = input_dim
        self.epsilon = epsilon
        self.scale_init = scale_init or Constant(1)
        self.shift_init = shift_init or Constant(0)
        self._training_depth = 0

    @property
    def output_dim(self) -> Any:
        """Number of features."""
        return self.input_dim

    @output_dim.setter
    def output_dim(self, value: Any) -> None:
        self.input_dim = value

    def __enter__(self) -> BatchNormalization:
        self._training_depth += 1
        return self

    def __exit__(self, *exception: Any) -> None:
        self._training_depth -= 1

    def _allocate(self) -> None:
        self.shift = self._parameter("batch_norm_shift", BATCH_NORM_SHIFT_PARAMETER)
        self.scale = self._parameter("batch_norm_scale", BATCH_NORM_SCALE_PARAMETER)
        self.population_mean = self._statistic("population_mean", BATCH_NORM_POPULATION_MEAN, 0)
        self.population_stdev = self._statistic("population_stdev", BATCH_NORM_POPULATION_STDEV, 1)

    def _parameter(self, name: str, role: VariableRole) -> Any:
        variable = shared_floatx_nans((self.input_dim,), name=name)
        add_role(variable, role)
        self.parameters.append(variable)
        return variable

    def _statistic(self, name: str, role: VariableRole, value: float) -> Any:
        # Not among the parameters: the cost has no say in it.
        variable = shared_floatx(numpy.full((self.input_dim,), value), name=name)
        add_role(variable, role)
        add_annotation(variable, self)
        return variable

    def _initialize(self) -> None:
        self.shift_init.initialize(self.shift, self.rng)
        self.scale_init.initialize(self.scale, self.rng)

    @application(inputs=["input_"], outputs=["output"])
    def apply(self, input_: Any, application_call: ApplicationCall) -> Any:
        """Normalise each column of a matrix."""
        mean, stdev = self._statistics(input_)
        # Copies, which belong to this call alone, unlike the shared variables.
        offset, divisor = mean.copy(name="offset"), stdev.copy(name="divisor")
        for variable, role in ((offset, BATCH_NORM_OFFSET), (divisor, BATCH_NORM_DIVISOR)):
            add_role(variable, role)
            if self._training_depth:
                add_role(variable, BATCH_NORM_MINIBATCH_ESTIMATE)
            add_annotation(variable, self)
            add_annotation(variable, application_call)
        application_call.metadata["training_mode"] = bool(self._training_depth)
        application_call.metadata["offset"] = offset
        application_call.metadata["divisor"] = divisor
        return (input_ - offset) / divisor * self.scale + self.shift

    def _statistics(self, input_: Any) -> tuple[Any, Any]:
        if not self._training_depth:
            return self.population_mean, self.population_stdev
        mean = input_.mean(axis=0)
        variance = ((input_ - mean) ** 2).mean(axis=0)
        epsilon = numpy.asarray(self.epsilon, dtype=current().floatX)
        return mean, current().tensor.sqrt(variance + epsilon)

    def get_dim(self, name: str) -> Any:
        """Return the dimension of ``input_`` or ``output``."""
        return self.input_dim if name in ("input_", "output") else super().get_dim(name)


class BatchNormalizedMLP(MLP):
    """An MLP that normalises before each activation.

    Its layers have no biases of their own: the shifts of the normalisations
    take their place.

    Parameters
    ----------
    activations : sequence of Brick, BoundApplication or None
    dims : sequence of int
    **kwargs
        For :class:`.MLP`.
    """

    @lazy(allocation=["dims"])
    def __init__(self, activations: Any, dims: Any, **kwargs: Any) -> None:
        layers: list[Any] = []
        for number, activation in enumerate(activations):
            parts = [BatchNormalization(), *([] if activation is None else [activation])]
            layers.append(Sequence(parts, name=f"batch_norm_activation_{number}"))
        kwargs.setdefault("prototype", Linear(use_bias=False))
        kwargs.setdefault("use_bias", False)
        super().__init__(layers, dims, **kwargs)

    def _push_allocation_config(self) -> None:
        super()._push_allocation_config()
        for dim, layer in zip(self.dims[1:], self.activations):
            layer.children[0].input_dim = dim
