"""Bricks applied one after another."""

from __future__ import annotations

import copy
from collections.abc import Sequence as SequenceOf
from typing import Any

from ..utils.containers import pack
from .base import BoundApplication, Brick, NoneAllocation, application, lazy
from .interfaces import Feedforward, Initializable
from .simple import Linear

__all__ = ["MLP", "FeedforwardSequence", "Sequence"]


class Sequence(Brick):
    """Apply each brick to what the one before returned.

    Parameters
    ----------
    application_methods : sequence of Brick or BoundApplication
        Of a brick, its ``apply`` is used.
    **kwargs
        For :class:`.Brick`.
    """

    def __init__(self, application_methods: SequenceOf[Any], **kwargs: Any) -> None:
        self.application_methods = [
            method if isinstance(method, BoundApplication) else method.apply
            for method in application_methods
        ]
        bricks = [*(kwargs.pop("children", None) or ())]
        for method in self.application_methods:
            # A brick that is applied twice is one child.
            if not any(method.brick is brick for brick in bricks):
                bricks.append(method.brick)
        super().__init__(children=bricks, **kwargs)

    @application
    def apply(self, *args: Any) -> Any:
        """Apply all of them."""
        values: Any = args
        for method in self.application_methods:
            values = method(*pack(values))
        return values

    @apply.property("inputs")
    def apply_inputs(self) -> Any:
        """Return the names of the first one's inputs."""
        return self.application_methods[0].inputs

    @apply.property("outputs")
    def apply_outputs(self) -> Any:
        """Return the names of the last one's outputs."""
        return self.application_methods[-1].outputs


class FeedforwardSequence(Sequence, Feedforward):
    """A sequence whose first and last bricks have one input and one output.

    Parameters
    ----------
    application_methods : sequence of Brick or BoundApplication
    **kwargs
        For :class:`.Brick`.
    """

    @property
    def input_dim(self) -> Any:
        """Dimension of the first brick's input."""
        return self.children[0].input_dim

    @input_dim.setter
    def input_dim(self, value: Any) -> None:
        self.children[0].input_dim = value

    @property
    def output_dim(self) -> Any:
        """Dimension of the last brick's output."""
        return self.children[-1].output_dim

    @output_dim.setter
    def output_dim(self, value: Any) -> None:
        self.children[-1].output_dim = value


class MLP(FeedforwardSequence, Initializable):
    """Linear transformations, each followed by an activation.

    Parameters
    ----------
    activations : sequence of Brick, BoundApplication or None
        One per layer; None for no activation.
    dims : sequence of int
        Dimension of the input, then of each layer's output; needed for allocation.
    prototype : Brick, optional
        Copied for each layer in the place of a :class:`.Linear`.
    **kwargs
        For :class:`.Initializable`.
    """

    @lazy(allocation=["dims"])
    def __init__(
        self,
        activations: SequenceOf[Any],
        dims: Any,
        prototype: Brick | None = None,
        **kwargs: Any,
    ) -> None:
        self.activations = list(activations)
        self.prototype = prototype or Linear()
        self.dims = dims or [NoneAllocation] * (len(activations) + 1)
        self.linear_transformations: list[Any] = []
        methods: list[Any] = []
        for layer, activation in enumerate(self.activations):
            transformation = copy.deepcopy(self.prototype)
            transformation.name = f"{type(self.prototype).__name__.lower()}_{layer}"
            self.linear_transformations.append(transformation)
            methods += [transformation] if activation is None else [transformation, activation]
        super().__init__(methods, **kwargs)

    @property
    def input_dim(self) -> Any:
        """Dimension of the input."""
        return self.dims[0]

    @input_dim.setter
    def input_dim(self, value: Any) -> None:
        self.dims = [value, *self.dims[1:]]

    @property
    def output_dim(self) -> Any:
        """Dimension of the last layer's output."""
        return self.dims[-1]

    @output_dim.setter
    def output_dim(self, value: Any) -> None:
        self.dims = [*self.dims[:-1], value]

    def _push_allocation_config(self) -> None:
        if len(self.dims) != len(self.linear_transformations) + 1:
            raise ValueError(
                f"brick {self.name} has {len(self.linear_transformations)} layers "
                f"and needs one dimension more, not {self.dims}"
            )
        for layer, dims in zip(self.linear_transformations, zip(self.dims, self.dims[1:])):
            layer.input_dim, layer.output_dim = dims
            if getattr(self, "use_bias", None) is not None:
                layer.use_bias = self.use_bias
