"""Dropout as a change of the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...engines import current
from ..config import config
from ..roles import DROPOUT, add_role
from .computation import ComputationGraph

__all__ = ["apply_dropout"]


def apply_dropout(
    computation_graph: ComputationGraph,
    variables: Sequence[Any],
    drop_prob: float,
    rng: Any = None,
    seed: int | None = None,
    custom_divisor: float | None = None,
) -> ComputationGraph:
    """Set elements of some variables to zero at random.

    Parameters
    ----------
    computation_graph : ComputationGraph
    variables : sequence of variables
        In that graph.
    drop_prob : float
        Probability with which an element becomes zero.
    rng : random stream of the engine, optional
    seed : int, optional
        Of the stream to make when none is given; ``config.default_seed`` by default.
    custom_divisor : float, optional
        Divide what is left by this; by ``1 - drop_prob`` by default, which
        keeps the mean.

    Returns
    -------
    ComputationGraph
        Replaced variables have the role :data:`.DROPOUT`, and the variable
        they replace as ``tag.replacement_of``.

    References
    ----------
    Hinton et al., *Improving neural networks by preventing co-adaptation of
    feature detectors*, arXiv:1207.0580.
    """
    stream = rng or current().random_stream(seed or config.default_seed)
    keep_prob = 1 - drop_prob
    divisor = keep_prob if custom_divisor is None else custom_divisor
    replacements = []
    for variable in variables:
        draws = stream.uniform(size=variable.shape, low=0.0, high=1.0)
        mask = (draws < keep_prob).astype(variable.dtype)
        dropped = variable * mask / divisor
        add_role(dropped, DROPOUT)
        dropped.tag.replacement_of = variable
        replacements.append((variable, dropped))
    return computation_graph.replace(replacements)
