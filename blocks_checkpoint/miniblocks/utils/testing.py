"""Stand-ins with which a main loop runs in no time."""

from __future__ import annotations

import time
from typing import Any
from unittest import SkipTest

from ..algorithms.base import TrainingAlgorithm
from ..config import config
from ..datasets import IterableDataset
from ..main_loop import MainLoop

__all__ = ["MockAlgorithm", "MockMainLoop", "skip_if_configuration_set"]


class MockAlgorithm(TrainingAlgorithm):
    """Keep the batch as ``batch``, and do nothing with it.

    Parameters
    ----------
    delay_time : float, optional
        Seconds to sleep on each batch.
    """

    def __init__(self, delay_time: float = 0) -> None:
        self.delay_time = delay_time
        self._is_initialized = False

    def initialize(self, **kwargs: Any) -> None:
        """Note that it was called, which must happen once."""
        assert not self._is_initialized
        self._is_initialized = True

    def process_batch(self, batch: Any) -> None:
        """Keep the batch."""
        self.batch = batch
        time.sleep(self.delay_time)


class MockMainLoop(MainLoop):
    """A main loop over the numbers 0 to 9 with a :class:`MockAlgorithm`.

    Parameters
    ----------
    delay_time : float, optional
        For the algorithm.
    **kwargs
        For :class:`.MainLoop`.
    """

    def __init__(self, delay_time: float = 0, **kwargs: Any) -> None:
        kwargs.setdefault("data_stream", IterableDataset(range(10)).get_example_stream())
        kwargs.setdefault("algorithm", MockAlgorithm(delay_time))
        super().__init__(**kwargs)


def skip_if_configuration_set(configuration: str, value: Any, message: str = "") -> None:
    """Skip the test where a setting has that value.

    Raises
    ------
    unittest.SkipTest
    """
    if getattr(config, configuration) == value:
        raise SkipTest(message or f"{configuration} is {value}")
