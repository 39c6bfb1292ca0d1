"""When, where and with what a checkpoint was saved, for its manifest."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

import numpy as np

from .engines import loaded_versions
from .version import __version__

__all__ = ["plain_status", "saved_where", "versions"]


def saved_where() -> dict[str, Any]:
    """Say when and by which process."""
    return {
        "time": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "script": getattr(sys.modules.get("__main__"), "__file__", None),
    }


def versions() -> dict[str, str]:
    """List the versions of what the pickles depend on."""
    found = {
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        "blocks_checkpoint": __version__,
        **loaded_versions(),
    }
    for name in ("blocks", "fuel", "h5py", "scipy", "grain", "torch", "torchdata"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if isinstance(version, str):
            found[name] = str(version)
    return found


def plain_status(status: Mapping[str, Any]) -> dict[str, Any]:
    """Take from a status what is a plain value, as it is now."""
    plain = (bool, int, float, str, type(None), np.generic)
    # The list of epoch ends grows while a background save is written.
    return {
        str(key): list(value) if key == "_epoch_ends" else value
        for key, value in dict(status).items()
        if isinstance(value, plain) or key == "_epoch_ends"
    }
