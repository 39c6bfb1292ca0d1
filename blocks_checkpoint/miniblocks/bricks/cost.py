"""Bricks that compute a cost."""

from __future__ import annotations

from typing import Any

import numpy

from ...engines import current
from .base import Brick, application
from .simple import picked

__all__ = ["CategoricalCrossEntropy", "Cost", "MisclassificationRate", "SquaredError"]


class Cost(Brick):
    """Base of the bricks that compute a cost, a scalar."""


class SquaredError(Cost):
    """Squared distance of prediction and truth; the mean over the rows."""

    @application(outputs=["cost"])
    def apply(self, y: Any, y_hat: Any) -> Any:
        """Return the cost of a matrix ``y_hat`` where ``y`` is true."""
        return ((y - y_hat) ** 2).sum(axis=1).mean()


class CategoricalCrossEntropy(Cost):
    """Cross-entropy of predicted probabilities; the mean over the rows."""

    @application(outputs=["cost"])
    def apply(self, y: Any, y_hat: Any) -> Any:
        """Return the cost.

        Parameters
        ----------
        y : vector of integers, or matrix
            The true class of each row, or its distribution.
        y_hat : matrix
            Predicted probabilities, classes in columns.
        """
        # A probability that has underflowed has a large cost, not an infinite one.
        smallest = numpy.finfo(y_hat.dtype).tiny
        return -picked(current().tensor.log(current().tensor.maximum(y_hat, smallest)), y).mean()


class MisclassificationRate(Cost):
    """Share of the rows whose true class is not among the most probable.

    Parameters
    ----------
    top_k : int, optional
        How many of the most probable classes count; a tie counts as a mistake.
    """

    def __init__(self, top_k: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.top_k = top_k

    @application(outputs=["error_rate"])
    def apply(self, y: Any, y_hat: Any) -> Any:
        """Return the share for a vector ``y`` of classes and a matrix ``y_hat``."""
        tensor = current().tensor
        if self.top_k == 1:
            mistakes = tensor.neq(y, y_hat.argmax(axis=1))
        else:
            truth = picked(y_hat, y).dimshuffle(0, "x")
            mistakes = tensor.ge(y_hat, truth).sum(axis=1) > self.top_k
        return mistakes.mean(dtype=current().floatX)
