"""Batch normalisation as a change of the graph: from population to batch statistics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ..roles import INPUT, OUTPUT
from .computation import ComputationGraph

__all__ = [
    "apply_batch_normalization",
    "batch_normalization",
    "get_batch_normalization_updates",
]


@contextmanager
def batch_normalization(*bricks: Any) -> Iterator[None]:
    """Let batch normalisation use the statistics of the batch, inside a ``with``.

    Parameters
    ----------
    *bricks : Brick
        These and all below them.
    """
    from ..bricks.bn import BatchNormalization

    with ExitStack() as stack:
        for brick in _descendants(bricks):
            if isinstance(brick, BatchNormalization):
                stack.enter_context(brick)
        yield


def apply_batch_normalization(computation_graph: ComputationGraph) -> ComputationGraph:
    """Make the graph to train on out of the graph to predict with.

    Parameters
    ----------
    computation_graph : ComputationGraph
        With applications of :class:`.BatchNormalization` that use the
        population's statistics.

    Returns
    -------
    ComputationGraph
        They use the statistics of the batch in the place of them.
    """
    inputs = _by_call(computation_graph, INPUT)
    replacements = []
    for call, output in _by_call(computation_graph, OUTPUT).items():
        if call.metadata["training_mode"]:
            continue
        brick = call.application.brick
        # The input was copied to be tagged; the brick makes a copy of its own.
        (untagged,) = inputs[call].owner.inputs
        with brick:
            replacements.append((output, brick.apply(untagged)))
    return computation_graph.replace(replacements)


def get_batch_normalization_updates(
    training_graph: ComputationGraph, allow_duplicates: bool = False
) -> list[tuple[Any, Any]]:
    """Pair each population statistic with the same statistic of the batch.

    As updates they would let each batch overwrite the statistics; make a
    moving average of them.

    Parameters
    ----------
    training_graph : ComputationGraph
        One that batch statistics are used in.
    allow_duplicates : bool, optional
        Allow a brick that is applied more than once; its statistics then
        come in several pairs.

    Returns
    -------
    list of (shared variable, variable)

    Raises
    ------
    ValueError
        There is no batch normalisation in training mode, or one brick is
        applied twice.
    """
    calls = [call for call in _by_call(training_graph, OUTPUT) if call.metadata["training_mode"]]
    bricks = [call.application.brick for call in calls]
    if not calls:
        raise ValueError("the graph has no batch normalisation that uses batch statistics")
    if len(set(map(id, bricks))) < len(bricks) and not allow_duplicates:
        raise ValueError("a BatchNormalization brick is applied twice; pass allow_duplicates=True")
    pairs = []
    for call, brick in zip(calls, bricks):
        pairs.append((brick.population_mean, call.metadata["offset"]))
        pairs.append((brick.population_stdev, call.metadata["divisor"]))
    return pairs


def _by_call(graph: ComputationGraph, role: Any) -> dict[Any, Any]:
    from ..bricks.bn import BatchNormalization
    from ..filter import VariableFilter, get_application_call

    found = VariableFilter(bricks=[BatchNormalization], roles=[role])(graph.variables)
    return {get_application_call(variable): variable for variable in found}


def _descendants(bricks: Iterable[Any]) -> list[Any]:
    found: dict[int, Any] = {}
    waiting = list(bricks)
    while waiting:
        brick = waiting.pop(0)
        if id(brick) not in found:
            found[id(brick)] = brick
            waiting.extend(brick.children)
    return list(found.values())
