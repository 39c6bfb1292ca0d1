"""Shared variables whose value is a random generator.

The random streams of the engines, and dropout with them, keep one for each
draw in the graph. They are no arrays; whoever continues a run gets them from
the pickle, whoever resumes it in a newly built main loop from here.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from ..engines import creation_number, identity
from ..naming import name_variables
from .generator_states import is_generator, new_generator, state_of

__all__ = ["describe_values", "prepare_values", "put_values"]

logger = logging.getLogger(__name__)


def describe_values(variables: Sequence[Any]) -> dict[str, Any]:
    """Return the states of the generators among the values, by names of the variables.

    Parameters
    ----------
    variables : sequence of shared variables
        Those whose values are no arrays.
    """
    named = _named(variables)
    return {name: state_of(_value(variable)) for name, variable in named.items()}


def _named(variables: Sequence[Any]) -> dict[str, Any]:
    # Theano copies the graph that it compiles, shared variables included. The
    # original is the one that was made first.
    made_last_first = sorted(variables, key=creation_number, reverse=True)
    distinct = {identity(variable): variable for variable in made_last_first}
    found = [each for each in distinct.values() if is_generator(_value(each))]
    return {each.name: variable for each, variable in zip(name_variables(found), found)}


def _value(variable: Any) -> Any:
    return variable.get_value(borrow=True)


def _kind(generator: Any) -> str:
    source = getattr(generator, "bit_generator", None) or getattr(generator, "_bit_generator", None)
    return f"{type(generator).__name__} of {type(source).__name__}"


def prepare_values(variables: Sequence[Any], described: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """Make the generators that variables are to have. Nothing is changed yet.

    Parameters
    ----------
    variables : sequence of shared variables
        Those whose values are no arrays, as :func:`describe_values` had them.
    described : mapping of str to dict

    Returns
    -------
    list of (shared variable, generator)

    Raises
    ------
    LoadError
        A state is damaged.
    """
    named = _named(variables)
    prepared = []
    for name, variable in named.items():
        if name not in described:
            logger.warning("the file has no state for the random stream %r: it begins anew", name)
            continue
        present, stored = _value(variable), new_generator(described[name])
        if _kind(stored) != _kind(present):
            logger.warning(
                "the random stream %r had a %s, and has a %s here: it begins anew",
                name,
                _kind(stored),
                _kind(present),
            )
            continue
        prepared.append((variable, stored))
    for name in described:
        if name not in named:
            logger.warning("there is no random stream %r here: others may have its number", name)
    return prepared


def put_values(prepared: Sequence[tuple[Any, Any]]) -> None:
    """Give variables the generators that were made for them."""
    for variable, generator in prepared:
        variable.set_value(generator, borrow=True)
