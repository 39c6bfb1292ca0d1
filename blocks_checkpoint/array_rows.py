"""Names for the stored arrays, and the manifest's row of each."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .contents import Contents
from .file_names import anonymous_member_names, member_names
from .format import CHAIN, RESERVED
from .naming import VariableNames, name_variables, numbered, true_name
from .pickling.array_plan import Plan, StoredArray
from .pickling.array_table import ArrayTable

__all__ = ["Beside", "name_arrays", "name_values"]


@dataclass
class Beside:
    """What a file has already that a snapshot is added to.

    Attributes
    ----------
    members : sequence of str
        Its members.
    rows : sequence of dict
        The manifest's rows of its arrays.
    stored : sequence of (numpy.ndarray, int)
        Live arrays whose values it has, and their numbers.
    """

    members: Sequence[str] = ()
    rows: Sequence[Mapping[str, Any]] = ()
    stored: Sequence[tuple[np.ndarray[Any, Any], int]] = ()

    def new_table(self) -> ArrayTable:
        """Make a table whose numbers begin behind those in use."""
        numbers = [row["id"] for row in self.rows if row["id"] is not None]
        table = ArrayTable(CHAIN, first_number=max(numbers, default=-1) + 1)
        for array, number in self.stored:
            table.set_stored(array, number)
        return table

    def renumbered(self, names: list[VariableNames]) -> list[VariableNames]:
        """Number the names that the file has already."""
        count = len(self.rows)
        free = numbered([row["name"] for row in self.rows] + [each.name for each in names])
        free_parameter_names = numbered(
            [row["parameter_name"] for row in self.rows] + [each.parameter_name for each in names]
        )
        return [
            replace(each, name=name, parameter_name=parameter_name)
            for name, parameter_name, each in zip(free[count:], free_parameter_names[count:], names)
        ]


def name_arrays(
    contents: Contents, plan: Plan, beside: Beside
) -> tuple[list[dict[str, Any]], list[tuple[str, np.ndarray[Any, Any]]]]:
    """Name every stored array, and describe it for the manifest."""
    owned = [(stored, variable) for stored in plan.stored for variable in stored.variables]
    variables = [variable for _, variable in owned]
    names = name_variables(
        variables,
        parameters=contents.parameters,
        given=contents.given_names,
        first=contents.variables,
    )
    names = beside.renumbered(names)
    others = [*RESERVED, *contents.further, *beside.members]
    members = member_names([each.name for each in names], reserved=others)
    anonymous = [stored for stored in plan.stored if not stored.variables]
    free = anonymous_member_names(len(anonymous), [*others, *members])

    rows, arrays = [], []
    seen: set[int] = set()
    for (stored, _), each, member in zip(owned, names, members):
        row = _row_of_stored(stored, member, each.name, each.parameter_name, each.kind)
        if stored.number in seen:
            # Two variables of one array: each has a member to be read by, and
            # the number belongs to the first.
            row["id"] = None
        if each.unnumbered is not None:
            row["unnumbered"] = each.unnumbered
        seen.add(stored.number)
        rows.append(row)
        arrays.append((member, stored.array))
    for stored, member in zip(anonymous, free):
        name = member[: -len(".npy")]
        rows.append(_row_of_stored(stored, member, name, name, "array"))
        arrays.append((member, stored.array))
    return rows, arrays


def name_values(
    named: Sequence[tuple[str, np.ndarray[Any, Any]]],
) -> tuple[list[dict[str, Any]], list[tuple[str, np.ndarray[Any, Any]]]]:
    """Name arrays that are given by their parameter names, and describe them.

    Parameters
    ----------
    named : sequence of (str, numpy.ndarray)
        Parameter names, all different, and values.
    """
    names = numbered([true_name(parameter_name) for parameter_name, _ in named])
    members = member_names(names)
    rows, arrays = [], []
    for number, (name, member, (parameter_name, array)) in enumerate(zip(names, members, named)):
        rows.append(_row(array, number, member, name, parameter_name, "parameter"))
        arrays.append((member, array))
    return rows, arrays


def _row_of_stored(
    stored: StoredArray, member: str, name: str, parameter_name: str, kind: str
) -> dict[str, Any]:
    row = _row(stored.array, stored.number, member, name, parameter_name, kind)
    if stored.view is not None:
        row["view_of"] = stored.view.of
    if not stored.writeable:
        row["writeable"] = False
    return row


def _row(
    array: np.ndarray[Any, Any],
    number: int,
    member: str,
    name: str,
    parameter_name: str,
    kind: str,
) -> dict[str, Any]:
    flags = array.flags
    return {
        "name": name,
        "parameter_name": parameter_name,
        "member": member,
        "dtype": _dtype_name(array.dtype),
        "shape": list(array.shape),
        "order": "F" if flags.f_contiguous and not flags.c_contiguous else "C",
        "kind": kind,
        "id": number,
    }


@functools.lru_cache(maxsize=256)
def _dtype_name(dtype: np.dtype[Any]) -> str:
    # Types that numpy does not bring itself (bfloat16) call themselves void.
    if dtype.isbuiltin == 2:
        return dtype.name
    return str(dtype.descr) if dtype.names else dtype.str
