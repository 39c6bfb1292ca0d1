"""``blocks-checkpoint replay``: is a run the same when it is run again?"""

from __future__ import annotations

import dataclasses
import json
import sys

import click

from .errors import one_line_errors, one_line_warnings
from .text import one_line

__all__ = ["replay"]


@click.command()
@click.argument("path", type=click.Path())
@click.argument("other", type=click.Path(), required=False, metavar="[PATH2]")
@click.option(
    "--batches", default=10, show_default=True, type=click.IntRange(min=1), help="To train."
)
@click.option(
    "--main",
    "script",
    type=click.Path(exists=True, dir_okay=False),
    metavar="SCRIPT",
    help="Training script to take functions of __main__ from.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a line.")
def replay(path: str, other: str | None, batches: int, script: str | None, as_json: bool) -> None:
    """Train from PATH twice, in fresh processes, and compare.

    Given a later checkpoint PATH2 of the same run, trains from PATH up to it
    and compares with what is in it. Nothing is saved. The exit code is 1 if
    the two differ.

    The main loop is unpickled, which runs code: only for files that you trust.
    """
    from ..replay import replay as replay_twice

    with one_line_errors(OSError), one_line_warnings():
        result = replay_twice(path, other, batches=batches, main=script)
    if as_json:
        described = {"identical": result.is_identical, **dataclasses.asdict(result)}
        click.echo(json.dumps(described, indent=2))
    else:
        click.echo(one_line(str(result)))
    if not result.is_identical:
        sys.exit(1)
