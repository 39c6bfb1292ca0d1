"""The main loop: batches through an algorithm, events to extensions."""

from __future__ import annotations

import logging
import signal
import threading
import traceback
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .announcing import BATCH_ANNOUNCED, TRAINING_ANNOUNCED
from .config import config
from .extensions import CallbackName, TrainingExtension
from .extensions.finishing import request_finish
from .iterator import PushedBack
from .limits import Verdict, decide, limits_in_force
from .log import BACKENDS, TrainingLog
from .utils.containers import change_recursion_limit, unpack
from .utils.profile import Profile, Timer

if TYPE_CHECKING:
    from .algorithms import TrainingAlgorithm
    from .model import Model
    from .streams import AbstractDataStream

__all__ = ["MainLoop", "TrainingFinish"]

logger = logging.getLogger(__name__)

#: Records of the log that say how a run ended, not how training went.
_ENDINGS = (
    "epoch_interrupt_received",
    "batch_interrupt_received",
    "got_exception",
    "training_finish_requested",
    "training_finished",
)


class TrainingFinish(Exception):
    """Raised inside the main loop to end the run at a batch or epoch boundary.

    Parameters
    ----------
    is_interrupt : bool, optional
        Whether a signal is the reason.
    """

    def __init__(self, is_interrupt: bool = False) -> None:
        super().__init__(is_interrupt)
        self.is_interrupt = is_interrupt


class MainLoop:
    """Train a model on a data stream, and tell extensions about it.

    A run ends when an extension has written ``training_finish_requested``
    into the current row of the log, or on a signal: Ctrl-C ends it after the
    epoch, a second Ctrl-C or SIGTERM after the batch, a third Ctrl-C at once
    and without saving. Signals are handled in the main thread only; whoever
    handled them before does so again after the run, and a handler of the
    user's own is then called for each signal that came meanwhile.

    Parameters
    ----------
    algorithm : TrainingAlgorithm
    data_stream : AbstractDataStream
    model : Model, optional
    log : TrainingLog, optional
    log_backend : str, optional
        Kind of log to make when none is given; ``config.log_backend`` by default.
    extensions : sequence of TrainingExtension, optional
        Called in this order.

    Attributes
    ----------
    epoch_iterator : iterator or None
        The present epoch of the data stream.
    profile : Profile
        Seconds by section.
    """

    original_sigint_handler: Any = None
    original_sigterm_handler: Any = None
    _signals_received: tuple[int, ...] = ()

    def __init__(
        self,
        algorithm: TrainingAlgorithm,
        data_stream: AbstractDataStream,
        model: Model | None = None,
        log: TrainingLog | None = None,
        log_backend: str | None = None,
        extensions: Sequence[TrainingExtension] | None = None,
    ) -> None:
        self.algorithm = algorithm
        self.data_stream = data_stream
        self.epoch_iterator: Iterator[Any] | None = None
        self._model = model
        self.log = BACKENDS[log_backend or config.log_backend]() if log is None else log
        self.extensions = list(extensions or ())
        self.profile = Profile()
        self.status["training_started"] = False
        self.status["epoch_started"] = False
        self.status["epoch_interrupt_received"] = False
        self.status["batch_interrupt_received"] = False

    def __getstate__(self) -> dict[str, Any]:
        # Signals and their handlers belong to the process, not to the run.
        transient = {"original_sigint_handler", "original_sigterm_handler", "_signals_received"}
        return {name: self.__dict__[name] for name in self.__dict__ if name not in transient}

    @property
    def model(self) -> Model:
        """The model, where there is one."""
        if self._model is None:
            raise AttributeError("this main loop has no model; pass one as MainLoop(model=...)")
        return self._model

    @property
    def iteration_state(self) -> tuple[AbstractDataStream, Iterator[Any] | None]:
        """The pair of data stream and epoch iterator."""
        return self.data_stream, self.epoch_iterator

    @iteration_state.setter
    def iteration_state(self, value: tuple[AbstractDataStream, Iterator[Any] | None]) -> None:
        self.data_stream, self.epoch_iterator = value

    @property
    def status(self) -> dict[str, Any]:
        """The log's status."""
        return self.log.status

    def find_extension(self, name: str) -> TrainingExtension:
        """Return the extension of that name.

        Raises
        ------
        ValueError
            None has it, or several have.
        """
        found: TrainingExtension = unpack(
            [extension for extension in self.extensions if extension.name == name], singleton=True
        )
        return found

    def run(self) -> None:
        """Train until the end is requested, or go on from where training was left.

        A run that had finished trains nothing and fires no events, unless
        its limits were changed (:func:`.limits.decide` has the rule).
        """
        # Does nothing where logging is configured; elsewhere shows warnings.
        logging.basicConfig()
        self.profile.current = []
        if self._model is not None and hasattr(self._model, "check_sanity"):
            self._model.check_sanity(self.algorithm)
        try:
            with change_recursion_limit(config.recursion_limit):
                self._run()
        finally:
            if config.profile:
                self.profile.report()
            self._pass_on_signals()

    def _run(self) -> None:
        self._take_signal_handlers()
        try:
            ending = self._train()
        except Exception as error:
            self._restore_signal_handlers()
            self._report_error(error)
            raise
        finally:
            self._restore_signal_handlers()
        if ending is not None:
            if ending.is_interrupt:
                self._run_extensions("on_interrupt")
            self._run_extensions("after_training")

    def _train(self) -> TrainingFinish | None:
        logger.info("entered the main loop")
        try:
            self._start()
            verdict = self._judge()
            if verdict is Verdict.FINISHED:
                logger.warning(
                    "training has finished already, after %d iterations and %d epochs: nothing "
                    "is left to do. To train on, raise the limit (FinishAfter) that ended it.",
                    self.status["iterations_done"],
                    self.status["epochs_done"],
                )
                return None
            self._resume()
            if verdict is Verdict.FINISH:
                request_finish(self)
                raise TrainingFinish
            with Timer("training", self.profile):
                while self._run_epoch():
                    pass
        except TrainingFinish as ending:
            self.log.current_row["training_finished"] = True
            return ending
        return None

    def _start(self) -> None:
        # Each time: extensions may have been added since the last run.
        for extension in self.extensions:
            extension.main_loop = self
        if self.status["training_started"]:
            return
        if not self.status.get(TRAINING_ANNOUNCED):
            self._announce(TRAINING_ANNOUNCED, "before_training")
        with Timer("initialization", self.profile):
            self.algorithm.initialize()
        # An extension may have put another log in the place of the first.
        self.status["training_started"] = True
        self.status.pop(TRAINING_ANNOUNCED, None)

    def _judge(self) -> Verdict:
        iterations_done = self.status["iterations_done"]
        if not iterations_done:
            return Verdict.TRAIN
        requested_at, recorded = self.status.get("_finish", (None, None))
        is_noted = requested_at == iterations_done
        row = self.log.get(iterations_done, {})
        return decide(
            self.status,
            limits_in_force(self.extensions),
            is_requested=is_noted or bool(row.get("training_finish_requested")),
            is_finished=bool(row.get("training_finished")),
            recorded=recorded if is_noted else None,
        )

    def _resume(self) -> None:
        if self.status["iterations_done"]:
            self._forget_ending()
            self.log.resume()
            self._run_extensions("on_resumption")
        # Flags of an earlier run do not count, signals of this one do.
        self.status["epoch_interrupt_received"] = signal.SIGINT in self._signals_received
        self.status["batch_interrupt_received"] = (
            signal.SIGTERM in self._signals_received
            or self._signals_received.count(signal.SIGINT) > 1
        )

    def _forget_ending(self) -> None:
        """Take out of the log how the last run ended, since it did not."""
        ends = self.status["_epoch_ends"]
        now = self.status["iterations_done"]
        begin = max((end for end in ends if end < now), default=0)
        for time in range(begin, now + 1):
            row = self.log.get(time, {})
            is_empty = not row
            for record in _ENDINGS:
                row.pop(record, None)
            if not time and not row and not is_empty:
                # Before the first batch there is a row only where one is needed.
                del self.log[time]

    def _run_epoch(self) -> bool:
        # A log can be loaded without the iterator of the epoch it was in the
        # middle of; that epoch then begins anew.
        if not self.status.get("epoch_started", False) or self.epoch_iterator is None:
            self.status["received_first_batch"] = False
            self.status[BATCH_ANNOUNCED] = False
            try:
                self.epoch_iterator = self.data_stream.get_epoch_iterator(as_dict=True)
            except StopIteration:
                return False
            self.status["epoch_started"] = True
            self._run_extensions("before_epoch")
        with Timer("epoch", self.profile):
            while self._run_iteration():
                pass
        self.status["epoch_started"] = False
        self.status["epochs_done"] += 1
        self.status["_epoch_ends"] = [*self.status["_epoch_ends"], self.status["iterations_done"]]
        self._run_extensions("after_epoch")
        self._check_finish_training("epoch")
        return True

    def _run_iteration(self) -> bool:
        assert self.epoch_iterator is not None
        try:
            with Timer("read_data", self.profile):
                batch = next(self.epoch_iterator)
        except StopIteration:
            if not self.status["received_first_batch"]:
                raise ValueError("the epoch iterator yielded no batch") from None
            return False
        self.status["received_first_batch"] = True
        rest = self.epoch_iterator
        # Until it is trained on, it is the next batch of whoever goes on from
        # a state that was saved meanwhile, or after an error.
        self.epoch_iterator = PushedBack(batch, rest)
        if not self.status.get(BATCH_ANNOUNCED):
            self._announce(BATCH_ANNOUNCED, "before_batch", batch)
        with Timer("train", self.profile):
            self.algorithm.process_batch(batch)
        self.epoch_iterator = rest
        self.status[BATCH_ANNOUNCED] = False
        self.status["iterations_done"] += 1
        # Asked for, the row is there: whether an extension looks at it before
        # or after a checkpoint makes no difference to the log.
        self.log.current_row  # noqa: B018
        self._run_extensions("after_batch", batch)
        self._check_finish_training("batch")
        return True

    def _announce(self, mark: str, event: str, *args: Any) -> None:
        """Tell the extensions what comes next, once, whatever happens before it has come.

        A state that is saved at this event is that after it.
        """
        self.status[mark] = True
        try:
            self._run_extensions(event, *args)
        except BaseException:
            self.status[mark] = False
            raise

    def _run_extensions(self, method_name: str, *args: Any) -> None:
        with Timer(method_name, self.profile):
            for extension in self.extensions:
                with Timer(type(extension).__name__, self.profile):
                    extension.dispatch(CallbackName(method_name), *args)

    def _check_finish_training(self, level: str) -> None:
        if self.log.current_row.get("training_finish_requested", False):
            raise TrainingFinish
        if self.status["batch_interrupt_received"]:
            raise TrainingFinish(is_interrupt=True)
        if level == "epoch" and self.status["epoch_interrupt_received"]:
            raise TrainingFinish(is_interrupt=True)

    def _report_error(self, error: Exception) -> None:
        self.log.current_row["got_exception"] = traceback.format_exc()
        logger.error(
            "an error ended training: the extensions' on_error is called now, after_training is "
            "not. The error is in the log, and is raised again. Ctrl-C ends this at once."
        )
        try:
            self._run_extensions("on_error", error)
        except Exception:
            logger.exception("an extension failed in on_error; those after it are not called")

    def _take_signal_handlers(self) -> None:
        self._signals_received = ()
        if threading.current_thread() is threading.main_thread():
            self.original_sigint_handler = signal.signal(signal.SIGINT, self._handle_sigint)
            self.original_sigterm_handler = signal.signal(signal.SIGTERM, self._handle_sigterm)

    def _restore_signal_handlers(self) -> None:
        if threading.current_thread() is threading.main_thread():
            # None stands for a handler that was not set from Python, which
            # Python cannot set either.
            signal.signal(signal.SIGINT, self.original_sigint_handler or signal.SIG_DFL)
            signal.signal(signal.SIGTERM, self.original_sigterm_handler or signal.SIG_DFL)

    def _handle_sigint(self, signal_number: int, frame: Any) -> None:
        self._signals_received += (signal_number,)
        if signal.SIGINT in self._signals_received[:-1]:
            self._interrupt_batch()
            return
        logger.warning(
            "interrupted: training ends after this epoch. Press Ctrl-C again to end it after "
            "this batch."
        )
        self._note_interrupt("epoch_interrupt_received")

    def _handle_sigterm(self, signal_number: int, frame: Any) -> None:
        self._signals_received += (signal_number,)
        self._interrupt_batch()

    def _interrupt_batch(self) -> None:
        self._restore_signal_handlers()
        logger.warning(
            "interrupted: training ends after this batch. Press Ctrl-C again to end it at once, "
            "without saving."
        )
        self._note_interrupt("batch_interrupt_received")

    def _note_interrupt(self, name: str) -> None:
        self.log.current_row[name] = True
        self.status[name] = True

    def _pass_on_signals(self) -> None:
        received, self._signals_received = self._signals_received, ()
        handlers = {
            signal.SIGINT: self.original_sigint_handler,
            signal.SIGTERM: self.original_sigterm_handler,
        }
        for number in received:
            handler = handlers[signal.Signals(number)]
            if callable(handler) and handler is not signal.default_int_handler:
                handler(number, None)
