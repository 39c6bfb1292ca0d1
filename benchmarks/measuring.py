"""Ratios of times, measured turn by turn."""

from __future__ import annotations

import gc
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Ratio:
    """How long something takes, as a multiple of a baseline.

    Attributes
    ----------
    work, baseline : str
    ratio : float
        Median over the turns.
    low, high : float
        The middle half of the turns lies between them.
    baseline_seconds : float
        Median; to see the order of magnitude.
    reach : float or None
        The ratio that is asked for.
    """

    work: str
    baseline: str
    ratio: float
    low: float | None = None
    high: float | None = None
    baseline_seconds: float | None = None
    reach: float | None = None


def seconds(function: Callable[[], Any]) -> float:
    """Time one call, without what its result costs to throw away."""
    gc.collect()
    start = time.perf_counter()
    result = function()
    elapsed = time.perf_counter() - start
    del result
    return elapsed


def compare(
    work: str,
    function: Callable[[], Any],
    baseline: str,
    baseline_function: Callable[[], Any],
    *,
    reach: float | None = None,
    turns: int = 11,
) -> Ratio:
    """Measure ``function`` and its baseline in turn."""
    seconds(baseline_function)
    seconds(function)
    pairs = []
    for turn in range(turns):
        # Whoever comes second finds warmer caches: each is that, every other turn.
        if turn % 2:
            mine = seconds(function)
            other = seconds(baseline_function)
        else:
            other = seconds(baseline_function)
            mine = seconds(function)
        pairs.append((mine, other))
    ratios = sorted(mine / other for mine, other in pairs)
    low, _, high = statistics.quantiles(ratios, n=4)
    return Ratio(
        work,
        baseline,
        statistics.median(ratios),
        low,
        high,
        statistics.median(other for _, other in pairs),
        reach,
    )


def show(title: str, ratios: list[Ratio], *, as_json: bool) -> None:
    """Print ratios as a table, or as JSON."""
    if as_json:
        print(json.dumps([asdict(ratio) for ratio in ratios], indent=2))
        return
    table = Table(title=title)
    for column in ("work", "baseline", "× baseline", "middle half", "reach", "baseline (s)"):
        table.add_column(column, justify="left" if column in ("work", "baseline") else "right")
    for each in ratios:
        table.add_row(
            each.work,
            each.baseline,
            f"{each.ratio:.2f}",
            "" if each.low is None else f"{each.low:.2f} to {each.high:.2f}",
            "" if each.reach is None else f"≤ {each.reach:g}",
            "" if each.baseline_seconds is None else f"{each.baseline_seconds:.3f}",
        )
    Console(width=120).print(table)
