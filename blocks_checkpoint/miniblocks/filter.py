"""Finding variables of a graph by what they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from inspect import isclass
from typing import Any

from .bricks.application import Application, ApplicationCall, BoundApplication
from .bricks.base import Brick
from .roles import VariableRole, has_roles

__all__ = ["VariableFilter", "get_annotation", "get_application_call", "get_brick"]


def get_annotation(var: Any, cls: type) -> Any:
    """Return the first annotation of a class on a variable, or None."""
    for annotation in getattr(var.tag, "annotations", []):
        if isinstance(annotation, cls):
            return annotation
    return None


def get_brick(var: Any) -> Any:
    """Return the brick that a variable belongs to, or None."""
    return get_annotation(var, Brick)


def get_application_call(var: Any) -> Any:
    """Return the application of a brick that made a variable, or None."""
    return get_annotation(var, ApplicationCall)


class VariableFilter:
    """Pick the variables that fit all criteria given.

    Parameters
    ----------
    roles : sequence of VariableRole, optional
        One of these, or a special case of one.
    bricks : sequence of bricks or classes of bricks, optional
        Belongs to one of them.
    each_role : bool, optional
        Ask for all of ``roles``.
    name, name_regex : str, optional
        Name inside the brick (``tag.name``): equal, or matched from its start.
    theano_name, theano_name_regex : str, optional
        Name in the engine (``name``): likewise.
    call_id : str, optional
        As given to the application that made it.
    applications : sequence of applications, optional
        Made by one of them, bound to a brick or not.
    """

    def __init__(
        self,
        roles: Sequence[VariableRole] | None = None,
        bricks: Sequence[Any] | None = None,
        each_role: bool = False,
        name: str | None = None,
        name_regex: str | None = None,
        theano_name: str | None = None,
        theano_name_regex: str | None = None,
        call_id: str | None = None,
        applications: Sequence[Any] | None = None,
    ) -> None:
        for brick in bricks or ():
            if not (isinstance(brick, Brick) or (isclass(brick) and issubclass(brick, Brick))):
                raise ValueError(f"bricks holds what is no brick: {brick!r}")
        for application in applications or ():
            if not isinstance(application, (Application, BoundApplication)):
                raise ValueError(f"applications holds what is no application: {application!r}")
        self.roles = roles
        self.bricks = bricks
        self.each_role = each_role
        self.name = name
        self.name_regex = name_regex
        self.theano_name = theano_name
        self.theano_name_regex = theano_name_regex
        self.call_id = call_id
        self.applications = applications

    def __call__(self, variables: Iterable[Any]) -> list[Any]:
        """Return those of the variables that fit, in their order."""
        return [variable for variable in variables if self._fits(variable)]

    def _fits(self, variable: Any) -> bool:
        own_name = getattr(variable.tag, "name", None)
        call = get_application_call(variable)
        return (
            (not self.roles or has_roles(variable, self.roles, self.each_role))
            and (self.bricks is None or self._is_of_brick(get_brick(variable)))
            and _is_named(own_name, self.name, self.name_regex)
            and _is_named(variable.name, self.theano_name, self.theano_name_regex)
            and (not self.applications or self._is_of_application(call))
            and (not self.call_id or (call and call.metadata["call_id"] == self.call_id))
        )

    def _is_of_brick(self, own: Any) -> bool:
        return own is not None and any(
            isinstance(own, brick) if isclass(brick) else own is brick
            for brick in self.bricks or ()
        )

    def _is_of_application(self, call: Any) -> bool:
        return call is not None and any(
            application in (call.application, call.application.application)
            for application in self.applications or ()
        )


def _is_named(name: str | None, wanted: str | None, pattern: str | None) -> bool:
    if wanted and name != wanted:
        return False
    return not pattern or (name is not None and re.match(pattern, name) is not None)
