"""Where the time of a run goes."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from typing import Any, TextIO

__all__ = ["Profile", "Timer"]


class Profile:
    """Seconds spent in nested, named sections.

    Attributes
    ----------
    total : dict
        Seconds by section; a section is the tuple of the names it is nested
        in, as in ``('training', 'epoch', 'train')``.
    current : list of str
        Names of the sections that are open now, outermost first.
    """

    def __init__(self) -> None:
        self.total: defaultdict[tuple[str, ...], float] = defaultdict(float)
        self.current: list[str] = []

    def enter(self, name: str) -> None:
        """Open a section inside the present one."""
        self.current.append(name)
        # Touched on entry, so that a report lists a section before those in it.
        self.total[tuple(self.current)] += 0.0

    def exit(self, seconds: float) -> None:
        """Close the innermost section, which took so many ``seconds``."""
        self.total[tuple(self.current)] += seconds
        self.current.pop()

    def report(self, file: TextIO | None = None) -> None:
        """Print a line per section: seconds, and share of the whole.

        Parameters
        ----------
        file : file object, optional
            Where to; standard error by default.
        """
        file = file or sys.stderr
        whole = sum(seconds for section, seconds in self.total.items() if len(section) == 1)
        print(f"{'Section':40}{'Seconds':>12}{'Share':>10}", file=file)
        for section, seconds in self._in_order(()):
            label = "  " * (len(section) - 1) + section[-1].replace("_", " ")
            share = seconds / whole if whole else 0.0
            print(f"{label:40}{seconds:12.2f}{share:10.1%}", file=file)

    def _in_order(self, parent: tuple[str, ...]) -> list[tuple[tuple[str, ...], float]]:
        lines: list[tuple[tuple[str, ...], float]] = []
        for section, seconds in self.total.items():
            if section[:-1] == parent:
                lines += [(section, seconds), *self._in_order(section)]
        return lines


class Timer:
    """Context manager that adds the time spent inside it to a profile.

    Parameters
    ----------
    name : str
        Section to add to, inside the one that is open.
    profile : Profile
    """

    def __init__(self, name: str, profile: Profile) -> None:
        self.name = name
        self.profile = profile

    def __enter__(self) -> None:
        self.profile.enter(self.name)
        self._start = time.perf_counter()

    def __exit__(self, *exception: Any) -> None:
        self.profile.exit(time.perf_counter() - self._start)
