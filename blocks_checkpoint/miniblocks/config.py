"""Settings of the process, read from the environment once."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

__all__ = ["Configuration", "config"]


def _flag(variable: str) -> bool:
    return os.environ.get(variable, "").lower() not in ("", "0", "false")


@dataclass
class Configuration:
    """What Blocks lets its users set.

    Attributes
    ----------
    default_seed : int
        Seed of every generator that is not given one (``BLOCKS_DEFAULT_SEED``).
    recursion_limit : int
        Least recursion limit while a main loop runs (``BLOCKS_RECURSION_LIMIT``).
    profile : bool
        Print where the time went at the end of a run (``BLOCKS_PROFILE``).
    log_backend : str
        Kind of log a main loop makes; ``'python'`` is the only one.
    temp_dir : str or None
        Where temporary files go; None means the system's choice (``BLOCKS_TEMPDIR``).
    """

    default_seed: int = field(default_factory=lambda: int(os.environ.get("BLOCKS_DEFAULT_SEED", 1)))
    recursion_limit: int = field(
        default_factory=lambda: int(os.environ.get("BLOCKS_RECURSION_LIMIT", 10000))
    )
    profile: bool = field(default_factory=lambda: _flag("BLOCKS_PROFILE"))
    log_backend: str = "python"
    temp_dir: str | None = field(default_factory=lambda: os.environ.get("BLOCKS_TEMPDIR"))


#: The settings of this process.
config = Configuration()
