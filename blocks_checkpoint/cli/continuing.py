"""``blocks-continue``: go on with an interrupted run."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import click

from ..candidates import open_newest
from ..version import __version__
from .errors import one_line_errors

__all__ = ["main"]


@click.command(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.argument("path", type=click.Path())
@click.option(
    "--main",
    "script",
    type=click.Path(exists=True, dir_okay=False),
    metavar="SCRIPT",
    help="Training script to take functions and classes from that the main "
    "loop had from the script it was saved by.",
)
@click.version_option(__version__, prog_name="blocks-continue", message="%(prog)s %(version)s")
def main(path: str, script: str | None) -> None:
    """Continue the training run that was saved in the checkpoint PATH.

    PATH may be a folder or a pattern ('runs/*.zip'): of several checkpoints the
    newest good one is taken.

    The main loop is unpickled, which runs code: continue only from files that
    you trust. Modules are looked for in the current folder too, as by
    ``python -m``.
    """
    folder = os.path.dirname(os.path.abspath(script)) if script else os.getcwd()
    # A console script has the folder of the script itself there, which is of
    # no use to the user's modules.
    sys.path.insert(0, folder)
    with one_line_errors():
        checkpoint = open_newest(path, needs_main_loop=True)
        assert checkpoint is not None
        with checkpoint:
            status = checkpoint.manifest.get("status", {})
        click.echo(f"continuing {checkpoint.path} at {_place(status)}")
        # Imports an engine, for seconds: not before the file is known to be good.
        from ..continuation import continue_training

        main_loop = continue_training(checkpoint.path, main=script)
    click.echo(f"ended at {_place(main_loop.status)}")


def _place(status: Mapping[str, Any]) -> str:
    return f"epoch {status.get('epochs_done', '?')}, iteration {status.get('iterations_done', '?')}"
