"""Extensions of the main loop.

Monitoring is in :mod:`.monitoring`, what follows a best value in
:mod:`.training` and :mod:`.stopping`, predicates in :mod:`.predicates`.
"""

from .base import CallbackName, TrainingExtension, callback
from .finishing import FinishAfter
from .printing import Printing, Timestamp
from .progress import ProgressBar
from .simple import (
    CompositeExtension,
    Predicate,
    SimpleExtension,
    always_true,
    has_done_epochs,
)
from .timing import Timing

__all__ = [
    "CallbackName",
    "CompositeExtension",
    "FinishAfter",
    "Predicate",
    "Printing",
    "ProgressBar",
    "SimpleExtension",
    "Timestamp",
    "Timing",
    "TrainingExtension",
    "always_true",
    "callback",
    "has_done_epochs",
]
