"""A symbolic link, ``latest.zip``, beside the newest checkpoint."""

from __future__ import annotations

import logging
import os

__all__ = ["LATEST", "point_latest_to"]

logger = logging.getLogger(__name__)

LATEST = "latest.zip"


def point_latest_to(path: str | os.PathLike[str], name: str = LATEST) -> bool:
    """Make the link in the folder of a checkpoint point to it.

    The link is relative, so that the folder can be moved, and is replaced in
    one step: at any time it points to the one or to the other. Where it
    cannot be made (on a system without symbolic links, or because something
    else has that name) an error is logged, and training goes on.

    Parameters
    ----------
    path : str or os.PathLike
        A checkpoint that is durable already.
    name : str
        Of the link.

    Returns
    -------
    bool
        Whether the link points to it.
    """
    target = os.fspath(path)
    link = os.path.join(os.path.dirname(target), name)
    try:
        if os.path.lexists(link) and not os.path.islink(link):
            logger.error("%s is no link, and stays as it is: nothing points to %s", link, target)
            return False
        _replace_link(link, os.path.basename(target))
    except (OSError, NotImplementedError) as error:
        logger.error("%s cannot be made to point to %s: %s", link, target, error)
        return False
    return True


def _replace_link(link: str, target: str) -> None:
    folder, name = os.path.split(link)
    # One name for all: a process that is killed leaves one such link at most.
    partial = os.path.join(folder, f".{name}.partial")
    if os.path.islink(partial):
        os.unlink(partial)
    os.symlink(target, partial)
    os.replace(partial, link)
