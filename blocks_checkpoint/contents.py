"""What is to be saved of a main loop, or of any other object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .format import ITERATION_STATE, LOG
from .monitored import quantity_states
from .naming import is_statistic
from .pickling.extension_states import states_of
from .pickling.generator_places import describe_generators
from .pickling.reachable import known_variables, variables_of_model
from .read_ahead import streams_that_read_ahead
from .resumption import all_extensions, limits_of

__all__ = ["Contents"]


@dataclass
class Contents:
    """What is to be saved.

    Attributes
    ----------
    main : object
        The main loop, or whatever goes into ``pkl``; None to leave it out.
    log : object
        Pickled by itself, and referred to by ``main``; None to leave it out.
    iteration_state : object
        Likewise.
    further : dict of str to object
        More members; each is a copy that loads by itself.
    parameters : sequence of shared variables
        Those of the model, in its order. They are stored also where no
        pickle reaches them.
    statistics : sequence of shared variables
        What else the model needs to compute what it computes: those of batch
        normalisation. They are stored likewise.
    variables : sequence of shared variables
        Further ones, in an order that is the same in every run.
    given_names : mapping of str to shared variable
        What the model's ``get_parameter_dict`` returns.
    status : mapping
        Of the training, for the manifest.
    limits : sequence of str
        Descriptions of what will end the run, for the manifest.
    generators : sequence of dict
        Random generators that the main loop has apart from its data stream.
    states : mapping of str to dict
        What extensions, and the quantities that they monitor, say that their
        state is.
    reads_ahead : sequence of str
        Streams whose place cannot be saved, for the manifest.
    root_name : str
        What paths in messages begin with.
    """

    main: Any = None
    log: Any = None
    iteration_state: Any = None
    further: dict[str, Any] = field(default_factory=dict)
    parameters: Sequence[Any] = ()
    statistics: Sequence[Any] = ()
    variables: Sequence[Any] = ()
    given_names: Mapping[str, Any] = field(default_factory=dict)
    status: Mapping[str, Any] = field(default_factory=dict)
    limits: Sequence[str] = ()
    generators: Sequence[Mapping[str, Any]] = ()
    states: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    reads_ahead: Sequence[str] = ()
    root_name: str = "main_loop"

    @property
    def stream_parts(self) -> Any:
        """The pair of data stream and epoch iterator, wherever it is saved; or None."""
        if self.iteration_state is not None:
            return self.iteration_state
        return getattr(self.main, ITERATION_STATE, None)

    @classmethod
    def of_main_loop(
        cls,
        main_loop: Any,
        *,
        parameters: Iterable[Any] | None = None,
        separately: Iterable[str] = (LOG, ITERATION_STATE),
        with_main_loop: bool = True,
    ) -> Contents:
        """Say what to save of a main loop.

        Parameters
        ----------
        main_loop : MainLoop
        parameters : iterable of shared variables, optional
            By default those of the main loop's model, or else those that its
            algorithm trains.
        separately : iterable of str
            Attributes of the main loop to save as members.
        with_main_loop : bool
            If true, the main loop is saved, its log and iteration state as
            members.

        Raises
        ------
        AttributeError
            The main loop has no attribute of a name in ``separately``.
        """
        model = getattr(main_loop, "model", None)
        algorithm = getattr(main_loop, "algorithm", None)
        statistics = []
        if parameters is None:
            parameters = (
                getattr(model, "parameters", None) or getattr(algorithm, "parameters", None) or ()
            )
            statistics = [each for each in known_variables(main_loop) if is_statistic(each)]
        names = dict.fromkeys(separately)
        attributes = {name: getattr(main_loop, name) for name in names}
        if with_main_loop:
            attributes.setdefault(LOG, main_loop.log)
            attributes.setdefault(ITERATION_STATE, main_loop.iteration_state)
        get_names = getattr(model, "get_parameter_dict", None)
        return cls(
            main=main_loop if with_main_loop else None,
            log=attributes.pop(LOG, None),
            iteration_state=attributes.pop(ITERATION_STATE, None),
            further=attributes,
            parameters=list(parameters),
            statistics=statistics,
            variables=variables_of_model(main_loop),
            given_names=get_names() if get_names else {},
            status=main_loop.log.status,
            limits=[limit.description for limit in limits_of(main_loop.extensions)],
            generators=describe_generators(main_loop),
            states={
                "extensions": states_of(all_extensions(main_loop)),
                "quantities": quantity_states(all_extensions(main_loop)),
            },
            reads_ahead=streams_that_read_ahead(main_loop),
        )
