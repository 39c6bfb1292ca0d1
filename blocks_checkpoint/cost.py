"""What a save takes, step by step."""

from __future__ import annotations

from dataclasses import asdict, dataclass

__all__ = ["SaveCost"]


@dataclass
class SaveCost:
    """What one save took, in seconds.

    The steps overlap (summing goes on while bytes are written), so they do not
    add up to the whole.

    Attributes
    ----------
    pickle : float
        Pickling the object graph and the log, naming the arrays.
    copy : float
        Copying the arrays into memory of the save's own; in the background only.
    checksum : float
        CRC-32 of the large members, on a second thread. That of the small ones
        is part of writing, and that of large arrays in the background part of
        copying.
    write : float
        Handing bytes to the system; for a file that is written past its cache,
        also having the disk take them.
    sync : float
        Waiting for the disk to have them.
    stall : float
        How long training waited for the save.
    """

    pickle: float = 0.0
    copy: float = 0.0
    checksum: float = 0.0
    write: float = 0.0
    sync: float = 0.0
    stall: float = 0.0

    def known_before_the_end(self) -> dict[str, float]:
        """Return the steps that are over when the manifest is written."""
        steps = ("pickle", "copy", "checksum", "write")
        return {step: value for step, value in asdict(self).items() if step in steps}

    def as_records(self) -> dict[str, float]:
        """Return the steps as records of a log: ``save_stall_seconds`` and so on."""
        return {f"save_{step}_seconds": value for step, value in asdict(self).items()}
