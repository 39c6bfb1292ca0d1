"""The error that says what cannot be pickled, and where it hangs.

The search for that walks through the whole graph, up to a minute long. A run
that goes on when its saves fail meets the same obstacle at each of them: it is
searched for once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import diagnosis
from .errors import UnpicklableError

__all__ = ["Searches"]

#: Offenders that a message lists; the error has all of them.
LISTED_OFFENDERS = 20

_AGAIN = (
    "A save before it failed in the same way; what was found then is told here, and was not "
    "searched for again. "
)


class Searches:
    """Searches for what cannot be pickled, one for failures in a row that have one cause.

    Two failures have the same cause if the same was being pickled, and the
    pickler said the same of it.
    """

    def __init__(self) -> None:
        self._cause: tuple[object, ...] = ()
        self._findings = diagnosis.Findings([], True)

    def explain(
        self,
        error: Exception,
        name: str,
        roots: Sequence[tuple[str, Any]],
        walker: diagnosis.Walker,
    ) -> UnpicklableError:
        """Return the error that lists everything that cannot be pickled.

        Parameters
        ----------
        error : Exception
            What the pickler said.
        name : str
            What it was pickling.
        roots : sequence of (str, object)
            Where to search; what to call each, and the object.
        walker : Walker
        """
        is_too_deep = isinstance(error, RecursionError)
        reason = str(error) or type(error).__name__
        if is_too_deep:
            reason = (
                "it is nested too deeply, or a class in it calls itself without end when asked "
                f"for its state ({error})"
            )
        cause = (name, type(error), reason, *(root for root, _ in roots))
        is_known = cause == self._cause
        if not is_known:
            self._findings = diagnosis.find_offenders(roots, walker)
            self._cause = cause
        findings = self._findings
        return UnpicklableError(
            f"{name} cannot be pickled: {reason.rstrip('.')}. {_AGAIN if is_known else ''}"
            f"{_listing(findings, is_too_deep)}",
            offenders=findings.offenders,
        )


def _listing(findings: diagnosis.Findings, is_too_deep: bool) -> str:
    offenders = findings.offenders
    lines = [str(offender) for offender in offenders[:LISTED_OFFENDERS]]
    if len(offenders) > LISTED_OFFENDERS:
        lines.append(f"and {len(offenders) - LISTED_OFFENDERS} more (see error.offenders)")
    if not findings.is_complete:
        lines.append("and perhaps more: the search was given up, the graph is too large or endless")
    if not lines and is_too_deep:
        return (
            "No object in it fails by itself. Break the chain: keep its objects in a list beside "
            "each other, or give their class a __getstate__ that does without the links"
        )
    if not lines:
        return "No object in it fails by itself; the error above is all that is known"
    return "What stands in the way:" + "".join(f"\n  - {line}" for line in lines)
