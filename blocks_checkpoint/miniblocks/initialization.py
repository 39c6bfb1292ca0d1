"""How parameters get their first values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy

from ..engines import current

__all__ = [
    "Constant",
    "Identity",
    "IsotropicGaussian",
    "NdarrayInitialization",
    "Orthogonal",
    "Uniform",
]


class NdarrayInitialization(ABC):
    """A way to fill an array."""

    @abstractmethod
    def generate(self, rng: Any, shape: tuple[int, ...]) -> Any:
        """Return a new array.

        Parameters
        ----------
        rng : numpy.random.RandomState
        shape : tuple of int
        """

    def initialize(self, var: Any, rng: Any, shape: tuple[int, ...] | None = None) -> None:
        """Give a shared variable a new value, of its own shape by default."""
        values = self.generate(rng, shape or var.get_value(borrow=True).shape)
        var.set_value(numpy.asarray(values, dtype=current().floatX))


class Constant(NdarrayInitialization):
    """The same value everywhere.

    Parameters
    ----------
    constant : float or array_like
        An array is broadcast to the shape.
    """

    def __init__(self, constant: Any) -> None:
        self.constant = numpy.asarray(constant)

    def generate(self, rng: Any, shape: tuple[int, ...]) -> Any:
        """Return a new array."""
        return numpy.array(numpy.broadcast_to(self.constant, shape), dtype=current().floatX)


class IsotropicGaussian(NdarrayInitialization):
    """Independent draws from one normal distribution.

    Parameters
    ----------
    std, mean : float, optional
    """

    def __init__(self, std: float = 1, mean: float = 0) -> None:
        self.std = std
        self.mean = mean

    def generate(self, rng: Any, shape: tuple[int, ...]) -> Any:
        """Return a new array."""
        return rng.normal(self.mean, self.std, size=shape).astype(current().floatX)


class Uniform(NdarrayInitialization):
    """Independent draws from one uniform distribution.

    Parameters
    ----------
    mean : float, optional
    width, std : float
        Width of the interval, or the standard deviation: one of the two.
    """

    def __init__(
        self, mean: float = 0.0, width: float | None = None, std: float | None = None
    ) -> None:
        if (width is None) == (std is None):
            raise ValueError("Uniform needs either a width or a standard deviation")
        self.mean = mean
        self.width = float(numpy.sqrt(12) * std) if width is None else width

    def generate(self, rng: Any, shape: tuple[int, ...]) -> Any:
        """Return a new array."""
        low, high = self.mean - self.width / 2, self.mean + self.width / 2
        return rng.uniform(low, high, size=shape).astype(current().floatX)


class Identity(NdarrayInitialization):
    """The identity matrix, cut or padded with zeros to the shape.

    Parameters
    ----------
    mult : float, optional
        Factor.
    """

    def __init__(self, mult: float = 1) -> None:
        self.mult = mult

    def generate(self, rng: Any, shape: tuple[int, ...]) -> Any:
        """Return a new matrix."""
        rows, columns = shape
        return self.mult * numpy.eye(rows, columns, dtype=current().floatX)


class Orthogonal(NdarrayInitialization):
    """A random matrix with orthogonal rows or columns.

    Parameters
    ----------
    scale : float, optional
        Factor.
    """

    def __init__(self, scale: float = 1) -> None:
        self.scale = scale

    def generate(self, rng: Any, shape: tuple[int, ...]) -> Any:
        """Return a new matrix."""
        rows, columns = shape
        draws = rng.normal(size=(max(shape), min(shape)))
        basis, triangle = numpy.linalg.qr(draws)
        # Makes all such matrices equally probable.
        basis = basis * numpy.sign(numpy.diag(triangle))
        matrix = basis if rows >= columns else basis.T
        return (self.scale * matrix).astype(current().floatX)
