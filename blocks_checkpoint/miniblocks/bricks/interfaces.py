"""What kinds of bricks have in common."""

from __future__ import annotations

from typing import Any

import numpy

from ..config import config
from .base import Brick

__all__ = ["Activation", "Feedforward", "Initializable", "RNGMixin"]


class Activation(Brick):
    """A function of each element, without parameters."""


class Feedforward(Brick):
    """A brick with one input and one output.

    Attributes
    ----------
    input_dim, output_dim : int
    """

    input_dim: Any
    output_dim: Any


class RNGMixin:
    """A generator of random numbers for initial values.

    Attributes
    ----------
    seed : int
        Drawn when first needed, if it is not set before.
    rng : numpy.random.RandomState
        Seeded with it.
    """

    #: Draws the seeds that are not given.
    seed_rng = numpy.random.RandomState(config.default_seed)

    _seed: int | None = None
    _rng: Any = None

    @property
    def seed(self) -> int:
        """Seed of the generator."""
        if self._seed is None:
            self._seed = int(self.seed_rng.randint(numpy.iinfo(numpy.int32).max))
        return self._seed

    @seed.setter
    def seed(self, value: int | None) -> None:
        if self._seed is not None:
            raise AttributeError("the seed is set already")
        self._seed = value

    @property
    def rng(self) -> Any:
        """The generator."""
        if self._rng is None:
            self._rng = numpy.random.RandomState(self.seed)
        return self._rng

    @rng.setter
    def rng(self, value: Any) -> None:
        self._rng = value


class Initializable(RNGMixin, Brick):
    """A brick whose weights and biases are initialised as it is told; so are its children's.

    Parameters
    ----------
    weights_init, biases_init : NdarrayInitialization, optional
        Needed for :meth:`~.Brick.initialize`.
    use_bias : bool, optional
        Whether to have biases; if it is not given, whatever a child does by itself.
    seed : int, optional
        As for :class:`RNGMixin`.
    **kwargs
        For :class:`.Brick`.
    """

    def __init__(
        self,
        weights_init: Any = None,
        biases_init: Any = None,
        use_bias: bool | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.weights_init = weights_init
        self.biases_init = biases_init
        if use_bias is not None:
            self.use_bias = use_bias
        self.seed = seed

    def _initialize_by(self, name: str, parameter: Any) -> None:
        """Give a parameter values by the initialisation of that name."""
        initialization = getattr(self, name)
        if initialization is None:
            raise ValueError(f"brick {self.name}: {name} must be set first")
        initialization.initialize(parameter, self.rng)

    def _push_initialization_config(self) -> None:
        for child in self.children:
            if isinstance(child, Initializable):
                child.rng = self.rng
                child.weights_init = self.weights_init or child.weights_init
                child.biases_init = self.biases_init or child.biases_init
