"""Saving a main loop while it runs."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable
from typing import Any

from ..arena import Arena
from ..background import WHEN_BUSY, BackgroundSaver
from ..contents import Contents
from ..errors import SaveError
from ..main_module import script_of
from ..mid_batch import batch_is_next
from ..proving import Prover
from ..read_ahead import warn_of_reading_ahead
from ..resumption import all_extensions, is_blocks_loop, is_interrupted
from ..retention import Policy
from ..retention.best import BestSoFar
from ..retention.destination import Destination, Target
from ..retention.policy_forms import policy_of
from ..saving import prepare
from ..schedule import Overhead, schedule_of
from ..signals import SignalWatch
from ..weight import warn_of_weight
from .deferral import Deferring, after_all_extensions
from .record import SaveRecord
from .resume import Resume
from .saves import Save, Saves, log_failure

__all__ = ["Checkpoint"]

logger = logging.getLogger(__name__)

#: Triggers that say how often to save; any of them replaces ``after_epoch``.
PERIODIC_TRIGGERS = frozenset(
    [
        "after_batch",
        "after_n_batches",
        "after_n_epochs",
        "before_batch",
        "before_epoch",
        "every_n_batches",
        "every_n_epochs",
    ]
)

#: After these, nothing more may come: what was saved has to be durable.
LAST_EVENTS = ("on_interrupt", "on_error", "after_training")


class Checkpoint(Deferring):
    """Save the main loop, so that training can go on from there.

    Saves after every epoch, when training is interrupted, and after training.
    Each save replaces the file of before in one step: whatever happens
    meanwhile, one of the two is there, and whole.

    The save waits until the last extension has seen the event, wherever in
    the list this one stands.

    Makes a record ``saved_to`` in the log's current row: a tuple of the paths
    saved to, with ``None`` for a save that failed; why it did is then the
    record ``save_error``.

    Parameters
    ----------
    path : str or os.PathLike or None
        Where to save. It may have fields, ``'run-{epochs_done:03d}.zip'``,
        filled from the log's status and its latest records. None if all
        conditions bring their own paths (see ``add_condition``); nothing is
        then saved by default.
    parameters : list of shared variables, optional
        Those whose values are stored whether or not the main loop reaches
        them. By default the model's.
    save_separately : sequence of str
        Attributes of the main loop that get a member to themselves, and can
        be loaded without the rest. The log and the iteration state do as
        long as the main loop is saved.
    save_main_loop : bool
        If false, only parameters and what ``save_separately`` names is saved.
    use_cpickle : bool
        Accepted for the sake of old scripts. The C pickler is always used.
    on_failure : {'raise', 'warn'}
        What to do when a save fails: end training with the error, or log the
        error and train on. The file of before is untouched either way.
    verify : bool
        Read back what was written before it replaces the file of before.
    prove : bool
        After a save, let a fresh process of low priority load the file as
        ``continue_training`` would, without running it. What comes of it is
        logged, and written beside the file as ``NAME.proof.json``. While one is
        being proven, others wait, the last in place of those before it.
    protocol : int
        Pickle protocol.
    keep : Policy, optional
        Which files of a path with fields to keep: ``KeepLast(3) |
        KeepBest(2, 'valid_error')``. All, by default.
    keep_last : int, optional
        Short for ``KeepLast``.
    keep_best : int and str, optional
        Short for ``KeepBest``: ``(2, 'valid_error')``.
    only_if_best : str or (str, {'min', 'max'}), optional
        Save nothing but what has a better value of this record than all
        before.
    latest : bool
        Keep a link ``latest.zip`` beside the newest file.
    background : bool
        Write the file while training goes on. What is written is the state
        at the time, whatever training does to it since.
    when_busy : {'wait', 'skip', 'replace'}
        What becomes of a save that comes due while another is being written.
    every_n_seconds : float, optional
        Save after so many seconds of training.
    max_overhead : float, optional
        Save as often as keeps training waiting for this share of its time:
        0.01 for a hundredth.
    at_least_every : float, optional
        With ``max_overhead``: seconds of training after which to save
        whatever it costs.
    record_cost : bool
        Write into the log what each save took, step by step, as soon as that
        is known: ``save_stall_seconds`` is how long training waited for it.
        The steps are those of :class:`~.SaveCost`.
    on_signal : signal.Signals, optional
        Save after the batch in which this signal comes, and train on.
    **triggers
        When to save, as for every extension: ``every_n_batches=1000``. A
        periodic one replaces ``after_epoch``; ``on_interrupt`` and
        ``after_training`` stay, unless set to false.

    Raises
    ------
    SaveError
        From the main loop's ``run``, if a save fails.

    Notes
    -----
    If the main loop cannot be pickled, everything else is saved all the same,
    and the error lists what stands in the way. A file that training could
    have gone on from is not replaced by one from which it cannot: the rest
    then goes beside it, to ``NAME.without_main_loop.zip``.
    """

    # Not in files of before it was an option.
    record_cost = False

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        parameters: Iterable[Any] | None = None,
        save_separately: Iterable[str] | None = ("log", "iteration_state"),
        save_main_loop: bool = True,
        use_cpickle: bool = True,
        *,
        on_failure: str = "raise",
        verify: bool = False,
        prove: bool = False,
        protocol: int = 5,
        keep: Policy | None = None,
        keep_last: int | None = None,
        keep_best: Any = None,
        only_if_best: Any = None,
        latest: bool = False,
        background: bool = False,
        when_busy: str = "wait",
        every_n_seconds: float | None = None,
        max_overhead: float | None = None,
        at_least_every: float | None = None,
        record_cost: bool = False,
        on_signal: Any = None,
        **triggers: Any,
    ) -> None:
        if on_failure not in ("raise", "warn"):
            raise ValueError(f"Checkpoint: on_failure is {on_failure!r}; use 'raise' or 'warn'")
        if isinstance(save_separately, str):
            raise ValueError(
                f"Checkpoint: save_separately is a list of names; use [{save_separately!r}]"
            )
        if when_busy not in WHEN_BUSY:
            raise ValueError(f"Checkpoint: when_busy is {when_busy!r}; use {', '.join(WHEN_BUSY)}")
        self._schedule = schedule_of(every_n_seconds, max_overhead, at_least_every)
        self._signals = SignalWatch(on_signal)
        if path is not None:
            is_periodic = self._schedule is not None or any(
                triggers.get(name) for name in PERIODIC_TRIGGERS
            )
            if not is_periodic:
                triggers.setdefault("after_epoch", True)
            triggers.setdefault("on_interrupt", True)
            triggers.setdefault("after_training", True)
        super().__init__(**triggers)
        self.path = None if path is None else os.fspath(path)
        self.parameters = None if parameters is None else list(parameters)
        self.save_separately = tuple(save_separately or ())
        self.save_main_loop = save_main_loop
        self.use_cpickle = use_cpickle
        self.on_failure = on_failure
        self.verify = verify
        self.record_cost = record_cost
        self._prover = Prover() if prove else None
        self.protocol = protocol
        self._destinations: dict[str | None, Destination] = {}
        policy = policy_of(keep, keep_last, keep_best)
        if self.path is not None:
            best = None if only_if_best is None else BestSoFar.of(only_if_best)
            self._destinations[self.path] = Destination(
                self.path, policy=policy, best=best, latest=latest
            )
        self._background = BackgroundSaver(when_busy) if background else None
        self._arena = Arena()
        # As it is now, before anybody edits it.
        script_of("__main__")
        self._begin_process()

    def _begin_process(self) -> None:
        """Set up what this process has told its user, and is no state of the training."""
        self._warned: set[str] = set()
        self._saved_on_interrupt: dict[str, int] = {}
        self._has_saved = False
        self._saves = Saves(self._background, self._prover, self.record_cost)
        self.continued_from: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        transient = (
            "_warned",
            "_saved_on_interrupt",
            "_has_saved",
            "_saves",
            "continued_from",
        )
        return {name: value for name, value in self.__dict__.items() if name not in transient}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._begin_process()

    @property
    def counted_by_the_clock(self) -> dict[str, Any]:
        """What goes into files for ``Resume``; there is none without a schedule."""
        if self._schedule is None:
            raise AttributeError("this Checkpoint does not save by the clock")
        return self._schedule.counted()

    @counted_by_the_clock.setter
    def counted_by_the_clock(self, counted: dict[str, Any]) -> None:
        if self._schedule is not None:
            self._schedule.go_on_from(counted)

    def dispatch(self, callback_name: Any, *args: Any) -> None:
        """Save if a condition, the clock or a signal says so."""
        event = str(callback_name)
        self._saves.record_failures()
        if event not in LAST_EVENTS:
            self._saves.raise_failure()
        self._saves.record_costs()
        if self._prover is not None:
            self._prover.report()
        self._signals.begin(self.main_loop)
        if event == "before_batch" and self._schedule is not None:
            self._schedule.start(time.monotonic())
        if (
            event == "after_training"
            and is_blocks_loop(self.main_loop)
            and is_interrupted(self.main_loop)
        ):
            # Blocks has a name for this event, and never fires it.
            super().dispatch("on_interrupt")
        after_all_extensions(
            self.main_loop, self, callback_name, lambda: self._save_if_due(callback_name, args)
        )

    def _save_if_due(self, callback_name: Any, args: tuple[Any, ...]) -> None:
        event = str(callback_name)
        if event not in LAST_EVENTS:
            self._save_as_asked(callback_name, args)
            return
        has_more = event == "on_interrupt"
        try:
            # The last state is not to be skipped for one that is being written,
            # nor for one that could not be.
            self._saves.wait()
            self._save_as_asked(callback_name, args)
            self._saves.wait()
            self._saves.record_failures()
            self._saves.raise_failure()
            self._saves.record_costs()
        except BaseException:
            # The main loop ends with this error, whatever was to come.
            has_more = False
            raise
        finally:
            if not has_more:
                self._signals.end()
        if event == "after_training":
            for destination in self._destinations.values():
                destination.end(self.main_loop.log)
            if self._prover is not None:
                self._prover.end()

    def _save_as_asked(self, callback_name: Any, args: tuple[Any, ...]) -> None:
        self._has_saved = False
        super().dispatch(callback_name, *args)
        if str(callback_name) == "after_batch" and not self._has_saved and self._is_due():
            self.do(callback_name, *args)

    def _is_due(self) -> bool:
        by_clock = self._schedule is not None and self._schedule.is_due(time.monotonic())
        return by_clock or self._signals.is_due()

    def do(self, which_callback: Any, *args: Any) -> None:
        """Save.

        Parameters
        ----------
        which_callback : str
            The event.
        *args
            From the main loop; and, from a condition, a path to be used
            instead of this extension's own.
        """
        event = str(which_callback)
        path = self._path_for(event, args)
        log = self.main_loop.log
        iterations_done = log.status["iterations_done"]
        if event == "after_training" and (
            # Nothing has happened since: the end of an interrupted run.
            self._saved_on_interrupt.pop(path or "", None) == iterations_done
            # Nothing was trained: the file that was loaded stays as it is.
            or any(_has_found_end(each) for each in all_extensions(self.main_loop))
        ):
            return
        # Waiting for the save before this one is waiting, too.
        begin = time.monotonic()
        if self._background is not None and not self._background.is_ready():
            logger.info("a save is being written; the one at %s is skipped", iterations_done)
            return
        # The log that is saved now is to have it.
        self._saves.record_failures()
        signalled = self._signals.take()
        if self._schedule is not None:
            self._schedule.begin(begin)
        try:
            with batch_is_next(self.main_loop, event, args[0] if args else None):
                self._save(event, path, signalled)
        finally:
            if self._schedule is not None:
                self._schedule.end(time.monotonic())
            self._saves.training_waited(time.monotonic() - begin)
        self._saves.record_costs()

    def _save(self, event: str, path: str | None, signalled: float | None) -> None:
        log = self.main_loop.log
        record = SaveRecord(log, path)
        contents = None
        try:
            contents = Contents.of_main_loop(
                self.main_loop,
                parameters=self.parameters,
                separately=self.save_separately,
                with_main_loop=self.save_main_loop,
            )
            if path is None:
                raise SaveError("this Checkpoint has no path, and its condition brings none")
            target = self._destinations.setdefault(path, Destination(path)).next(log)
            if target is None:
                return
            if self._background is not None:
                self._background.withdraw()
            # Recorded before the log is pickled, so that the log in the file
            # says where it was saved; and taken back if that turns out not to
            # be so.
            record.begin(target)
            if isinstance(self._schedule, Overhead):
                log.current_row.update(self._schedule.as_records())
            is_first = path not in self._warned
            if not self._warned:
                if contents.main is not None:
                    warn_of_weight(self.main_loop, contents.parameters, stacklevel=1)
                warn_of_reading_ahead(contents.reads_ahead, f"saving {path}", stacklevel=1)
            # Whether it succeeds or not: a run that trains on hears of it once.
            self._warned.add(path)
            self._write(event, contents, target, record, signalled, warn_of_main=is_first)
        except BaseException as error:
            record.fail(error)
            is_mistake = contents is None
            if self.on_failure == "raise" or is_mistake or not isinstance(error, Exception):
                raise
            log_failure(error, record.path)
        else:
            self._has_saved = True
            if event == "on_interrupt" and path is not None:
                self._saved_on_interrupt[path] = log.status["iterations_done"]

    def _write(
        self,
        event: str,
        contents: Contents,
        target: Target,
        record: SaveRecord,
        signalled: float | None,
        *,
        warn_of_main: bool,
    ) -> None:
        prepared = prepare(
            contents,
            target.path,
            settings=self._saves.settings(self.protocol),
            verify=self.verify,
            warn_of_main=warn_of_main,
            before_partial=record.set_path,
            further_manifest={
                "event": event,
                **target.manifest,
                **self._saves.cost_of_save_before(),
            },
            arena=None if self._background is None else self._arena,
        )
        protected = [
            each.loaded_from
            for each in all_extensions(self.main_loop)
            if getattr(each, "loaded_from", None)
        ]
        if self.continued_from is not None:
            protected.append(self.continued_from)
        may_fail = self.on_failure == "warn"
        self._saves.write(Save(prepared, target, record, protected, signalled, may_fail))

    def _path_for(self, event: str, args: tuple[Any, ...]) -> str | None:
        _, from_user = self.parse_args(event, args)
        # Blocks leaves the error that ended training among the user's arguments.
        paths = [each for each in from_user if not isinstance(each, BaseException)]
        if len(paths) > 1:
            raise ValueError(f"Checkpoint: a condition brings one path, not {paths!r}")
        path = paths[0] if paths else self.path
        return None if path is None else os.fspath(path)


def _has_found_end(extension: Any) -> bool:
    return isinstance(extension, Resume) and extension.has_finished
