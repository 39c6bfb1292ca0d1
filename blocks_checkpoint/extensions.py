"""The training extensions: ``Checkpoint``, ``Resume``, ``LoadParameters``.

They hook the events of a main loop, Blocks' or miniblocks', and leave the
work to the modules below them.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import Any

from .candidates import open_newest
from .contents import Contents
from .deferral import after_all_extensions
from .errors import CheckpointError, SaveError
from .extension_base import SimpleExtension
from .main_module import script_of
from .parameters import PreparedAssignment, loop_variables, model_variables, stored_for
from .pickling.extension_states import put_states
from .pickling.generators import StoredGenerators
from .resumption import (
    all_extensions,
    check_stream,
    finish_blocks_loop,
    forget_ending,
    has_finished,
    is_blocks_loop,
    is_interrupted,
    log_classes_of,
    put_iteration_state,
    put_log,
    put_random_state,
)
from .saving import save

__all__ = ["Checkpoint", "Load", "LoadParameters", "Resume"]

logger = logging.getLogger(__name__)

SAVED_TO = "saved_to"
SAVE_ERROR = "save_error"
LOADED_FROM = "loaded_from"

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


class Checkpoint(SimpleExtension):
    """Save the main loop, so that training can go on from there.

    Saves after every epoch, when training is interrupted, and after training.
    Each save replaces the file of before in one step: whatever happens
    meanwhile, one of the two is there, and whole.

    Makes a record ``saved_to`` in the log's current row: a tuple of the paths
    saved to, with ``None`` for a save that failed; why it did is then the
    record ``save_error``.

    A save waits until the last extension has seen the event, so that it does
    not matter where among them this one stands. If one behind it fails, the
    event is not saved.

    Parameters
    ----------
    path : str or os.PathLike or None
        Where to save. None if all conditions bring their own paths (see
        ``add_condition``); nothing is then saved by default.
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
    protocol : int
        Pickle protocol.
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
        protocol: int = 5,
        **triggers: Any,
    ) -> None:
        if on_failure not in ("raise", "warn"):
            raise ValueError(f"Checkpoint: on_failure is {on_failure!r}; use 'raise' or 'warn'")
        if isinstance(save_separately, str):
            raise ValueError(
                f"Checkpoint: save_separately is a list of names; use [{save_separately!r}]"
            )
        if path is not None:
            if not any(triggers.get(name) for name in PERIODIC_TRIGGERS):
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
        self.protocol = protocol
        self._warned: set[str] = set()
        # As it is now, before anybody edits it.
        script_of("__main__")
        self._saved_on_interrupt: dict[str, int] = {}

    def __getstate__(self) -> dict[str, Any]:
        # What this process has told its user is no state of the training.
        return {**self.__dict__, "_warned": set(), "_saved_on_interrupt": {}}

    def dispatch(self, callback_name: Any, *args: Any) -> None:
        """Save if a condition says so."""
        if (
            callback_name == "after_training"
            and is_blocks_loop(self.main_loop)
            and is_interrupted(self.main_loop)
        ):
            # Blocks has a name for this event, and never fires it.
            super().dispatch("on_interrupt")
        after_all_extensions(
            self.main_loop,
            self,
            callback_name,
            lambda: super(Checkpoint, self).dispatch(callback_name, *args),
        )

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
        # Recorded before the log is pickled, so that the log in the file says
        # where it was saved; and taken back if that turns out not to be so.
        before = tuple(log.current_row.get(SAVED_TO, ()))

        def record(target: str | None) -> None:
            log.current_row[SAVED_TO] = (*before, target)

        record(path)
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
            save(
                contents,
                path,
                protocol=self.protocol,
                verify=self.verify,
                warn_of_main=path not in self._warned,
                before_partial=record,
            )
            self._warned.add(path)
        except BaseException as error:
            record(None)
            log.current_row[SAVE_ERROR] = f"{type(error).__name__}: {error}"
            is_mistake = contents is None
            if self.on_failure == "raise" or is_mistake or not isinstance(error, Exception):
                raise
            logger.error("%s is not saved, and training goes on: %s", path, _with_path(error, path))
        else:
            if event == "on_interrupt":
                self._saved_on_interrupt[path] = iterations_done

    def _path_for(self, event: str, args: tuple[Any, ...]) -> str | None:
        _, from_user = self.parse_args(event, args)
        # Blocks leaves the error that ended training among the user's arguments.
        paths = [each for each in from_user if not isinstance(each, BaseException)]
        if len(paths) > 1:
            raise ValueError(f"Checkpoint: a condition brings one path, not {paths!r}")
        path = paths[0] if paths else self.path
        return None if path is None else os.fspath(path)


def _with_path(error: Exception, path: str | None) -> str:
    if isinstance(error, CheckpointError):
        return str(error) if error.path else f"{path}: {error}"
    return f"{type(error).__name__}: {error}"


def _has_found_end(extension: Any) -> bool:
    return isinstance(extension, Resume) and extension.has_finished


class Resume(SimpleExtension):
    """Put a checkpoint's state into a newly built main loop, before training.

    Parameters, and every other shared variable that both sides have
    (optimiser buffers, statistics of batch normalisation), are set. The
    extensions of the new main loop are its own.

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
        missing_ok: bool = False,
        allow: Iterable[Any] = (),
        **triggers: Any,
    ) -> None:
        triggers.setdefault("before_training", True)
        super().__init__(**triggers)
        self.path = os.fspath(path)
        self.load_log = load_log
        self.load_iteration_state = load_iteration_state
        self.missing_ok = missing_ok
        self.allow = tuple(allow)
        self.has_finished = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "has_finished": False}

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
        with checkpoint:
            self._load(checkpoint)
        self.main_loop.log.current_row[LOADED_FROM] = checkpoint.path
        logger.info("loaded %s", checkpoint.path)

    def _load(self, checkpoint: Any) -> None:
        main_loop = self.main_loop
        # Everything is read before anything is changed.
        variables, names = loop_variables(main_loop)
        assignment = stored_for(variables, names, checkpoint, optional_kinds=("buffer", "shared"))
        assignment.require_complete(checkpoint.path, strict=True)
        prepared = assignment.prepare(checkpoint)
        log = iteration_state = generators = None
        if self.load_log:
            log = checkpoint.log(allow=(*self.allow, *log_classes_of(main_loop)))
        if self.load_iteration_state:
            iteration_state = checkpoint.iteration_state()
            check_stream(main_loop, iteration_state, checkpoint.path)
            generators = StoredGenerators.of(checkpoint, main_loop)
            put_random_state(checkpoint)
        prepared.carry_out()
        if log is not None:
            put_log(main_loop, log)
            put_states(all_extensions(main_loop), checkpoint.manifest.get("extensions", {}))
        if generators is not None:
            put_iteration_state(main_loop, iteration_state, checkpoint.manifest["status"])
            generators.put(main_loop)
        elif log is not None:
            # Without the iterator of the epoch it was saved in, that epoch
            # begins anew.
            log.status["epoch_started"] = False
        self.has_finished = is_blocks_loop(main_loop) and has_finished(
            main_loop, checkpoint.manifest.get("limits")
        )
        if log is not None and not self.has_finished:
            forget_ending(main_loop)


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

    def do(self, which_callback: Any = None, *args: Any) -> None:
        """Load."""
        checkpoint = open_newest(self.path, missing_ok=self.missing_ok)
        if checkpoint is None:
            return
        with checkpoint:
            self._prepare(checkpoint).carry_out()
        self.main_loop.log.current_row[LOADED_FROM] = checkpoint.path
        logger.info("loaded %s", checkpoint.path)

    def _prepare(self, checkpoint: Any) -> PreparedAssignment:
        variables, names = model_variables(self.main_loop)
        assignment = stored_for(variables, names, checkpoint)
        assignment.require_complete(checkpoint.path, strict=self.strict, stacklevel=4)
        return assignment.prepare(checkpoint)
