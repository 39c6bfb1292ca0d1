"""From a shared variable to its names.

A variable has three:

- its *name*, for people: the path of bricks it hangs in and its own name,
  ``mlp/linear_0/W``; a buffer of an algorithm hangs under the parameter it
  belongs to, ``mlp/linear_0/W.mean``;
- its *parameter name*, for programs: the one that the model's
  ``get_parameter_dict`` gives it, ``/mlp/linear_0.W``;
- its *member name*, for files, which :mod:`.file_names` makes of its name.

Everything here is a function of the variables and their places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .engines import creation_number, identity

__all__ = [
    "VariableNames",
    "brick_of",
    "is_statistic",
    "kind_of",
    "name_variables",
    "numbered",
    "true_name",
]


@dataclass(frozen=True)
class VariableNames:
    """The two names of a variable, and what it is.

    Attributes
    ----------
    name : str
        ``mlp/linear_0/W``
    parameter_name : str
        ``/mlp/linear_0.W``
    kind : {'parameter', 'buffer', 'shared'}
        A parameter is what training changes; a buffer is what the algorithm
        keeps beside it; anything else is shared.
    unnumbered : str or None
        What ``name`` is without its number, where several have that name.
    """

    name: str
    parameter_name: str
    kind: str
    unnumbered: str | None = None


def numbered(names: Sequence[str]) -> list[str]:
    """Make names distinct by numbering those that occur more than once.

    A name that occurs once is kept. The others are all numbered from 0, in
    their order. A number that would make a name that really occurs is left
    out.

    Parameters
    ----------
    names : sequence of str

    Returns
    -------
    list of str
        As many, all different.

    Examples
    --------
    >>> numbered(["b", "W", "W"])
    ['b', 'W_0', 'W_1']
    >>> numbered(["W", "W", "W_1"])
    ['W_0', 'W_2', 'W_1']
    """
    taken = set(names)
    if len(taken) == len(names):
        return list(names)
    counts = Counter(names)
    following: dict[str, int] = {}
    result = []
    for name in names:
        if counts[name] > 1:
            number = following.get(name, 0)
            while f"{name}_{number}" in taken:
                number += 1
            following[name] = number + 1
            name = f"{name}_{number}"
            taken.add(name)
        result.append(name)
    return result


def true_name(parameter_name: str) -> str:
    """Turn a parameter name into a name, as far as the string alone tells.

    Examples
    --------
    >>> true_name("/mlp/linear_0.W")
    'mlp/linear_0/W'
    >>> true_name("V")
    'V'
    """
    if not parameter_name.startswith("/"):
        return parameter_name
    path, dot, own = parameter_name[1:].rpartition(".")
    return f"{path}/{own}" if dot and path else parameter_name


def brick_of(variable: Any) -> Any:
    """Return the brick that a variable belongs to, or None."""
    for annotation in getattr(getattr(variable, "tag", None), "annotations", ()):
        # A variable is annotated with its brick and with the application of
        # a brick that made it; only the brick has children.
        if hasattr(annotation, "children") and hasattr(annotation, "parents"):
            return annotation
    return None


def _brick_path(brick: Any) -> list[str]:
    if hasattr(brick, "get_unique_path"):
        return [str(each.name) for each in brick.get_unique_path()]
    return [str(brick.name)]


def _role_names(variable: Any) -> set[str]:
    roles = getattr(getattr(variable, "tag", None), "roles", ())
    return {cls.__name__ for role in roles for cls in type(role).__mro__}


def kind_of(variable: Any, is_parameter: bool = False) -> str:
    """Tell a parameter from a buffer from another shared variable.

    Parameters
    ----------
    variable : shared variable
        Its ``tag.roles`` and ``tag.for_parameter`` are looked at.
    is_parameter : bool
        The model says that it is one.
    """
    roles = _role_names(variable)
    if is_parameter or "ParameterRole" in roles:
        return "parameter"
    tag = getattr(variable, "tag", None)
    if (
        getattr(tag, "for_parameter", None) is not None
        or "AlgorithmBufferRole" in roles
        or is_statistic(variable)
    ):
        return "buffer"
    return "shared"


def is_statistic(variable: Any) -> bool:
    """Tell whether a variable is a statistic that batch normalisation gathers."""
    return "BatchNormPopulationStatisticsRole" in _role_names(variable)


def _own_name(variable: Any, kind: str) -> str:
    tag_name = getattr(getattr(variable, "tag", None), "name", None)
    name = tag_name if tag_name is not None else getattr(variable, "name", None)
    return kind if name is None or name == "" else str(name)


def name_variables(
    variables: Sequence[Any],
    *,
    parameters: Iterable[Any] = (),
    given: Mapping[str, Any] | None = None,
    first: Iterable[Any] = (),
) -> list[VariableNames]:
    """Name shared variables.

    Parameters
    ----------
    variables : sequence of shared variables
        Distinct. Those that would have one name are numbered: the model's
        parameters before all others, in their own order, then ``first``, then
        the rest as they were made.
    parameters : iterable of shared variables
        The model's parameters. Without any, the variables that have the role
        of one are taken for parameters.
    given : mapping of str to shared variable, optional
        What the model's ``get_parameter_dict`` returns. Its names are used,
        but for two parameters of one name that it has merged into one: they
        are told apart by numbers.
    first : iterable of shared variables
        They come next to the parameters when names are numbered, in their
        own order.

    Returns
    -------
    list of VariableNames
        One for each of ``variables``; names are distinct, and so are
        parameter names.
    """
    rank: dict[int, int] = {}
    for parameter in parameters:
        rank.setdefault(identity(parameter), len(rank))
    is_parameter = set(rank)
    for variable in first:
        rank.setdefault(identity(variable), len(rank))
    kinds = {identity(v): kind_of(v, identity(v) in is_parameter) for v in variables}
    if is_parameter:
        # What another model trains, or a brick trained before it was allocated
        # anew, is none of this model's.
        for key in kinds.keys() - is_parameter:
            kinds[key] = "shared" if kinds[key] == "parameter" else kinds[key]
    given_names = {
        identity(variable): str(name) for name, variable in (given or {}).items() if name
    }
    names: dict[int, str] = {}
    parameter_names: dict[int, str] = {}
    unnumbered: dict[int, str] = {}
    waiting = sorted(
        variables, key=lambda v: (rank.get(identity(v), len(rank)), creation_number(v))
    )
    while waiting:
        # Buffers are named after their parameter's final name, hence after it.
        pending = {identity(variable) for variable in waiting}
        ready = [v for v in waiting if _owner(v, kinds) not in pending] or waiting
        raw = {}
        for variable in ready:
            key = identity(variable)
            owner = _owner(variable, kinds)
            own = _own_name(variable, kinds[key])
            if owner in names:
                pair = f"{names[owner]}.{own}", f"{parameter_names[owner]}.{own}"
            else:
                pair = _names_by_place(variable, own)
            raw[key] = pair[0], given_names.get(key, pair[1])
            unnumbered[key] = pair[0]
        _distinguish(names, {key: name for key, (name, _) in raw.items()})
        # What the model calls its parameters is settled: others make way.
        for of_model in (True, False):
            _distinguish(
                parameter_names,
                {key: name for key, (_, name) in raw.items() if (key in is_parameter) is of_model},
            )
        waiting = [variable for variable in waiting if identity(variable) not in names]
    return [
        VariableNames(
            names[key],
            parameter_names[key],
            kinds[key],
            unnumbered[key] if unnumbered[key] != names[key] else None,
        )
        for key in map(identity, variables)
    ]


def _owner(variable: Any, kinds: Mapping[int, str]) -> int | None:
    """Identify the parameter that a buffer belongs to."""
    owner = getattr(getattr(variable, "tag", None), "for_parameter", None)
    if owner is None or kinds[identity(variable)] == "parameter":
        return None
    return identity(owner)


def _names_by_place(variable: Any, own: str) -> tuple[str, str]:
    brick = brick_of(variable)
    if brick is None:
        return own, own
    own = str(getattr(variable, "name", None) or own)
    path = _brick_path(brick)
    return "/".join([*path, own]), "/".join(["", *path]) + "." + own


def _distinguish(settled: dict[int, str], names: Mapping[int, str]) -> None:
    """Add names to those that are settled, numbered where they are not distinct."""
    # The settled ones take part so that no number runs into one of them.
    used = list(settled.values())
    settled.update(zip(names, numbered([*used, *names.values()])[len(used) :]))
