"""Ratios of times, measured turn by turn."""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any


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
    """Measure ``function`` and its baseline, turn by turn."""
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
    times, others = zip(*pairs)
    return ratio_of(work, list(times), baseline, list(others), reach)


@dataclass
class Work:
    """Something to be timed.

    Attributes
    ----------
    name : str
    do : callable
        What is timed.
    before : callable
        Called before each turn, and not timed.
    reach : float, optional
        The ratio that is asked for.
    """

    name: str
    do: Callable[[], Any]
    before: Callable[[], Any] = lambda: None
    reach: float | None = None


def times_of(works: list[Work], turns: int) -> dict[str, list[float]]:
    """Measure works turn by turn, in an order that is another one each turn.

    Whoever comes after one that gives much memory back finds it at once; whoever
    comes after one that takes some waits until the system has found more. The
    orders are the same in each run.

    Returns
    -------
    dict of str to list of float
        Name of the work to seconds.
    """
    times: dict[str, list[float]] = {work.name: [] for work in works}
    for turn in range(-1, turns):
        for work in random.Random(turn).sample(works, len(works)):
            work.before()
            taken = seconds(work.do)
            # The first turn warms caches and memory.
            if turn >= 0:
                times[work.name].append(taken)
    return times


def race(baseline: Work, works: list[Work], *, turns: int = 5) -> list[Ratio]:
    """Measure several works, and one baseline for all of them, turn by turn.

    Whatever else the machine does meanwhile, it does to all of them.
    """
    times = times_of([baseline, *works], turns)
    return [
        ratio_of(work.name, times[work.name], baseline.name, times[baseline.name], work.reach)
        for work in works
    ]


def ratio_of(
    work: str, times: list[float], baseline: str, others: list[float], reach: float | None = None
) -> Ratio:
    """Make a ratio of times that were taken turn by turn."""
    ratios = [mine / other for mine, other in zip(times, others)]
    low, _, high = statistics.quantiles(ratios, n=4)
    median = statistics.median(ratios)
    return Ratio(work, baseline, median, low, high, statistics.median(others), reach)


def milliseconds(
    work: str,
    do: Callable[..., Any],
    reach: float,
    turns: int,
    before: Callable[[], Any] | None = None,
) -> Ratio:
    """Measure something that is asked to take some milliseconds, whatever else does.

    What `before` returns is given to `do`, and closed in the end.
    """
    times = []
    for turn in range(-1, turns):
        if before is None:
            taken = seconds(do)
        else:
            with before() as thing:
                taken = seconds(lambda thing=thing: do(thing))
        if turn >= 0:
            times.append(taken * 1000)
    return ratio_of(work, times, "1 ms", [1.0] * turns, reach)


def add_turns(parser: argparse.ArgumentParser, default: int = 5) -> None:
    """Add the option that says how often everything is measured."""
    words = f"how often everything is measured: 2 or more, {default} by default"
    parser.add_argument("--turns", type=_turns, default=default, metavar="N", help=words)


def _turns(text: str) -> int:
    turns = int(text)
    if turns < 2:
        # How far the turns are apart cannot be told from one.
        raise argparse.ArgumentTypeError(f"{turns} is too few; 2 or more")
    return turns


def show(title: str, ratios: list[Ratio], *, as_json: bool) -> None:
    """Print ratios as a table, or as JSON."""
    if as_json:
        print(json.dumps([asdict(ratio) for ratio in ratios], indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title)
    for column in ("work", "baseline", "× baseline", "middle half", "reach", "baseline (s)"):
        table.add_column(column, justify="left" if column in ("work", "baseline") else "right")
    for each in ratios:
        table.add_row(
            each.work,
            each.baseline,
            # A ratio of a thousandth is no zero.
            f"{each.ratio:.2f}" if each.ratio >= 0.1 else f"{each.ratio:.2g}",
            "" if each.low is None else f"{each.low:.2g} to {each.high:.2g}",
            "" if each.reach is None else f"≤ {each.reach:g}",
            "" if each.baseline_seconds is None else f"{each.baseline_seconds:.3f}",
        )
    Console(width=120).print(table)
