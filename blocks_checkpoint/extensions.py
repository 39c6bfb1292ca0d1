"""The training extensions: ``Checkpoint``, ``Resume``, ``LoadParameters``.

They hook the events of a main loop, Blocks' or miniblocks', and leave the
work to the modules below them.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .checkpoint_file import CheckpointFile, open_checkpoint
from .errors import (
    CheckpointNotFound,
    CheckpointWarning,
    SaveError,
    UnpicklableError,
    UnpicklableWarning,
)
from .parameters import PreparedAssignment, match, model_variables, reachable_variables
from .resumption import (
    forget_interrupts,
    has_finished,
    is_blocks_loop,
    put_iteration_state,
    put_log,
)
from .serialization import warn_of_main_module, write_snapshot
from .contents import Contents
from .snapshot import Snapshot, take_snapshot
from .zip_pickler import PicklerSettings

__all__ = ["Checkpoint", "Load", "LoadParameters", "Resume"]

logger = logging.getLogger(__name__)

SAVED_TO = "saved_to"
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


def _base_class() -> Any:
    """Return Blocks' ``SimpleExtension`` where Blocks works, or else ours."""
    if importlib.util.find_spec("blocks") is not None:
        try:
            from blocks.extensions import SimpleExtension

            return SimpleExtension
        except Exception as error:
            warnings.warn(
                f"Blocks is installed, but cannot be imported here ({type(error).__name__}: "
                f"{error}); the extensions work in the main loop of miniblocks",
                CheckpointWarning,
                stacklevel=2,
            )
    from .miniblocks.extensions import SimpleExtension as Ours

    return Ours


if TYPE_CHECKING:
    from .miniblocks.extensions import SimpleExtension
else:
    SimpleExtension = _base_class()


class Checkpoint(SimpleExtension):
    """Save the main loop, so that training can go on from there.

    Saves after every epoch, when training is interrupted, and after training.
    Each save replaces the file of before in one step: whatever happens
    meanwhile, one of the two is there, and whole.

    Makes a record ``saved_to`` in the log's current row: a tuple of the paths
    saved to, with ``None`` for a save that failed.

    Put it last among the extensions: those behind it have not yet seen the
    event after which the state is saved.

    Parameters
    ----------
    path : str or os.PathLike or None
        Where to save. None if conditions bring their own paths (see
        ``add_condition``).
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
        self._interrupted_at: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        # What this process has told its user is no state of the training.
        return {**self.__dict__, "_warned": set(), "_interrupted_at": None}

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
        _, from_user = self.parse_args(which_callback, args)
        path = from_user[0] if from_user else self.path
        log = self.main_loop.log
        iterations_done = log.status["iterations_done"]
        event = None if which_callback is None else str(which_callback)
        if event == "on_interrupt":
            self._interrupted_at = iterations_done
        elif event == "after_training" and self._interrupted_at == iterations_done:
            # The main loop fires both at the end of an interrupted run, and
            # nothing has happened in between.
            self._interrupted_at = None
            return
        elif event == "after_training" and LOADED_FROM in log.current_row:
            # Nothing was trained since it was loaded: the file stays as it is.
            return
        # Recorded before the log is pickled, so that the log in the file says
        # where it was saved; and taken back if that turns out not to be so.
        before = tuple(log.current_row.get(SAVED_TO, ()))
        log.current_row[SAVED_TO] = (*before, None if path is None else os.fspath(path))
        try:
            self._save(path)
        except BaseException as error:
            log.current_row[SAVED_TO] = (*before, None)
            if self.on_failure == "raise" or not isinstance(error, SaveError):
                raise
            logger.error("%s", error)

    def _save(self, path: str | os.PathLike[str] | None) -> None:
        contents = Contents.of_main_loop(
            self.main_loop,
            parameters=self.parameters,
            separately=self.save_separately,
            with_main_loop=self.save_main_loop,
        )
        if path is None:
            raise SaveError("this Checkpoint has no path, and its condition brings none")
        path = os.fspath(path)
        snapshot = take_snapshot(
            contents, settings=PicklerSettings(self.protocol), partial=True
        )
        if path not in self._warned:
            warn_of_main_module(snapshot, contents, stacklevel=2)
            self._warned.add(path)
        target = path if snapshot.failure is None else _beside_complete(path)
        os.makedirs(os.path.dirname(os.path.abspath(target)), exist_ok=True)
        write_snapshot(snapshot, target, check=_read_back if self.verify else None)
        logger.info("saved %s", target)
        if snapshot.failure is not None:
            self._report_partial(snapshot, target)

    def _report_partial(self, snapshot: Snapshot, target: str) -> None:
        message = (
            f"the main loop was not saved; parameters, log and iteration state were, to {target}. "
            f"{snapshot.failure}"
        )
        if self.on_failure == "warn":
            warnings.warn(message, UnpicklableWarning, stacklevel=2)
            return
        offenders = snapshot.failure.offenders if snapshot.failure else []
        raise UnpicklableError(message, offenders=offenders, path=target) from snapshot.failure


def _read_back(path: str) -> None:
    with CheckpointFile(path) as checkpoint:
        for damage in checkpoint.verify():
            raise SaveError(
                f"what was written reads back wrong: {damage.reason}", member=damage.member
            )


def _beside_complete(path: str) -> str:
    """Return where to save a checkpoint that has no main loop."""
    try:
        with CheckpointFile(path) as present:
            is_complete = present.manifest["main_loop"] == "present"
    except CheckpointNotFound:
        return path
    except Exception as error:
        logger.warning("%s is not a good checkpoint, and is replaced: %s", path, error)
        return path
    if not is_complete:
        return path
    stem, suffix = os.path.splitext(path)
    return f"{stem}.without_main_loop{suffix}"


class Resume(SimpleExtension):
    """Put a checkpoint's state into a newly built main loop, before training.

    Parameters, and every other shared variable that both sides have
    (optimiser buffers, statistics of batch normalisation), are set. The
    extensions of the new main loop are its own.

    Makes a record ``loaded_from`` in the log's current row.

    Parameters
    ----------
    path : str or os.PathLike
        A checkpoint.
    load_log : bool
        Go on with the log, hence with the counts of iterations and epochs.
    load_iteration_state : bool
        Go on with the data stream where it was, in mid-epoch with the next
        batch, and with the global random generators as they were. Unpickles
        the data stream: only for files you trust.
    missing_ok : bool
        If there is no file, start afresh instead of raising an error.
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
        self._finished = False

    def do(self, which_callback: Any = None, *args: Any) -> None:
        """Load."""
        if self.missing_ok and not os.path.lexists(self.path):
            logger.warning("there is no checkpoint %s; training starts afresh", self.path)
            return
        with open_checkpoint(self.path) as checkpoint:
            self._load(checkpoint)
        self.main_loop.log.current_row[LOADED_FROM] = self.path
        logger.info("loaded %s", self.path)
        if self._finished:
            logger.warning("training has finished already: nothing is left to do")
            raise sys.modules["blocks.main_loop"].TrainingFinish

    def _load(self, checkpoint: Any) -> None:
        main_loop = self.main_loop
        # Everything is read before anything is changed.
        variables, names = reachable_variables(main_loop)
        assignment = match(
            variables,
            names,
            checkpoint.manifest["arrays"],
            optional_kinds=("buffer", "shared"),
        )
        assignment.require_complete(checkpoint.path, strict=True)
        prepared = assignment.prepare(checkpoint)
        log = checkpoint.log(allow=self.allow) if self.load_log else None
        iteration_state = checkpoint.iteration_state() if self.load_iteration_state else None

        prepared.carry_out()
        if log is not None:
            put_log(main_loop, log)
        if iteration_state is not None:
            put_iteration_state(main_loop, iteration_state, checkpoint.manifest["status"])
            checkpoint.restore_random_state()
        elif log is not None:
            # Without the iterator of the epoch it was saved in, that epoch
            # begins anew.
            log.status["epoch_started"] = False
        forget_interrupts(main_loop)
        self._finished = is_blocks_loop(main_loop) and has_finished(
            main_loop, checkpoint.manifest.get("limits")
        )


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
    strict : bool
        If true, a parameter that is missing, or has another shape, or is not
        one of the model's, is an error that lists all such, and nothing is
        changed. If false, what fits is loaded, and a warning lists the rest.
    missing_ok : bool
        If there is no file, start afresh instead of raising an error.
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
        if self.missing_ok and not os.path.lexists(self.path):
            logger.warning("there is no checkpoint %s; training starts afresh", self.path)
            return
        with open_checkpoint(self.path) as checkpoint:
            self._prepare(checkpoint).carry_out()
        self.main_loop.log.current_row[LOADED_FROM] = self.path

    def _prepare(self, checkpoint: Any) -> PreparedAssignment:
        variables, names = model_variables(self.main_loop.model)
        assignment = match(variables, names, checkpoint.manifest["arrays"])
        assignment.require_complete(checkpoint.path, strict=self.strict, stacklevel=4)
        return assignment.prepare(checkpoint)
