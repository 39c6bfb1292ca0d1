"""Training algorithms."""

from .base import TrainingAlgorithm
from .gradient_descent import GradientDescent
from .step_rules import Adam, BasicMomentum, CompositeRule, Momentum, Scale, StepRule
from .updates import UpdatesAlgorithm

__all__ = [
    "Adam",
    "BasicMomentum",
    "CompositeRule",
    "GradientDescent",
    "Momentum",
    "Scale",
    "StepRule",
    "TrainingAlgorithm",
    "UpdatesAlgorithm",
]
