"""Loading into a main loop that was built anew."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..candidates import open_newest
from ..data_files import follow_moved_files, reopen_files
from ..mid_batch import go_on_in_mid_batch
from ..monitored import RunningSums, forget_sums
from ..parameters import PreparedAssignment, loop_variables, model_variables, stored_for
from ..pickling.extension_states import put_states
from ..pickling.generators import StoredGenerators
from ..pickling.present_parts import PresentParts
from ..proving import proof_of
from ..read_ahead import warn_on_going_on
from ..resumption import (
    all_extensions,
    check_stream,
    finish_blocks_loop,
    forget_ending,
    has_finished,
    is_blocks_loop,
    log_classes_of,
    put_iteration_state,
    put_log,
    put_random_state,
)
from ..tiers import descend
from .base import SimpleExtension
from .deferral import Deferring, after_all_extensions

__all__ = ["Load", "LoadParameters", "Resume"]

logger = logging.getLogger(__name__)

LOADED_FROM = "loaded_from"


class Resume(Deferring):
    """Put a checkpoint's state into a newly built main loop, before training.

    Parameters, and every other shared variable that both sides have
    (optimiser buffers, statistics of batch normalisation), are set. The
    extensions of the new main loop are its own. With the iteration state, the
    random generators in them are put into the state that those at the same
    places had; with the log, an extension that has ``state_dict()`` and
    ``load_state_dict(state)`` gets back what it returned.

    Makes a record ``loaded_from`` in the log's current row.

    Parameters
    ----------
    path : str or os.PathLike
        A checkpoint; or a folder or a pattern (``'runs/*.zip'``) of several,
        of which the newest good one is taken.
    load_log : bool
        Go on with the log, hence with the counts of iterations and epochs.
    load_iteration_state : bool
        Go on with the data stream where it was, in mid-epoch with the next
        batch, and with the global random generators as they were. Unpickles
        the data stream: only for files you trust.
    mode : {None, 'auto'}
        If ``'auto'``, everything is loaded that can be: all of it, or else the
        log and every shared variable, or else the parameters alone. Which of
        these tiers it was, ``'everything'``, ``'state'`` or ``'parameters'``, is
        then the attribute ``tier``; what was lost at each step down, and why,
        is logged.
    missing_ok : bool
        If there is no file at all, start afresh instead of raising an error.
    allow : iterable of type or str
        Classes that the log may contain beyond those a log is made of.
    **triggers
        When; before training by default.

    Raises
    ------
    CheckpointNotFound
        There is no file, from the main loop's ``run``.
    ParameterMismatch
        The parameters are not those of the model. Nothing was changed.
    LoadError
        Something in the file cannot be read. Nothing was changed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        load_log: bool = False,
        load_iteration_state: bool = False,
        *,
        mode: str | None = None,
        missing_ok: bool = False,
        allow: Iterable[Any] = (),
        **triggers: Any,
    ) -> None:
        if mode not in (None, "auto"):
            raise ValueError(f"Resume: mode is {mode!r}; use 'auto', or say what to load")
        triggers.setdefault("before_training", True)
        super().__init__(**triggers)
        self.path = os.fspath(path)
        self.mode = mode
        self.tier: str | None = None
        self.load_log = load_log
        self.load_iteration_state = load_iteration_state
        self.missing_ok = missing_ok
        self.allow = tuple(allow)
        self.has_finished = False
        self.loaded_from: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "has_finished": False, "loaded_from": None, "tier": None}

    def dispatch(self, callback_name: Any, *args: Any) -> None:
        """Load if a condition says so; and keep a Blocks loop from passing its end."""
        super().dispatch(callback_name, *args)
        if callback_name == "on_resumption" and self.has_finished:
            logger.warning("training has finished already: nothing is left to do")
            finish_blocks_loop()

    def do(self, which_callback: Any = None, *args: Any) -> None:
        """Load."""
        checkpoint = open_newest(self.path, missing_ok=self.missing_ok)
        if checkpoint is None:
            return
        proof = proof_of(checkpoint.path) if isinstance(checkpoint.path, str) else None
        if proof is not None and not proof.loads:
            logger.warning(
                "%s could not be continued from when it was saved: %s",
                checkpoint.path,
                proof.reason,
            )
        with checkpoint:
            self._load(checkpoint, which_callback)
        self.main_loop.log.current_row[LOADED_FROM] = self.loaded_from = checkpoint.path
        logger.info("loaded %s", checkpoint.path)

    def _load(self, checkpoint: Any, event: Any) -> None:
        if self.mode is None:
            # Everything is read before anything is changed.
            state = self._read(checkpoint, self.load_log, self.load_iteration_state)
        else:
            state, descent = descend(
                lambda tier: self._read(
                    checkpoint, tier.load_log, tier.load_iteration_state, tier.load_buffers
                )
            )
            self.tier = descent.tier.name
            report = logger.info if descent.is_complete else logger.warning
            report("%s: %s", checkpoint.path, descent.describe())
        self._put(state, checkpoint, event)

    def _read(
        self,
        checkpoint: Any,
        load_log: bool,
        load_iteration_state: bool,
        load_buffers: bool = True,
    ) -> _State:
        main_loop = self.main_loop
        variables, names = (loop_variables if load_buffers else model_variables)(main_loop)
        optional = ("buffer", "shared") if load_buffers else ()
        assignment = stored_for(variables, names, checkpoint, optional_kinds=optional)
        assignment.require_complete(checkpoint.path, strict=True)
        state = _State(assignment.prepare(checkpoint))
        if load_log:
            state.extensions = _states(checkpoint, "extensions")
            state.log = checkpoint.log(allow=(*self.allow, *log_classes_of(main_loop)))
        if load_iteration_state:
            self._read_iteration_state(checkpoint, state)
        return state

    def _read_iteration_state(self, checkpoint: Any, state: _State) -> None:
        main_loop = self.main_loop
        # A data stream that was saved by its state alone is this main loop's.
        present = PresentParts(main_loop)
        try:
            state.iteration_state = checkpoint.iteration_state(present=present)
            check_stream(main_loop, state.iteration_state, checkpoint.path)
            warn_on_going_on(checkpoint, state.iteration_state, stacklevel=2)
            state.generators = StoredGenerators.of(checkpoint, main_loop)
            state.sums = RunningSums.of(
                main_loop, state.prepared.pairs, _states(checkpoint, "quantities")
            )
            put_random_state(checkpoint)
        except BaseException:
            present.give_back()
            raise

    def _put(self, state: _State, checkpoint: Any, event: Any) -> None:
        main_loop, log = self.main_loop, state.log
        if log is not None:
            # First, since an extension of the user's may refuse its state.
            put_states(all_extensions(main_loop), state.extensions, strict=self.mode is None)
        state.prepared.carry_out()
        if log is not None:
            put_log(main_loop, log)
        if state.generators is not None:
            follow_moved_files(state.iteration_state[0], main_loop.data_stream)
            put_iteration_state(main_loop, state.iteration_state, checkpoint.manifest["status"])
            state.generators.put(main_loop)
            reopen_files(main_loop.data_stream)
            go_on_in_mid_batch(main_loop)
        elif log is not None:
            # Without the iterator of the epoch it was saved in, that epoch
            # begins anew.
            log.status["epoch_started"] = False
        self._put_sums(state.sums, event)
        self.has_finished = is_blocks_loop(main_loop) and has_finished(
            main_loop, checkpoint.manifest.get("limits")
        )
        if log is not None and not self.has_finished:
            forget_ending(main_loop)

    def _put_sums(self, sums: RunningSums | None, event: Any) -> None:
        main_loop = self.main_loop
        put = partial(forget_sums if sums is None else sums.put, main_loop)
        # Monitoring sets them to nothing before training.
        after_all_extensions(main_loop, self, event, put)


@dataclass
class _State:
    """What was read, and is not put anywhere yet."""

    prepared: PreparedAssignment
    log: Any = None
    extensions: Mapping[str, Any] = field(default_factory=dict)
    iteration_state: Any = None
    generators: StoredGenerators | None = None
    sums: RunningSums | None = None


def _states(checkpoint: Any, kind: str) -> Mapping[str, Any]:
    # A file that Blocks wrote has none.
    read = getattr(checkpoint, "states", None)
    return read(kind) if read else {}


class Load(Resume):
    """``Resume`` under the name and with the arguments that Blocks gave it.

    As in Blocks, a missing file is no error, and is logged.

    Parameters
    ----------
    path : str or os.PathLike
    load_iteration_state, load_log : bool
        As for :class:`Resume`, in Blocks' order.
    **triggers
        When; before training by default.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        load_iteration_state: bool = False,
        load_log: bool = False,
        **triggers: Any,
    ) -> None:
        super().__init__(path, load_log, load_iteration_state, missing_ok=True, **triggers)


class LoadParameters(SimpleExtension):
    """Start from the parameters of a checkpoint, by name, before training.

    Reads arrays and the manifest. Nothing is unpickled, so that the file may
    come from anybody.

    Makes a record ``loaded_from`` in the log's current row.

    Parameters
    ----------
    path : str or os.PathLike
        A checkpoint, or parameters that ``save_parameters`` saved; or a
        folder or a pattern, as for :class:`Resume`.
    strict : bool
        If true, a parameter that is missing, or has another shape, or is not
        one of the model's, is an error that lists all such, and nothing is
        changed. If false, what fits is loaded, and a warning lists the rest.
    missing_ok : bool
        If there is no file at all, start afresh instead of raising an error.
    **triggers
        When; before training by default.

    Raises
    ------
    ParameterMismatch
        From the main loop's ``run``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        strict: bool = True,
        *,
        missing_ok: bool = False,
        **triggers: Any,
    ) -> None:
        triggers.setdefault("before_training", True)
        super().__init__(**triggers)
        self.path = os.fspath(path)
        self.strict = strict
        self.missing_ok = missing_ok
        self.loaded_from: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "loaded_from": None}

    def do(self, which_callback: Any = None, *args: Any) -> None:
        """Load."""
        checkpoint = open_newest(self.path, missing_ok=self.missing_ok)
        if checkpoint is None:
            return
        with checkpoint:
            self._prepare(checkpoint).carry_out()
        self.main_loop.log.current_row[LOADED_FROM] = self.loaded_from = checkpoint.path
        logger.info("loaded %s", checkpoint.path)

    def _prepare(self, checkpoint: Any) -> PreparedAssignment:
        variables, names = model_variables(self.main_loop)
        assignment = stored_for(variables, names, checkpoint)
        assignment.require_complete(checkpoint.path, strict=self.strict, stacklevel=4)
        return assignment.prepare(checkpoint)
