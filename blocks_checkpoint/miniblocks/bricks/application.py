"""Applications: methods of a brick that tag what goes in and what comes out."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, overload

from ..graph.annotations import Annotation, add_annotation
from ..graph.computation import is_variable
from ..roles import INPUT, OUTPUT, VariableRole, add_role
from ..utils.containers import pack, unpack

__all__ = ["Application", "ApplicationCall", "BoundApplication", "application"]

logger = logging.getLogger(__name__)


class Application:
    """A method of a class of bricks that applies them to variables.

    Parameters
    ----------
    function : callable
        The method. Parameters of the names ``application`` and
        ``application_call`` are filled in by the call.
    inputs, outputs : sequence of str, optional
        Names of what goes in and comes out.

    Attributes
    ----------
    brick : type
        The class it is a method of.
    """

    _applying: list[Any] = []

    def __init__(
        self,
        function: Callable[..., Any],
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
    ) -> None:
        self.__doc__ = function.__doc__
        self.application_function = function
        self.application_name = function.__name__
        self.properties: dict[str, str] = {}
        self.delegate_name: str | None = None
        self.brick: Any = None
        if inputs is not None:
            self.inputs = list(inputs)
        if outputs is not None:
            self.outputs = list(outputs)

    def __set_name__(self, owner: type, name: str) -> None:
        self.brick = owner
        self.application_name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else BoundApplication(self, instance)

    def __call__(self, brick: Any, *args: Any, **kwargs: Any) -> Any:
        """Apply a brick, given as the first argument."""
        return self.apply(BoundApplication(self, brick), *args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        # By reference, as methods are: the class has it.
        return getattr, (self.brick, self.application_name)

    @property
    def name(self) -> str:
        """Name of the method."""
        return self.application_name

    def property(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorate a method of the brick that computes an attribute of this."""

        def decorate(method: Callable[..., Any]) -> Callable[..., Any]:
            self.properties[name] = method.__name__
            return method

        return decorate

    def delegate(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate a method of the brick that returns whom to ask for other attributes."""
        self.delegate_name = method.__name__
        return method

    def apply(
        self,
        bound: BoundApplication,
        *args: Any,
        as_dict: bool = False,
        as_list: bool = False,
        call_id: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Apply a brick to variables, allocating its parameters if need be.

        Parameters
        ----------
        bound : BoundApplication
        *args, **kwargs
            For the method.
        as_dict, as_list : bool, optional
            Return a dictionary by name, or a list, also where there is one
            output only.
        call_id : str, optional
            Kept, for :class:`.VariableFilter`.
        """
        brick = bound.brick
        call = ApplicationCall(bound)
        call.metadata["call_id"] = call_id
        if not brick.allocated:
            brick.allocate()
        names, rest = _parameter_names(self.application_function)
        for special, value in (("application", bound), ("application_call", call)):
            if special in names:
                args = (*args[: names.index(special)], value, *args[names.index(special) :])
        tagged = [
            call.tag(arg, INPUT, names[i] if i < len(names) else f"{rest}_{i - len(names)}")
            for i, arg in enumerate(args)
        ]
        tagged_kwargs = {name: call.tag(arg, INPUT, name) for name, arg in kwargs.items()}
        outputs = pack(self._run(brick, tagged, tagged_kwargs))
        output_names = getattr(bound, "outputs", None)
        if output_names is None:
            output_names = [f"output_{i}" for i in range(len(outputs))]
        if len(output_names) < len(outputs):
            raise ValueError(f"{brick.name}.{self.name} returned more than {output_names}")
        outputs = [call.tag(out, OUTPUT, name) for out, name in zip(outputs, output_names)]
        if as_list:
            return outputs
        return dict(zip(output_names, outputs)) if as_dict else unpack(outputs)

    def _run(self, brick: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        caller = self._applying[-1] if self._applying else None
        if caller is not None and brick is not caller and brick not in caller.children:
            logger.warning(
                "brick %s applies %s, which is not among its children", caller.name, brick.name
            )
        self._applying.append(brick)
        try:
            return self.application_function(brick, *args, **kwargs)
        finally:
            self._applying.pop()


class BoundApplication:
    """An application of one brick.

    Attributes
    ----------
    application : Application
    brick : Brick
    """

    def __init__(self, application: Application, brick: Any) -> None:
        self.application = application
        self.brick = brick

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BoundApplication)
            and other.application is self.application
            and other.brick is self.brick
        )

    def __hash__(self) -> int:
        return hash((id(self.application), id(self.brick)))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the brick."""
        return self.application.apply(self, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        # While unpickling, neither attribute is there yet.
        application = self.__dict__.get("application")
        if application is None or name.startswith("__"):
            raise AttributeError(name)
        if name in application.properties:
            return getattr(self.brick, application.properties[name])()
        if hasattr(application, name):
            return getattr(application, name)
        if application.delegate_name:
            return getattr(getattr(self.brick, application.delegate_name)(), name)
        raise AttributeError(f"application {application.name} has no attribute {name!r}")


class ApplicationCall(Annotation):
    """One call of an application; hangs on all variables that it made.

    Attributes
    ----------
    application : BoundApplication
    metadata : dict
        Whatever the method wants to be known about the call.
    """

    def __init__(self, application: BoundApplication) -> None:
        super().__init__()
        self.application = application
        self.metadata: dict[str, Any] = {}

    def add_auxiliary_variable(
        self, variable: Any, roles: Any = (), name: str | None = None
    ) -> None:
        """Attach a variable that belongs to this call."""
        if name:
            variable.name = self._full_name(name)
            variable.tag.name = name
        add_annotation(variable, self.application.brick)
        super().add_auxiliary_variable(variable, roles)

    def tag(self, value: Any, role: VariableRole, name: str) -> Any:
        """Return a copy of a variable that says what it is here; other things as they are."""
        if not is_variable(value):
            return value
        copy = value.copy()
        copy.name = self._full_name(name)
        copy.tag.name = name
        add_annotation(copy, self.application.brick)
        add_annotation(copy, self)
        add_role(copy, role)
        return copy

    def _full_name(self, name: str) -> str:
        return f"{self.application.brick.name}_{self.application.application.name}_{name}"


@overload
def application(function: Callable[..., Any]) -> Application: ...


@overload
def application(
    *, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None
) -> Callable[[Callable[..., Any]], Application]: ...


def application(function: Callable[..., Any] | None = None, **names: Any) -> Any:
    """Decorate a method of a brick that makes variables of variables.

    Parameters
    ----------
    inputs, outputs : sequence of str, optional
        Names of what goes in and comes out.
    """
    if function is not None:
        return Application(function)
    return partial(Application, **names)


def _parameter_names(function: Callable[..., Any]) -> tuple[list[str], str | None]:
    names, rest = [], None
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            names.append(parameter.name)
        elif parameter.kind is parameter.VAR_POSITIONAL:
            rest = parameter.name
    return names, rest
