"""The training extensions: ``Checkpoint``, ``Resume``, ``LoadParameters``.

They hook the events of a main loop, Blocks' or miniblocks', and leave the
work to the modules below them.
"""

from __future__ import annotations

from .checkpoint import Checkpoint
from .resume import Load, LoadParameters, Resume

__all__ = ["Checkpoint", "Load", "LoadParameters", "Resume"]
