"""Annotations: what hangs on the variables of a graph besides the graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..roles import AUXILIARY, VariableRole, add_role

__all__ = ["Annotation", "add_annotation"]


def add_annotation(var: Any, annotation: Annotation) -> None:
    """Hang an annotation on a variable.

    Raises
    ------
    ValueError
        One of the same class hangs there already.
    """
    annotations = getattr(var.tag, "annotations", [])
    if any(type(old) is type(annotation) for old in annotations):
        raise ValueError(f"{var} is annotated with a {type(annotation).__name__} already")
    var.tag.annotations = [*annotations, annotation]


class Annotation:
    """Variables and updates that belong to others without being computed from them.

    Attributes
    ----------
    auxiliary_variables : list of variables
        Found in every graph that has a variable with this annotation.
    updates : dict of shared variable to variable
        Likewise.
    """

    def __init__(self) -> None:
        self.auxiliary_variables: list[Any] = []
        self.updates: dict[Any, Any] = {}

    def add_auxiliary_variable(
        self, variable: Any, roles: Iterable[VariableRole] = (), name: str | None = None
    ) -> None:
        """Attach a variable, to monitor it or to use it as a penalty.

        Parameters
        ----------
        variable : variable of the graph
        roles : iterable of VariableRole, optional
            Its roles besides :data:`.AUXILIARY`.
        name : str, optional
            Its new name.
        """
        add_annotation(variable, self)
        if name is not None:
            variable.name = name
            variable.tag.name = name
        for role in (AUXILIARY, *(roles or ())):
            add_role(variable, role)
        self.auxiliary_variables.append(variable)
