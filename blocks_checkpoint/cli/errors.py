"""How errors leave a command: one line, exit code 1, no traceback; and warnings."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import click

from ..errors import CheckpointError, CheckpointWarning
from .text import one_line

__all__ = ["describe_error", "one_line_errors", "one_line_warnings"]


def describe_error(error: BaseException) -> str:
    """Return the text of an error as one line."""
    if isinstance(error, OSError) and not isinstance(error, CheckpointError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return one_line(f"{where}{error.strerror}")
    return one_line(str(error)) or type(error).__name__


@contextmanager
def one_line_errors(*kinds: type[Exception]) -> Iterator[None]:
    """Turn the package's own errors, and those of ``kinds``, into one line.

    Any other exception is a fault of this program, or of the training script,
    and keeps its traceback.
    """
    expected: tuple[type[Exception], ...] = (CheckpointError, *kinds)
    try:
        yield
    except expected as error:
        raise _OneLine(describe_error(error)) from error


@contextmanager
def one_line_warnings() -> Iterator[None]:
    """Print each warning as one line, without the place in the source."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CheckpointWarning)
        try:
            yield
        finally:
            for warning in caught:
                click.echo(f"warning: {one_line(str(warning.message))}", err=True)


class _OneLine(click.ClickException):
    def show(self, file: object = None) -> None:
        click.echo(f"error: {self.message}", err=True)
