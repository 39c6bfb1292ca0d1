"""``blocks-checkpoint``: look into checkpoints, tidy up, and convert those of Blocks."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from ..checkpoint_file import open_checkpoint
from ..errors import CheckpointError
from ..version import __version__
from .convert import convert
from .errors import describe_error, one_line_errors, one_line_warnings
from .listing import ls
from .pruning import prune
from .replaying import replay
from .summary import summarize
from .tables import make_console, print_summary
from .text import one_line

__all__ = ["main"]

#: Verifying less than this is over before anybody looks (bytes).
LARGE_FILE_BYTES = 256 * 1024 * 1024


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80})
@click.version_option(__version__, prog_name="blocks-checkpoint", message="%(prog)s %(version)s")
def main() -> None:
    """Look into checkpoints, tidy up, convert old ones.

    Nothing in them is run, but for ``replay``.
    """


main.add_command(convert)
main.add_command(ls)
main.add_command(prune)
main.add_command(replay)


@main.command()
@click.argument("path", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def info(path: str, as_json: bool) -> None:
    """Show what is in the checkpoint PATH: status, versions, arrays.

    Reads the manifest only. Nothing is unpickled, so this is safe on files
    that you do not trust.
    """
    with one_line_errors(OSError), one_line_warnings(), open_checkpoint(path) as checkpoint:
        summary = summarize(checkpoint)
    if as_json:
        click.echo(json.dumps(summary.as_dict(), indent=2))
    else:
        print_summary(make_console(), summary)


@main.command()
@click.argument("paths", type=click.Path(), nargs=-1, required=True, metavar="PATH...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of lines.")
def verify(paths: tuple[str, ...], as_json: bool) -> None:
    """Read every byte of each checkpoint PATH and compare checksums.

    Prints one line a file. The exit code is 1 if one of them is damaged, is
    no checkpoint, or cannot be read.
    """
    verdicts = []
    for path in paths:
        with one_line_warnings():
            verdict = _verify(path)
        verdicts.append(verdict)
        if not as_json:
            click.echo(_verdict_line(verdict))
    if as_json:
        click.echo(json.dumps(verdicts, indent=2))
    if not all(verdict["good"] for verdict in verdicts):
        sys.exit(1)


def _verify(path: str) -> dict[str, Any]:
    damage: list[dict[str, Any]] = []
    error = None
    try:
        with open_checkpoint(path) as checkpoint, _progress(path) as progress:
            for found in checkpoint.verify(progress=progress):
                damage.append({"member": found.member, "reason": str(found.reason)})
    except (CheckpointError, OSError) as failure:
        error = describe_error(failure)
    return {"path": path, "good": not damage and error is None, "damage": damage, "error": error}


def _verdict_line(verdict: dict[str, Any]) -> str:
    if verdict["good"]:
        return one_line(f"good {verdict['path']}")
    if verdict["error"]:
        return one_line(f"bad {verdict['error']}")
    found = "; ".join(f"member {row['member']!r}: {row['reason']}" for row in verdict["damage"])
    return one_line(f"bad {verdict['path']}: {found}")


@contextmanager
def _progress(path: str) -> Iterator[Callable[[int], None] | None]:
    """Show a bar on standard error while a large file is read."""
    console = Console(stderr=True)
    size = os.path.getsize(path)
    if size < LARGE_FILE_BYTES or not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(path, total=size)
        yield lambda read: bar.advance(task, read)
