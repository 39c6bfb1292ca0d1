"""The class that the extensions are made from: Blocks' where Blocks works, or ours."""

from __future__ import annotations

import importlib.util
import warnings
from typing import TYPE_CHECKING, Any

from ..errors import CheckpointWarning

__all__ = ["SimpleExtension"]


def _is_installed(package: str) -> bool:
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return False
    # A folder that happens to be called so has no origin.
    return spec is not None and spec.origin is not None


def _base_class() -> Any:
    if _is_installed("blocks"):
        try:
            from blocks.extensions import SimpleExtension

            return SimpleExtension
        except Exception as error:
            warnings.warn(
                f"Blocks is installed, but cannot be imported here ({type(error).__name__}: "
                f"{error}); the extensions work in the main loop of miniblocks",
                CheckpointWarning,
                stacklevel=2,
            )
    from ..miniblocks.extensions import SimpleExtension as Ours

    return Ours


if TYPE_CHECKING:
    from ..miniblocks.extensions import SimpleExtension
else:
    SimpleExtension = _base_class()
