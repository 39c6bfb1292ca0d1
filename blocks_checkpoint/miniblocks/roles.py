"""Roles: what a variable of the graph is for.

A role is a single object, also after unpickling in another process; roles of
one kind are equal. A role may be a special case of another: whatever has
:data:`WEIGHT` is found among the :data:`PARAMETER` variables too.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any

__all__ = [
    "ALGORITHM_BUFFER",
    "ALGORITHM_HYPERPARAMETER",
    "ALGORITHM_STATE",
    "AUXILIARY",
    "BATCH_NORM_DIVISOR",
    "BATCH_NORM_GRAPH_VARIABLE",
    "BATCH_NORM_MINIBATCH_ESTIMATE",
    "BATCH_NORM_OFFSET",
    "BATCH_NORM_POPULATION_MEAN",
    "BATCH_NORM_POPULATION_STATISTICS",
    "BATCH_NORM_POPULATION_STDEV",
    "BATCH_NORM_SCALE_PARAMETER",
    "BATCH_NORM_SHIFT_PARAMETER",
    "BIAS",
    "COST",
    "DROPOUT",
    "INITIAL_STATE",
    "INPUT",
    "OUTPUT",
    "PARAMETER",
    "PERSISTENT",
    "WEIGHT",
    "VariableRole",
    "add_role",
    "has_roles",
]


class VariableRole:
    """Base of all roles; the class says which role it is."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self).__name__)

    def __repr__(self) -> str:
        stem = type(self).__name__.removesuffix("Role")
        return re.sub(r"(?<!^)([A-Z]+)", r"_\1", stem).upper()

    def __reduce__(self) -> Any:
        # A string is pickled as the name of a global: the role itself comes back.
        module = sys.modules[type(self).__module__]
        if getattr(module, repr(self), None) is self:
            return repr(self)
        return type(self), ()


def add_role(var: Any, role: VariableRole) -> None:
    """Give a variable a role, in the place of those it is a special case of.

    A variable that has a more special role already is left as it is.

    Parameters
    ----------
    var : variable of the graph
    role : VariableRole
    """
    roles = [old for old in getattr(var.tag, "roles", []) if not isinstance(role, type(old))]
    if not any(isinstance(old, type(role)) for old in roles):
        roles.append(role)
    var.tag.roles = roles


def has_roles(var: Any, roles: Iterable[VariableRole], match_all: bool = False) -> bool:
    """Tell whether a variable has one of the roles, or a special case of one.

    Parameters
    ----------
    var : variable of the graph
    roles : iterable of VariableRole
    match_all : bool, optional
        Ask for all of the roles.
    """
    own = getattr(var.tag, "roles", [])
    matches = [any(isinstance(each, type(role)) for each in own) for role in roles]
    return all(matches) if match_all else any(matches)


class InputRole(VariableRole):
    """Input of a brick."""


class OutputRole(VariableRole):
    """Output of a brick."""


class CostRole(VariableRole):
    """Scalar to be made small."""


class PersistentRole(VariableRole):
    """Belongs to the model and is to be saved with it."""


class ParameterRole(PersistentRole):
    """Parameter of the model."""


class AuxiliaryRole(VariableRole):
    """Attached to the graph by an annotation."""


class WeightRole(ParameterRole):
    """Weights of a linear transformation."""


class BiasRole(ParameterRole):
    """Biases of a linear transformation."""


class InitialStateRole(ParameterRole):
    """First state of a recurrent network."""


class DropoutRole(VariableRole):
    """Variable with dropout applied."""


class AlgorithmStateRole(VariableRole):
    """Used in the updates of an algorithm."""


class AlgorithmHyperparameterRole(AlgorithmStateRole):
    """Setting of an algorithm, such as a learning rate."""


class AlgorithmBufferRole(AlgorithmStateRole):
    """What an algorithm remembers about a parameter."""


class BatchNormPopulationStatisticsRole(PersistentRole):
    """Statistics of activations over the whole data."""


class BatchNormPopulationMeanRole(BatchNormPopulationStatisticsRole):
    """Mean of activations over the whole data."""


class BatchNormPopulationStdevRole(BatchNormPopulationStatisticsRole):
    """Standard deviation of activations over the whole data."""


class BatchNormGraphVariableRole(VariableRole):
    """Takes part in a batch normalisation."""


class BatchNormOffsetRole(BatchNormGraphVariableRole):
    """Subtracted in a batch normalisation."""


class BatchNormDivisorRole(BatchNormGraphVariableRole):
    """Divided by in a batch normalisation."""


class BatchNormMinibatchEstimateRole(BatchNormGraphVariableRole):
    """Statistic of one batch."""


class BatchNormScaleParameterRole(ParameterRole):
    """Learned scale of a batch normalisation."""


class BatchNormShiftParameterRole(BiasRole):
    """Learned shift of a batch normalisation."""


INPUT = InputRole()
OUTPUT = OutputRole()
COST = CostRole()
PERSISTENT = PersistentRole()
PARAMETER = ParameterRole()
AUXILIARY = AuxiliaryRole()
WEIGHT = WeightRole()
BIAS = BiasRole()
INITIAL_STATE = InitialStateRole()
DROPOUT = DropoutRole()
ALGORITHM_STATE = AlgorithmStateRole()
ALGORITHM_HYPERPARAMETER = AlgorithmHyperparameterRole()
ALGORITHM_BUFFER = AlgorithmBufferRole()
BATCH_NORM_POPULATION_STATISTICS = BatchNormPopulationStatisticsRole()
BATCH_NORM_POPULATION_MEAN = BatchNormPopulationMeanRole()
BATCH_NORM_POPULATION_STDEV = BatchNormPopulationStdevRole()
BATCH_NORM_GRAPH_VARIABLE = BatchNormGraphVariableRole()
BATCH_NORM_OFFSET = BatchNormOffsetRole()
BATCH_NORM_DIVISOR = BatchNormDivisorRole()
BATCH_NORM_MINIBATCH_ESTIMATE = BatchNormMinibatchEstimateRole()
BATCH_NORM_SCALE_PARAMETER = BatchNormScaleParameterRole()
BATCH_NORM_SHIFT_PARAMETER = BatchNormShiftParameterRole()
