"""Stored arrays into shared variables: all of them, or none.

First everything is compared, then everything is set. A model is never left
with half of its parameters replaced.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .engines import identity, stored_value
from .errors import ParameterMismatch, ParameterWarning
from .naming import VariableNames, is_statistic, name_variables
from .numbered_names import Doubt, Traits, doubts, dtype_family
from .pickling.reachable import reachable_variables, variables_of_model

__all__ = [
    "Assignment",
    "PreparedAssignment",
    "loop_variables",
    "match",
    "model_variables",
    "stored_for",
]

logger = logging.getLogger(__name__)


@dataclass
class Assignment:
    """Which stored array goes into which variable.

    Attributes
    ----------
    pairs : list of (shared variable, dict)
        The dict is the stored array's row in the manifest.
    missing : list of str
        Variables for which nothing is stored.
    unexpected : list of str
        Stored parameters that no variable takes.
    wrong_shape : list of (str, tuple of int, tuple of int)
        Name, stored shape, shape of the variable.
    """

    pairs: list[tuple[Any, dict[str, Any]]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    wrong_shape: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether everything fits."""
        return not (self.missing or self.unexpected or self.wrong_shape)

    def describe(self) -> str:
        """Say what does not fit, one line for each name."""
        lines = [f"missing in the file: {name}" for name in self.missing]
        lines += [f"in the file only: {name}" for name in self.unexpected]
        lines += [
            f"{name} has shape {stored} in the file, {expected} in the model"
            for name, stored, expected in self.wrong_shape
        ]
        return "".join(f"\n  - {line}" for line in lines)

    def require_complete(self, path: str | None, *, strict: bool, stacklevel: int = 3) -> None:
        """Raise or warn about what does not fit.

        Raises
        ------
        ParameterMismatch
            Something does not fit, and ``strict`` is true; or nothing fits.
        """
        if self.is_complete:
            return
        if strict or not self.pairs:
            advice = (
                "Nothing was changed. strict=False loads what fits"
                if self.pairs
                else "Nothing in the file fits this model, and nothing was changed"
            )
            raise ParameterMismatch(
                f"the parameters in the file are not those of the model. {advice}."
                f"{self.describe()}",
                missing=self.missing,
                unexpected=self.unexpected,
                wrong_shape=self.wrong_shape,
                path=path,
            )
        warnings.warn(
            f"{path}: not everything was loaded.{self.describe()}",
            ParameterWarning,
            stacklevel=stacklevel,
        )

    def prepare(self, checkpoint: Any) -> PreparedAssignment:
        """Read the arrays, each with the dtype its variable has.

        Whatever can go wrong goes wrong here, before a variable is touched.
        """
        rows = [row for _, row in self.pairs]
        pairs, unfit = [], []
        for (variable, row), array in zip(self.pairs, checkpoint.read_rows(rows)):
            dtype = _dtype_of(variable)
            if dtype is not None and array.dtype != dtype:
                if not np.can_cast(array.dtype, dtype, "same_kind"):
                    unfit.append(f"{row['name']} is {array.dtype} in the file, {dtype} here")
                    continue
                array = array.astype(dtype)
            pairs.append((variable, array))
        if unfit:
            raise ParameterMismatch(
                "values in the file would lose their meaning in the variables of this model. "
                "Nothing was changed." + "".join(f"\n  - {line}" for line in unfit),
                path=checkpoint.path,
            )
        return PreparedAssignment(pairs)


@dataclass
class PreparedAssignment:
    """Arrays that are read, and the variables they are for."""

    pairs: list[tuple[Any, np.ndarray[Any, Any]]]

    def carry_out(self) -> None:
        """Set every variable; or, if one of them refuses, none."""
        before: list[tuple[Any, Any]] = []
        try:
            for variable, value in self.pairs:
                before.append((variable, variable.get_value(borrow=True)))
                # The array is ours alone; an engine that can take it need not copy.
                variable.set_value(value, borrow=True)
        except BaseException:
            for variable, value in before:
                variable.set_value(value, borrow=True)
            raise


def _dtype_of(variable: Any) -> Any:
    return getattr(stored_value(variable), "dtype", None) or getattr(variable.type, "dtype", None)


def _shape_of(variable: Any) -> tuple[int, ...]:
    return tuple(np.shape(stored_value(variable)))


def model_variables(main_loop: Any) -> tuple[list[Any], list[VariableNames]]:
    """List the shared variables that make up a model, and name them.

    Parameters
    ----------
    main_loop : MainLoop
        If it has no model, the parameters are those that its algorithm trains.

    Returns
    -------
    variables : list of shared variables
        Its parameters, and what else of its graph belongs to bricks: the
        statistics that batch normalisation has gathered.
    names : list of VariableNames
    """
    parameters, given = _parameters_of(main_loop)
    known = {identity(parameter) for parameter in parameters}
    others = [
        variable
        for variable in getattr(getattr(main_loop, "model", None), "shared_variables", ())
        if identity(variable) not in known and is_statistic(variable)
    ]
    variables = parameters + others
    return variables, name_variables(variables, parameters=parameters, given=given)


def _parameters_of(main_loop: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return the parameters of a main loop, and the names that the model gives them."""
    model = getattr(main_loop, "model", None)
    algorithm = getattr(main_loop, "algorithm", None)
    parameters = getattr(model, "parameters", None) or getattr(algorithm, "parameters", None) or ()
    get_names = getattr(model, "get_parameter_dict", None)
    return list(parameters), dict(get_names()) if get_names else {}


def loop_variables(main_loop: Any) -> tuple[list[Any], list[VariableNames]]:
    """List every shared variable of a main loop, named as a save names them."""
    parameters, given = _parameters_of(main_loop)
    variables = {identity(variable): variable for variable in parameters}
    for variable in reachable_variables(main_loop):
        variables.setdefault(identity(variable), variable)
    found = list(variables.values())
    first = variables_of_model(main_loop)
    return found, name_variables(found, parameters=parameters, given=given, first=first)


def stored_for(
    variables: Sequence[Any],
    names: Sequence[VariableNames],
    checkpoint: Any,
    *,
    optional_kinds: Container[str] = (),
) -> Assignment:
    """Find in a checkpoint the stored array for each variable; see :func:`match`."""
    if hasattr(checkpoint, "rows_for"):
        # What Blocks called an array its files tell only to those who know it.
        rows = checkpoint.rows_for([each.parameter_name for each in names])
    else:
        rows = checkpoint.manifest["arrays"]
    return match(variables, names, rows, optional_kinds=optional_kinds)


def match(
    variables: Sequence[Any],
    names: Sequence[VariableNames],
    rows: Sequence[dict[str, Any]],
    *,
    optional_kinds: Container[str] = (),
) -> Assignment:
    """Find the stored array for each variable.

    Parameters
    ----------
    variables : sequence of shared variables
    names : sequence of VariableNames
        One for each.
    rows : sequence of dict
        The manifest's description of what is stored. Each parameter among
        them must be taken by some variable.
    optional_kinds : container of str
        Kinds of variables that stay as they are where nothing fits. A warning
        says so where several have one name, and cannot be told apart.

    Returns
    -------
    Assignment
    """
    by_parameter_name = {row["parameter_name"]: row for row in rows}
    by_name = {row["name"]: row for row in rows}
    assignment = Assignment()
    taken: set[int] = set()
    doubtful = doubts(
        [(each, _traits_of(variable, each.kind)) for variable, each in zip(variables, names)],
        [(row, _traits_of_row(row)) for row in rows],
    )
    reported: list[Doubt] = []
    for variable, each in zip(variables, names):
        row = by_parameter_name.get(each.parameter_name) or by_name.get(each.name)
        is_optional = each.kind in optional_kinds
        doubt = doubtful.get(each.unnumbered or each.name)
        if is_optional and doubt is not None:
            if doubt not in reported:
                reported.append(doubt)
            continue
        if row is None:
            if not is_optional:
                assignment.missing.append(each.parameter_name)
            elif is_statistic(variable):
                logger.warning("%s stays as it is: it is not in the file", each.name)
            continue
        taken.add(id(row))
        stored, expected = tuple(row["shape"]), _shape_of(variable)
        if stored == expected:
            assignment.pairs.append((variable, row))
        elif is_optional and each.kind == "shared" and _can_be_of_shape(variable, stored):
            # A state that training carries along, or a sum: its shape is that
            # of the data.
            logger.info("%s takes the shape %s that it has in the file", each.name, stored)
            assignment.pairs.append((variable, row))
        elif is_optional:
            logger.warning(
                "%s stays as it is: its shape is %s, in the file %s", each.name, expected, stored
            )
        else:
            assignment.wrong_shape.append((each.parameter_name, stored, expected))
    assignment.unexpected = [
        row["parameter_name"] for row in rows if row["kind"] == "parameter" and id(row) not in taken
    ]
    if reported:
        listed = "".join(f"\n  - {doubt}" for doubt in reported)
        warnings.warn(
            "shared variables of one name cannot be told apart, and stay as they are. Give each "
            f"a name of its own (variable.name = ...) before a run that is to be resumed.{listed}",
            ParameterWarning,
            stacklevel=3,
        )
    return assignment


def _traits_of(variable: Any, kind: str) -> Traits:
    return _traits(kind, _dtype_of(variable), _shape_of(variable))


def _traits_of_row(row: Mapping[str, Any]) -> Traits:
    return _traits(row["kind"], row["dtype"], row["shape"])


def _traits(kind: str, dtype: Any, shape: Sequence[int]) -> Traits:
    return kind, dtype_family(dtype), len(shape) if kind == "shared" else tuple(shape)


def _can_be_of_shape(variable: Any, shape: tuple[int, ...]) -> bool:
    """Tell whether the type of a variable allows for this shape."""
    fixed = getattr(variable.type, "shape", None)
    if fixed is None:
        fixed = [1 if is_one else None for is_one in getattr(variable.type, "broadcastable", ())]
    return len(shape) == len(fixed) and all(
        length in (None, stored) for length, stored in zip(fixed, shape)
    )
