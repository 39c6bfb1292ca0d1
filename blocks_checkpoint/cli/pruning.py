"""``blocks-checkpoint prune``: delete the checkpoints that no rule keeps."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from ..retention import Policy, Saved, to_delete
from ..retention.series import apply
from ..retention.survey import Entry, is_whole
from .listing import chosen_policy, policy_options, survey_of
from .text import one_line, readable_bytes

__all__ = ["prune"]


@click.command()
@click.argument("folder", type=click.Path())
@policy_options
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, and delete nothing.")
def prune(folder: str, dry_run: bool, **options: Any) -> None:
    """Delete the checkpoints in FOLDER that no rule given keeps.

    Each series, which is what one run saved under one name with fields, is
    looked at by itself. Never deleted are the newest of a series, the newest
    that is good (it is read and compared with its checksums first), one that
    is damaged, one that a symbolic link in FOLDER points to, and what belongs
    to no series. The exit code is 1 if something could not be deleted.
    """
    policy = chosen_policy(**options)
    if policy is None:
        raise click.UsageError("give at least one rule, such as --keep-last 3")
    found = survey_of(folder)
    doomed: list[Entry] = []
    for series, entries in found.by_series().items():
        if series is None:
            for entry in entries:
                _say(f"left alone: {_name(entry.path)}: belongs to no series")
        else:
            doomed += _doomed(entries, policy, found.linked)
    for path, reason in found.unreadable:
        _say(f"left alone: {_name(path)}: {reason}")
    with _logged_to_standard_error():
        paths = [entry.path for entry in doomed]
        deleted = set(paths if dry_run else apply(paths))
    freed = [entry for entry in doomed if entry.path in deleted]
    for entry in freed:
        _say(f"{'would delete' if dry_run else 'deleted'}: {_name(entry.path)}")
    size = readable_bytes(sum(entry.file_bytes for entry in freed))
    kept = len(found.entries) - len(freed)
    _say(f"{len(freed)} {'to delete' if dry_run else 'deleted'} ({size}), {kept} kept")
    # One that somebody else has deleted meanwhile is as it should be.
    if any(os.path.lexists(entry.path) for entry in doomed) and not dry_run:
        sys.exit(1)


def _doomed(entries: list[Entry], policy: Policy, linked: set[str]) -> list[Entry]:
    saves = _checked(entries)
    paths = set(to_delete(saves, policy, time.time(), protected=linked))
    return [entry for entry in entries if entry.path in paths]


def _checked(entries: list[Entry]) -> list[Saved]:
    """Verify from the newest on, until one is good: the rest then hangs on no luck."""
    saves: list[Saved] = []
    is_sure = False
    for entry in reversed(entries):
        verified = None if is_sure else is_whole(entry.path)
        saves.append(entry.as_saved(verified))
        is_sure = is_sure or bool(verified and entry.is_complete)
    return saves


def _say(text: str) -> None:
    click.echo(one_line(text))


def _name(path: str) -> str:
    return os.path.basename(path)


@contextmanager
def _logged_to_standard_error() -> Iterator[None]:
    """Print what cannot be deleted, and why."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            click.echo(one_line(f"warning: {record.getMessage()}"), err=True)

    package = logging.getLogger(__package__.partition(".")[0] if __package__ else None)
    handler = Handler(logging.WARNING)
    package.addHandler(handler)
    try:
        yield
    finally:
        package.removeHandler(handler)
