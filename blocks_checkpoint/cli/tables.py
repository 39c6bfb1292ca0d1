"""Lay a summary out as text for a person."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .summary import ArrayLine, Summary, total_bytes
from .text import one_line, printable, readable_bytes, readable_dtype, readable_shape

__all__ = ["make_console", "print_summary"]

#: Columns where the output is no terminal: wide enough for long names.
PIPE_WIDTH = 160


def make_console() -> Console:
    """Return a console on standard output that keeps long names whole."""
    console = Console(highlight=False, emoji=False, markup=False)
    if not console.is_terminal:
        console.width = PIPE_WIDTH
    return console


def print_summary(console: Console, summary: Summary) -> None:
    """Print everything that a summary holds."""
    console.print(_head_table(summary))
    _print_arrays(console, "Parameters", summary.parameters, with_kind=False)
    _print_arrays(console, "Other arrays", summary.others, with_kind=True)


def _head_table(summary: Summary) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")

    def add(label: str, value: str) -> None:
        # Text, because a name in square brackets is no style.
        table.add_row(Text(label, style="bold"), Text(printable(value)))

    add("file", f"{summary.path} ({readable_bytes(summary.file_bytes)})")
    add("status", _status_line(summary.status))
    add("saved", _saved_line(summary.saved))
    add("versions", _versions_line(summary.versions))
    add("format", f"{summary.format} {summary.format_version or summary.kind or ''}".rstrip())
    main_loop = summary.main_loop
    if summary.main_loop_error:
        main_loop += f": {one_line(summary.main_loop_error)}"
    add("main loop", main_loop)
    if summary.proof is not None:
        reason = one_line(summary.proof["reason"])
        add("proven", "loads in a fresh process" if summary.proof["loads"] else f"no: {reason}")
    for label, cost in ("cost", summary.cost), ("... before", summary.cost_of_save_before):
        if any(cost.values()):
            steps = [f"{step} {seconds:.3g} s" for step, seconds in cost.items() if seconds]
            add(label, ", ".join(steps))
    if summary.pickles:
        add("pickles", f"{', '.join(summary.pickles)} (loading them runs code; this did not)")
    return table


def _status_line(status: dict[str, Any]) -> str:
    counts = [
        f"{status[key]} {noun} done"
        for key, noun in (("epochs_done", "epochs"), ("iterations_done", "iterations"))
        if key in status
    ]
    return ", ".join(counts) or "unknown"


def _saved_line(saved: dict[str, Any]) -> str:
    parts = [str(saved["time"])] if saved.get("time") else []
    if saved.get("host"):
        parts.append(f"on {saved['host']}")
    if saved.get("script"):
        parts.append(f"by {saved['script']}")
    return " ".join(parts) or "unknown"


def _versions_line(versions: dict[str, Any]) -> str:
    # "blocks" may be said by words: "Blocks 0.1 to 0.2 (2015)".
    parts = [
        str(version) if name == "blocks" else f"{name} {version}"
        for name, version in versions.items()
        if version
    ]
    return ", ".join(parts) or "unknown"


def _print_arrays(console: Console, title: str, lines: list[ArrayLine], *, with_kind: bool) -> None:
    console.print()
    if not lines:
        console.print(Text(f"{title}: none"))
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(title, overflow="fold")
    if with_kind:
        table.add_column("kind")
    table.add_column("shape", justify="right")
    table.add_column("type")
    table.add_column("size", justify="right", no_wrap=True)
    for line in lines:
        kind = [line.kind] if with_kind else []
        values = [
            readable_shape(line.shape),
            readable_dtype(line.dtype),
            readable_bytes(line.nbytes),
        ]
        table.add_row(*(Text(printable(cell)) for cell in [line.name, *kind, *values]))
    console.print(table)
    console.print(Text(f"{len(lines)} in all, {readable_bytes(total_bytes(lines))}", style="bold"))
