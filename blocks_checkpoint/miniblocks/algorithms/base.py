"""What an algorithm is to a main loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

__all__ = ["TrainingAlgorithm"]


class TrainingAlgorithm(ABC):
    """Base of everything that changes a model, batch by batch."""

    @abstractmethod
    def initialize(self, **kwargs: Any) -> None:
        """Get ready; called once, after ``before_training``."""

    @abstractmethod
    def process_batch(self, batch: Any) -> None:
        """Train on one batch, a dictionary from source to data."""
