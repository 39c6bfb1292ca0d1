"""Checkpoints that Blocks itself wrote, from 2015 to 2018, and files of parameters.

They are recognised by what is in them. Parameters and other arrays are read
without opening a pickle; the log without Blocks, Theano, or running anything.

==================  ==========================================================
`recognition`       which kind a file is
`sources`           where the parts of each kind are
`names`             what its arrays are called
`checkpoint`        all of it as one open checkpoint
==================  ==========================================================
"""

from __future__ import annotations

from .checkpoint import LegacyCheckpoint, open_legacy

__all__ = ["LegacyCheckpoint", "open_legacy"]
