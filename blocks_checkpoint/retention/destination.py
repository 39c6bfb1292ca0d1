"""Where the next save goes, whether it is due, and what is tidied up after it."""

from __future__ import annotations

import os
import socket
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from . import KeepBest, Policy
from .best import BestSoFar
from .latest import point_latest_to
from .path_template import PathTemplate, is_template, template_values
from .records import LastRecords
from .series import Series, series_id

__all__ = ["Destination", "Target"]


class Destination:
    """A path to save to again and again, with or without fields.

    Parameters
    ----------
    path : str or os.PathLike
    policy : Policy, optional
        What to keep; by default all. Only for a path with fields: without
        them there is one file, and each save replaces it.
    best : BestSoFar, optional
        Save nothing but what is better than all before.
    latest : bool
        Keep a link ``latest.zip`` beside the newest file.

    Raises
    ------
    ValueError
        A mistake in the fields, or a policy without any.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        policy: Policy | None = None,
        best: BestSoFar | None = None,
        latest: bool = False,
    ) -> None:
        self.path = os.fspath(path)
        self.policy = policy
        self.best = best
        self.latest = latest
        self.template = PathTemplate(self.path) if is_template(self.path) else None
        if policy is not None and self.template is None:
            raise ValueError(
                f"keep: the path {self.path!r} has no fields, so that each save replaces the file "
                "of before; use one such as 'run-{iterations_done}.zip'"
            )
        self._records = LastRecords()
        self._series: Series | None = None

    def next(self, log: Any) -> Target | None:
        """Say where the state that the log describes is to be saved.

        Parameters
        ----------
        log : TrainingLog
            Gets an entry in its status if the path has fields.

        Returns
        -------
        Target or None
            None if it is not to be saved, for it is not the best.

        Raises
        ------
        SaveError
            The log has no value for a field of the path.
        """
        records = self._records.update(log, self._names())
        path = self.path
        if self.template is not None:
            now = datetime.now().astimezone()
            path = self.template.format(
                template_values(log.status, records, now=now, host=socket.gethostname())
            )
        if self.best is not None and not self.best.is_due(log, path):
            return None
        series = self._series_of(log)
        manifest: dict[str, Any] = {"records": records}
        if series is not None:
            manifest["series"] = series.manifest_entry(self.policy)
        return Target(path, manifest, self, log, series)

    def _names(self) -> set[str]:
        rules = self.policy.rules() if self.policy else ()
        return {
            *(self.template.fields if self.template else ()),
            *(rule.record for rule in rules if isinstance(rule, KeepBest)),
            *([self.best.record] if self.best else ()),
        }

    def _series_of(self, log: Any) -> Series | None:
        if self.template is None:
            return None
        identifier = series_id(log.status, self.template.name)
        if self._series is None or self._series.identifier != identifier:
            self._series = Series(identifier, self.template)
        return self._series

    def end(self, log: Any) -> None:
        """Complain, after training, about a record that was never made."""
        if self.best is not None:
            self.best.complain(self._records.update(log, self._names()))


@dataclass
class Target:
    """One save: where it goes.

    Call :meth:`begin` before the log is pickled, and then either
    :meth:`failed`, or, when the file is durable, :meth:`done`.

    Attributes
    ----------
    path : str
    manifest : dict
        What the manifest says in addition: ``records`` and ``series``.
    """

    path: str
    manifest: dict[str, Any]
    _destination: Destination = field(repr=False)
    _log: Any = field(repr=False)
    _series: Series | None = field(repr=False)
    _noted: Any = field(default=None, repr=False)

    def begin(self) -> None:
        """Write into the status what the log in the file shall have."""
        if self._destination.best is not None:
            self._noted = self._destination.best.note(self._log)

    def failed(self) -> None:
        """Take that back."""
        if self._destination.best is not None and self._noted is not None:
            self._destination.best.take_back(self._log, self._noted)

    def done(
        self,
        *,
        saved_to: str | None = None,
        protected: Collection[str | os.PathLike[str]] = (),
        is_verified: bool = False,
    ) -> list[str]:
        """Let the link follow, and delete what is no longer kept.

        Never raises for a file that cannot be deleted, or a link that cannot
        be made.

        Parameters
        ----------
        saved_to : str, optional
            The file that was written, if it is another one: what could be
            saved without the main loop. The link does not follow there.
        protected : collection of str or os.PathLike
            Files that this run was resumed from.
        is_verified : bool
            Whether the file was read back.

        Returns
        -------
        list of str
            What was deleted.
        """
        if self._destination.latest and saved_to is None:
            point_latest_to(self.path)
        policy = self._destination.policy
        if policy is None or self._series is None:
            return []
        return self._series.release(
            policy, saved_to or self.path, protected=protected, is_verified=is_verified
        )
