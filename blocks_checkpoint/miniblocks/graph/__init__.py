"""Computation graphs and what can be done to them."""

from ..roles import AUXILIARY, DROPOUT, PARAMETER, add_role, has_roles
from .annotations import Annotation, add_annotation
from .bn import (
    apply_batch_normalization,
    batch_normalization,
    get_batch_normalization_updates,
)
from .computation import ComputationGraph
from .dropout import apply_dropout

__all__ = [
    "AUXILIARY",
    "DROPOUT",
    "PARAMETER",
    "Annotation",
    "ComputationGraph",
    "add_annotation",
    "add_role",
    "apply_batch_normalization",
    "apply_dropout",
    "batch_normalization",
    "get_batch_normalization_updates",
    "has_roles",
]
