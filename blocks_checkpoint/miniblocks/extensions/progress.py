"""A bar that shows how far the epoch is."""

from __future__ import annotations

from typing import Any

from .base import TrainingExtension

__all__ = ["ProgressBar"]


class ProgressBar(TrainingExtension):
    """Show the batches of an epoch as a progress bar, on a terminal.

    The number of batches is taken from the iteration scheme where that has
    one; without it the bar only counts. Put this extension before those that
    print, so that the bar is complete when they do.

    Parameters
    ----------
    name : str, optional
        As for :class:`TrainingExtension`.
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.bar: Any = None

    def __getstate__(self) -> dict[str, Any]:
        # A bar holds the terminal; the next process makes its own.
        return {**self.__dict__, "bar": None}

    def get_iter_per_epoch(self) -> int | None:
        """Return the number of batches in an epoch, or None if it is not known."""
        scheme: Any = getattr(self.main_loop.data_stream, "iteration_scheme", None)
        examples: int | None
        if hasattr(scheme, "indices"):
            examples = len(scheme.indices)
        else:
            examples = getattr(scheme, "num_examples", None)
        if not examples:
            return None
        return -(-examples // getattr(scheme, "batch_size", 1))

    def create_bar(self) -> Any:
        """Make the bar of this epoch, at the batch that the epoch has reached."""
        # Here, not at the top: the other extensions work without it.
        from tqdm import tqdm  # type: ignore[import-untyped,unused-ignore]

        status = self.main_loop.log.status
        epoch_start = status["_epoch_ends"][-1] if status["_epoch_ends"] else 0
        return tqdm(
            total=self.get_iter_per_epoch(),
            initial=status["iterations_done"] - epoch_start,
            desc=f"Epoch {status['epochs_done']}",
            unit="batch",
            disable=None,
        )

    def before_batch(self, batch: Any) -> None:
        """Open the bar at the first batch."""
        if self.bar is None:
            self.bar = self.create_bar()

    def after_batch(self, batch: Any) -> None:
        """Move it by one."""
        self.bar.update()

    def after_epoch(self) -> None:
        """Close it."""
        self._close()

    def on_interrupt(self) -> None:
        """Close it where it stands."""
        self._close()

    def after_training(self) -> None:
        """Close it where it stands."""
        self._close()

    def on_error(self, exception: BaseException) -> None:
        """Close it where it stands."""
        self._close()

    def _close(self) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None
