"""Bricks to build models of."""

from .base import Brick, application, lazy
from .bn import BatchNormalization, BatchNormalizedMLP
from .interfaces import Activation, Feedforward, Initializable
from .sequences import MLP, FeedforwardSequence, Sequence
from .simple import Bias, Identity, Linear, Logistic, Rectifier, Softmax, Tanh

__all__ = [
    "MLP",
    "Activation",
    "BatchNormalization",
    "BatchNormalizedMLP",
    "Bias",
    "Brick",
    "Feedforward",
    "FeedforwardSequence",
    "Identity",
    "Initializable",
    "Linear",
    "Logistic",
    "Rectifier",
    "Sequence",
    "Softmax",
    "Tanh",
    "application",
    "lazy",
]
