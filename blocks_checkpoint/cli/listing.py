"""``blocks-checkpoint ls``: the checkpoints in a folder, as a table."""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import click
from rich.table import Table
from rich.text import Text

from ..retention import KeepAny, KeepBest, KeepEvery, KeepFor, KeepLast, Policy, why_kept
from ..retention.survey import Entry, Survey, is_whole, survey
from .errors import one_line_errors, one_line_warnings
from .tables import make_console
from .text import one_line, printable, readable_bytes

__all__ = ["chosen_policy", "ls", "policy_options", "survey_of"]

Command = TypeVar("Command", bound=Callable[..., Any])

_BEST = re.compile(r"(?P<record>.+?)(?::(?P<n>[0-9]+))?(?::(?P<mode>min|max))?", re.DOTALL)


def policy_options(command: Command) -> Command:
    """Give a command the options that make up a policy."""
    options = (
        click.option("--keep-last", type=int, metavar="N", help="Keep the last N."),
        click.option(
            "--keep-best",
            multiple=True,
            metavar="NAME[:N][:max]",
            help="Keep the N (1) with the lowest value of the record NAME, or the highest. "
            "May be given several times.",
        ),
        click.option(
            "--keep-every-epochs", type=int, metavar="N", help="Keep one in N epochs for good."
        ),
        click.option(
            "--keep-every-iterations",
            type=int,
            metavar="N",
            help="Keep one in N iterations for good.",
        ),
        click.option("--keep-hours", type=float, metavar="H", help="Keep those younger than that."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def chosen_policy(
    *,
    keep_last: int | None,
    keep_best: Iterable[str],
    keep_every_epochs: int | None,
    keep_every_iterations: int | None,
    keep_hours: float | None,
) -> Policy | None:
    """Return the policy that the options make up; None if there are none."""
    rules: list[Policy] = []
    try:
        if keep_last is not None:
            rules.append(KeepLast(keep_last))
        rules += map(_best, keep_best)
        if keep_every_epochs is not None:
            rules.append(KeepEvery(epochs=keep_every_epochs))
        if keep_every_iterations is not None:
            rules.append(KeepEvery(iterations=keep_every_iterations))
        if keep_hours is not None:
            rules.append(KeepFor(keep_hours))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    return KeepAny(tuple(rules)) if rules else None


def _best(text: str) -> KeepBest:
    match = _BEST.fullmatch(text)
    if match is None:
        raise ValueError("--keep-best is empty; give the name of a record")
    return KeepBest(int(match["n"] or 1), match["record"], match["mode"] or "min")


def survey_of(folder: str) -> Survey:
    """Look at a folder; an error of the file system ends the command."""
    with one_line_errors(OSError), one_line_warnings():
        # Without links, as the paths are that links point to.
        return survey(os.path.realpath(folder))


@dataclass(frozen=True)
class _Line:
    entry: Entry
    verified: bool | None
    kept: list[str] | None


@click.command()
@click.argument("folder", type=click.Path(), default=".")
@click.option(
    "--value",
    "names",
    multiple=True,
    metavar="NAME",
    help="Show the record NAME. May be given several times.",
)
@click.option("--verify", is_flag=True, help="Read every byte of each file, and compare checksums.")
@policy_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def ls(folder: str, names: tuple[str, ...], verify: bool, as_json: bool, **options: Any) -> None:
    """List the checkpoints in FOLDER, by iteration.

    The last column says why each would be kept: by the rules given, or else
    by those of the run that saved it. Nothing is deleted, nor unpickled.
    """
    policy = chosen_policy(**options)
    found = survey_of(folder)
    lines = _lines(found, policy, verify)
    if as_json:
        click.echo(json.dumps(_as_plain(found, lines, time.time()), indent=2))
        return
    _require_known(names, found.entries)
    shown = names or _names_ruled_by([policy, *(line.entry.policy for line in lines)])
    if lines:
        make_console().print(_table(lines, shown, time.time()))
    total = sum(line.entry.file_bytes for line in lines)
    click.echo(f"{len(lines)} checkpoint{'' if len(lines) == 1 else 's'}, {readable_bytes(total)}")
    for path, reason in found.unreadable:
        click.echo(one_line(f"cannot be read: {os.path.basename(path)}: {reason}"))


def _lines(found: Survey, policy: Policy | None, verify: bool) -> list[_Line]:
    verified = {entry.path: is_whole(entry.path) if verify else None for entry in found.entries}
    kept: dict[str, list[str]] = {}
    ruled: set[str] = set()
    for series, entries in found.by_series().items():
        rule = policy or entries[-1].policy
        if series is None or rule is None:
            continue
        saves = [entry.as_saved(verified[entry.path]) for entry in entries]
        kept.update(why_kept(saves, rule, time.time(), protected=found.linked))
        ruled.update(entry.path for entry in entries)
    return [
        _Line(
            entry,
            verified[entry.path],
            kept.get(entry.path, []) if entry.path in ruled else None,
        )
        for entry in found.entries
    ]


def _names_ruled_by(policies: Iterable[Policy | None]) -> tuple[str, ...]:
    """Return the records that rules look at: those are what one wants to see."""
    rules = [rule for policy in policies if policy for rule in policy.rules()]
    return tuple(dict.fromkeys(rule.record for rule in rules if isinstance(rule, KeepBest)))


def _require_known(names: Iterable[str], entries: Iterable[Entry]) -> None:
    known = {name for entry in entries for name in entry.records}
    for name in names:
        if name not in known:
            raise click.UsageError(
                one_line(
                    f"no checkpoint here has a value of {name!r}. "
                    f"There are: {', '.join(sorted(known)) or 'none'}"
                )
            )


def _table(lines: list[_Line], names: tuple[str, ...], now: float) -> Table:
    several = len({line.entry.series for line in lines}) > 1
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("file", overflow="fold")
    if several:
        table.add_column("series")
    for title in ("iteration", "epoch", *names, "size", "age"):
        # Text, because a name in square brackets is no style.
        table.add_column(Text(printable(title)), justify="right", no_wrap=True)
    table.add_column("verified")
    table.add_column("kept because")
    for line in lines:
        entry = line.entry
        cells = [
            os.path.basename(entry.path),
            *([(entry.series or "none")[:8]] if several else []),
            _number(entry.iteration),
            _number(entry.epoch),
            *(_value(entry.records.get(name)) for name in names),
            readable_bytes(entry.file_bytes),
            _age(entry.time, now),
            {None: "not checked", True: "yes", False: "damaged"}[line.verified],
            _kept(line.kept),
        ]
        table.add_row(*(Text(printable(cell)) for cell in cells))
    return table


def _number(value: int | None) -> str:
    return "?" if value is None else str(value)


def _value(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _kept(reasons: list[str] | None) -> str:
    if reasons is None:
        return "no rule"
    return ", ".join(reasons) or "not kept"


def _age(saved: float | None, now: float) -> str:
    if saved is None:
        return "?"
    age = max(0.0, now - saved)
    for seconds, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        # Two digits at least, so that 119 minutes are not "1 h".
        if age >= 2 * seconds:
            return f"{age // seconds:.0f} {unit}"
    return f"{age:.0f} s"


def _as_plain(found: Survey, lines: list[_Line], now: float) -> dict[str, Any]:
    rows = []
    for line in lines:
        entry = line.entry
        rows.append(
            {
                "path": entry.path,
                "file_bytes": entry.file_bytes,
                "format": entry.format,
                "iteration": entry.iteration,
                "epoch": entry.epoch,
                "time": entry.time,
                "age_seconds": None if entry.time is None else now - entry.time,
                "records": _without_nan(entry.records),
                "is_complete": entry.is_complete,
                "series": entry.series,
                "number": entry.number,
                "verified": line.verified,
                "kept": line.kept,
            }
        )
    unreadable = [{"path": path, "reason": reason} for path, reason in found.unreadable]
    return {"checkpoints": rows, "unreadable": unreadable}


def _without_nan(records: Mapping[str, Any]) -> dict[str, Any]:
    # JSON has no word for them.
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in records.items()
    }
