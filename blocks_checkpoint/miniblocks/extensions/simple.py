"""Extensions that do one thing whenever one of their conditions holds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .base import TrainingExtension

if TYPE_CHECKING:
    from ..log import TrainingLog
    from ..main_loop import MainLoop

__all__ = ["CompositeExtension", "Predicate", "SimpleExtension", "always_true", "has_done_epochs"]

#: Condition as :class:`SimpleExtension` keeps it: callback, predicate, arguments.
Condition = tuple[str, Callable[[Any], Any], Sequence[Any]]


class Predicate:
    """Compare the number of epochs or batches done with a number.

    Parameters
    ----------
    condition : {'every_n_epochs', 'after_n_epochs', 'every_n_batches', 'after_n_batches'}
    num : int
    """

    def __init__(self, condition: str, num: int) -> None:
        self.condition = condition
        self.num = num

    def __call__(self, log: TrainingLog) -> bool:
        """Look at the status."""
        counter = "epochs_done" if self.condition.endswith("epochs") else "iterations_done"
        done: int = log.status[counter]
        if self.condition.startswith("every"):
            return done % self.num == 0
        return done == self.num


def has_done_epochs(log: TrainingLog) -> bool:
    """Tell whether this is the first epoch, that is, none is done (sic)."""
    return bool(log.status["epochs_done"] == 0)


def always_true(log: TrainingLog) -> bool:
    """Hold whatever the log says."""
    return True


class SimpleExtension(TrainingExtension, ABC):
    """Base of the extensions whose work is all in one method, :meth:`do`.

    Parameters
    ----------
    before_training, before_first_epoch, before_epoch, before_batch : bool, optional
    after_batch, after_epoch, after_training : bool, optional
    on_resumption, on_interrupt, on_error : bool, optional
        Do it at these events.
    after_n_epochs, after_n_batches : int, optional
        Do it once, when so many are done.
    every_n_epochs, every_n_batches : int, optional
        Do it each time that so many more are done.
    name : str, optional
        As for :class:`TrainingExtension`.
    """

    BOOLEAN_TRIGGERS = frozenset(
        {
            "before_training",
            "before_first_epoch",
            "before_epoch",
            "before_batch",
            "on_resumption",
            "on_interrupt",
            "on_error",
            "after_epoch",
            "after_batch",
            "after_training",
        }
    )
    INTEGER_TRIGGERS = frozenset(
        {"after_n_epochs", "after_n_batches", "every_n_epochs", "every_n_batches"}
    )

    def __init__(self, **kwargs: Any) -> None:
        self._conditions: list[Condition] = []
        triggers = self.BOOLEAN_TRIGGERS | self.INTEGER_TRIGGERS
        self.set_conditions(**{key: kwargs.pop(key) for key in list(kwargs) if key in triggers})
        super().__init__(**kwargs)

    def set_conditions(self, **kwargs: Any) -> SimpleExtension:
        """Replace all conditions by those that the keywords name.

        Parameters
        ----------
        **kwargs
            Triggers as the constructor takes them; one that is false or
            None adds no condition.

        Returns
        -------
        SimpleExtension
            The extension itself.

        Raises
        ------
        KeyError
            A keyword is no trigger.
        """
        self._conditions.clear()
        for trigger, value in kwargs.items():
            if trigger not in self.BOOLEAN_TRIGGERS | self.INTEGER_TRIGGERS:
                raise KeyError(f"{trigger} is no trigger of an extension")
            if not value:
                continue
            if trigger in self.INTEGER_TRIGGERS:
                event = "after_batch" if trigger.endswith("batches") else "after_epoch"
                self.add_condition([event], Predicate(trigger, value))
            elif trigger == "before_first_epoch":
                self.add_condition(["before_epoch"], has_done_epochs)
            else:
                self.add_condition([trigger])
        return self

    def add_condition(
        self,
        callbacks_names: Sequence[str],
        predicate: Callable[[Any], Any] | None = None,
        arguments: Iterable[Any] | None = None,
    ) -> SimpleExtension:
        """Do it in one more case.

        Parameters
        ----------
        callbacks_names : list of str
            At any of these events ...
        predicate : callable, optional
            ... if this, called with the log, is true (always by default) ...
        arguments : iterable, optional
            ... with these arguments after those from the main loop.

        Returns
        -------
        SimpleExtension
            The extension itself.

        Raises
        ------
        ValueError
            A single string is given in the place of the list.
        """
        if not isinstance(callbacks_names, (list, tuple)):
            raise ValueError(f"callbacks_names is a list of names, not {callbacks_names!r}")
        for name in callbacks_names:
            self._conditions.append((name, predicate or always_true, tuple(arguments or ())))
        return self

    @abstractmethod
    def do(self, which_callback: str, *args: Any) -> None:
        """Do what the extension is for.

        Parameters
        ----------
        which_callback : str
            The event.
        *args
            What the main loop passes at it, then the arguments of the
            condition; :meth:`parse_args` takes the two apart.
        """

    def dispatch(self, callback_name: str, *args: Any) -> None:
        """Call :meth:`do` once for each condition that holds."""
        for name, predicate, arguments in self._conditions:
            if name == callback_name and predicate(self.main_loop.log):
                self.do(callback_name, *args, *arguments)

    @staticmethod
    def parse_args(
        which_callback: str, args: Iterable[Any]
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Tell the main loop's arguments from the user's.

        Parameters
        ----------
        which_callback : str
            The event, as given to :meth:`do`.
        args : iterable
            The arguments given to :meth:`do`.

        Returns
        -------
        from_main_loop, from_user : tuple
        """
        args = tuple(args)
        passed = 1 if which_callback in ("before_batch", "after_batch", "on_error") else 0
        return args[:passed], args[passed:]


class CompositeExtension(SimpleExtension):
    """Several extensions that go by one name.

    Parameters
    ----------
    sub_extensions : iterable of TrainingExtension
        Each keeps the conditions it has.
    run_before_children : bool, optional
        Whether :meth:`do` of the composite comes before its parts' (default)
        or after.
    **kwargs
        Conditions of the composite's own :meth:`do`.
    """

    def __init__(
        self,
        sub_extensions: Iterable[TrainingExtension],
        run_before_children: bool = True,
        **kwargs: Any,
    ) -> None:
        self.sub_extensions = list(sub_extensions)
        self.run_before_children = run_before_children
        super().__init__(**kwargs)

    @property
    def main_loop(self) -> MainLoop:
        """The main loop of the composite and of each of its parts."""
        return super().main_loop

    @main_loop.setter
    def main_loop(self, value: MainLoop) -> None:
        self._main_loop = value
        for extension in self.sub_extensions:
            extension.main_loop = value

    def dispatch(self, callback_name: str, *args: Any) -> None:
        """Pass the event to the composite itself and to each of its parts."""
        if self.run_before_children:
            super().dispatch(callback_name, *args)
        for extension in self.sub_extensions:
            extension.dispatch(callback_name, *args)
        if not self.run_before_children:
            super().dispatch(callback_name, *args)

    def do(self, which_callback: str, *args: Any) -> None:
        """Do nothing more than the parts do."""
