"""``blocks-checkpoint convert``: from what Blocks wrote to a checkpoint of today."""

from __future__ import annotations

from typing import Any

import click

from .errors import one_line_errors
from .text import one_line

__all__ = ["convert"]


@click.command()
@click.argument("old", type=click.Path())
@click.argument("new", type=click.Path())
@click.option(
    "--from-npz", is_flag=True, help="OLD has to be an npz of parameters, and nothing else."
)
@click.option(
    "--to",
    "kind",
    type=click.Choice(["checkpoint", "npz", "safetensors"]),
    default="checkpoint",
    show_default=True,
    help="What to write. The last two hold the parameters alone.",
)
@click.option("--force", is_flag=True, help="Replace NEW if it is there.")
def convert(old: str, new: str, from_npz: bool, kind: str, force: bool) -> None:
    """Write the checkpoint NEW from OLD, which Blocks wrote.

    OLD is a checkpoint of any version of Blocks (a zip, a tar, or the folder
    of a dump) or an npz of parameters. Parameters, other arrays, the log and
    the status are carried over; what is not, is listed. Nothing in OLD is
    run. With --to, OLD may be a checkpoint of this package, too.
    """
    # Not at the top: the other commands do not need any of it.
    from .. import conversion

    with one_line_errors(OSError):
        if from_npz:
            conversion.require_npz(old)
        if kind == "npz":
            _say_exported(conversion.export_npz(old, new, force=force), new)
        elif kind == "safetensors":
            _say_exported(conversion.export_safetensors(old, new, force=force), new)
        else:
            _say_converted(conversion.convert(old, new, force=force))


def _say_exported(names: list[str], new: str) -> None:
    click.echo(one_line(f"{new}: {_count(names, 'parameter')}"))


def _say_converted(report: dict[str, Any]) -> None:
    status = report["status"]
    parts = [_count(report["parameters"], "parameter")]
    if report["arrays"]:
        parts.append(_count(report["arrays"], "other array"))
    if report["log"]:
        parts.append("the log")
    if "iterations_done" in status:
        parts.append(
            f"at iteration {status['iterations_done']}, epoch {status.get('epochs_done', '?')}"
        )
    click.echo(one_line(f"{report['target']}: {', '.join(parts)}"))
    if report["not_carried_over"]:
        click.echo("Not carried over:")
        for sentence in report["not_carried_over"]:
            click.echo(one_line(f"- {sentence}"))


def _count(names: list[str], what: str) -> str:
    return f"{len(names)} {what}{'' if len(names) == 1 else 's'}"
