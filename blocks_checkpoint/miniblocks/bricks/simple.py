"""Bricks that are made of no others."""

from __future__ import annotations

from typing import Any

from ...engines import current
from ..roles import BIAS, WEIGHT, add_role
from ..utils.shared import shared_floatx_nans
from .base import Brick, application, lazy
from .interfaces import Activation, Feedforward, Initializable

__all__ = ["Bias", "Identity", "Linear", "Logistic", "Rectifier", "Softmax", "Tanh"]


class Linear(Initializable, Feedforward):
    """Multiply by a matrix ``W``, and add a vector ``b``.

    Parameters
    ----------
    input_dim, output_dim : int
        Rows and columns of ``W``; needed for allocation.
    **kwargs
        For :class:`.Initializable`; ``use_bias=False`` leaves ``b`` out.
    """

    @lazy(allocation=["input_dim", "output_dim"])
    def __init__(self, input_dim: Any, output_dim: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.input_dim = input_dim
        self.output_dim = output_dim

    @property
    def W(self) -> Any:  # noqa: N802 - the name of the parameter
        """The matrix."""
        return self.parameters[0]

    @property
    def b(self) -> Any:
        """The vector."""
        if not self._has_bias:
            raise AttributeError(f"brick {self.name} has no bias")
        return self.parameters[1]

    @property
    def _has_bias(self) -> bool:
        return getattr(self, "use_bias", True)

    def _allocate(self) -> None:
        weights = shared_floatx_nans((self.input_dim, self.output_dim), name="W")
        add_role(weights, WEIGHT)
        self.parameters.append(weights)
        if self._has_bias:
            biases = shared_floatx_nans((self.output_dim,), name="b")
            add_role(biases, BIAS)
            self.parameters.append(biases)

    def _initialize(self) -> None:
        if self._has_bias:
            self._initialize_by("biases_init", self.parameters[1])
        self._initialize_by("weights_init", self.parameters[0])

    @application(inputs=["input_"], outputs=["output"])
    def apply(self, input_: Any) -> Any:
        """Apply it to a vector, or to each row of a matrix."""
        output = current().tensor.dot(input_, self.W)
        return output + self.b if self._has_bias else output

    def get_dim(self, name: str) -> Any:
        """Return the dimension of ``input_`` or ``output``."""
        dims = {"input_": self.input_dim, "output": self.output_dim}
        return dims[name] if name in dims else super().get_dim(name)


class Bias(Initializable, Feedforward):
    """Add a vector ``b``.

    Parameters
    ----------
    dim : int
        Its length; needed for allocation.
    **kwargs
        For :class:`.Initializable`.
    """

    @lazy(allocation=["dim"])
    def __init__(self, dim: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.dim = dim

    @property
    def input_dim(self) -> Any:
        """Length of the vector."""
        return self.dim

    @input_dim.setter
    def input_dim(self, value: Any) -> None:
        self.dim = value

    output_dim = input_dim

    def _allocate(self) -> None:
        biases = shared_floatx_nans((self.dim,), name="b")
        add_role(biases, BIAS)
        self.parameters.append(biases)

    def _initialize(self) -> None:
        self._initialize_by("biases_init", self.parameters[0])

    @application(inputs=["input_"], outputs=["output"])
    def apply(self, input_: Any) -> Any:
        """Add the vector."""
        return input_ + self.parameters[0]

    def get_dim(self, name: str) -> Any:
        """Return the dimension of ``input_`` or ``output``."""
        return self.dim if name in ("input_", "output") else super().get_dim(name)


class Identity(Activation):
    """Return the input."""

    @application(inputs=["input_"], outputs=["output"])
    def apply(self, input_: Any) -> Any:
        """Apply it."""
        return input_


class Tanh(Activation):
    """Hyperbolic tangent."""

    @application(inputs=["input_"], outputs=["output"])
    def apply(self, input_: Any) -> Any:
        """Apply it to each element."""
        return current().tensor.tanh(input_)


class Logistic(Activation):
    """Logistic function, ``1 / (1 + exp(-x))``."""

    @application(inputs=["input_"], outputs=["output"])
    def apply(self, input_: Any) -> Any:
        """Apply it to each element."""
        # Equal to the formula above, and cannot overflow.
        return 0.5 * (current().tensor.tanh(0.5 * input_) + 1)


class Rectifier(Activation):
    """The input where it is positive, zero elsewhere."""

    @application(inputs=["input_"], outputs=["output"])
    def apply(self, input_: Any) -> Any:
        """Apply it to each element."""
        return current().tensor.maximum(input_, 0)


class Softmax(Brick):
    """Probabilities from unnormalised log-probabilities, row by row."""

    @application(inputs=["input_"], outputs=["output"])
    def apply(self, input_: Any) -> Any:
        """Return the matrix of probabilities."""
        exponentials = current().tensor.exp(input_ - input_.max(axis=1, keepdims=True))
        return exponentials / exponentials.sum(axis=1, keepdims=True)

    @application(inputs=["input_"], outputs=["output"])
    def log_probabilities(self, input_: Any) -> Any:
        """Return the matrix of their logarithms."""
        tensor = current().tensor
        shifted = input_ - input_.max(axis=1, keepdims=True)
        return shifted - tensor.log(tensor.exp(shifted).sum(axis=1, keepdims=True))

    @application(inputs=["y", "x"], outputs=["output"])
    def categorical_cross_entropy(self, y: Any, x: Any) -> Any:
        """Return the cross-entropy of each row; accurate where probabilities underflow.

        Parameters
        ----------
        y : vector of integers, or matrix
            The true class of each row, or its distribution.
        x : matrix
            Unnormalised log-probabilities, classes in columns.
        """
        return -picked(self.log_probabilities(x), y)


def picked(log_probabilities: Any, y: Any) -> Any:
    """Return the element of each row that ``y`` says, or the mean that ``y`` weighs.

    Parameters
    ----------
    log_probabilities : matrix
    y : vector of integers, or matrix
    """
    if y.ndim == log_probabilities.ndim:
        return (y * log_probabilities).sum(axis=1)
    if y.ndim != log_probabilities.ndim - 1:
        raise ValueError(f"y has {y.ndim} axes; a vector of classes or a matrix is needed")
    rows, columns = log_probabilities.shape[0], log_probabilities.shape[1]
    return log_probabilities.flatten()[current().tensor.arange(rows) * columns + y]
