"""What the monitoring has summed up over the present epoch.

Variables are summed up in shared variables. What is no variable, a
``MonitoredQuantity``, keeps its sums in attributes: they are written down beside
the states of extensions, for a run that is resumed in a newly built main loop.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .engines import ENGINES, identity
from .errors import CheckpointWarning, LoadError
from .pickling.exact_json import from_json, to_json
from .pickling.extension_states import has_state_dict, named_extensions, without_doubtful
from .pickling.generator_states import is_generator
from .resumption import all_extensions

__all__ = ["RunningSums", "forget_sums", "quantity_states", "running_sums"]

logger = logging.getLogger(__name__)

#: Where the class is, and what its buffers of variables and of quantities are called.
_TRAINING_MONITORS = {
    "blocks.extensions.monitoring": (
        ("_variables", "_required_for_non_variables"),
        "_non_variables",
    ),
    "blocks_checkpoint.miniblocks.extensions.monitoring": (("_variables",), "_quantities"),
}
#: What a quantity is, rather than what it has seen.
_SETTINGS = ("requires", "name")


def _training_monitors(extensions: Iterable[Any]) -> Iterator[tuple[Any, list[Any], Any]]:
    """Give the monitoring extensions of training data, each with its buffers."""
    for extension in extensions:
        for module, (of_variables, of_quantities) in _TRAINING_MONITORS.items():
            cls = getattr(sys.modules.get(module), "TrainingDataMonitoring", ())
            if isinstance(extension, cls):
                quantities = getattr(extension, of_quantities)
                buffers = [getattr(extension, name) for name in of_variables]
                # Ours keeps with the quantities what is required for them.
                required = getattr(quantities, "required", None)
                yield extension, [*buffers, *filter(None, [required])], quantities


def _quantities_of(extension: Any) -> list[Any]:
    """List the quantities that an extension monitors, on training data or others."""
    for _, _, buffer in _training_monitors([extension]):
        return list(buffer.quantities)
    evaluator = getattr(extension, "__dict__", {}).get("_evaluator")
    for name in ("quantities", "monitored_quantities_buffer"):
        buffer = getattr(evaluator, name, None)
        if buffer is not None:
            return list(getattr(buffer, "quantities", ()))
    return []


def running_sums(main_loop: Any) -> set[int]:
    """Identify the shared variables in which a main loop sums up over an epoch."""
    return {
        identity(variable)
        for _, buffers, _ in _training_monitors(all_extensions(main_loop))
        for buffer in buffers
        for variable, _ in buffer.accumulation_updates
    }


def quantity_states(extensions: Iterable[Any]) -> dict[str, Any]:
    """Return what monitored quantities have seen, by names of extension and quantity.

    It is what their ``state_dict()`` returns; of those without one, every
    attribute that is a plain value.
    """
    found: dict[str, Any] = {}
    for name, extension in named_extensions(extensions):
        states = {str(each.name): _state_of(each, name) for each in _quantities_of(extension)}
        states = {key: state for key, state in states.items() if state is not None}
        if states:
            found[name] = states
    return found


def _state_of(quantity: Any, extension: str) -> Any:
    if has_state_dict(quantity):
        try:
            return to_json(quantity.state_dict())
        except (TypeError, RecursionError) as error:
            _warn(quantity, extension, "state_dict()", error)
            return None
    attributes = {}
    for name, value in vars(quantity).items():
        if name in _SETTINGS or _has_its_own_way(value):
            continue
        try:
            attributes[name] = to_json(value)
        except (TypeError, RecursionError) as error:
            _warn(quantity, extension, f".{name}", error)
    return attributes


def _warn(quantity: Any, extension: str, what: str, error: Exception) -> None:
    warnings.warn(
        f"{what} of the quantity {quantity.name!r} of the {extension} is no plain value "
        f"({error}): in a run that is resumed in mid-epoch it is what the new script makes it. "
        "Give the quantity methods state_dict() and load_state_dict(state) that deal in plain "
        "values",
        CheckpointWarning,
        stacklevel=2,
    )


def _has_its_own_way(value: Any) -> bool:
    """Tell whether this is part of a graph or program, or put back as what it is."""
    module = type(value).__module__.partition(".")[0]
    return is_generator(value) or module in ENGINES or callable(value)


@dataclass
class RunningSums:
    """The sums over the present epoch, as a checkpoint has them.

    Attributes
    ----------
    arrays : sequence of (shared variable, numpy.ndarray)
    quantities : mapping
        As :func:`quantity_states` made it.
    """

    arrays: Sequence[tuple[Any, np.ndarray[Any, Any]]]
    quantities: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        main_loop: Any,
        pairs: Sequence[tuple[Any, np.ndarray[Any, Any]]],
        quantities: Mapping[str, Any],
    ) -> RunningSums:
        """Pick what is for the sums of a main loop from all that was read."""
        variables = running_sums(main_loop)
        arrays = [
            (variable, np.array(value))
            for variable, value in pairs
            if identity(variable) in variables
        ]
        return cls(arrays, quantities)

    def put(self, main_loop: Any) -> None:
        """Go on with them.

        Raises
        ------
        LoadError
            A quantity does not take its state.
        """
        for variable, value in self.arrays:
            variable.set_value(value, borrow=True)
        found = {
            name: quantities
            for name, extension in named_extensions(all_extensions(main_loop))
            for quantities in [_quantities_of(extension)]
            if quantities
        }
        clear = without_doubtful(found, self.quantities)
        for name, quantities in found.items():
            if name not in clear:
                continue
            stored = self.quantities.get(name, {})
            for quantity in quantities:
                if quantity.name in stored:
                    _put_state(quantity, stored[quantity.name], name)
                else:
                    logger.warning(
                        "the file has no state for the quantity %r of the %s: it begins anew",
                        quantity.name,
                        name,
                    )


def _put_state(quantity: Any, stored: Any, extension: str) -> None:
    try:
        state = from_json(stored)
        if has_state_dict(quantity):
            quantity.load_state_dict(state)
        else:
            for name, value in state.items():
                if name not in _SETTINGS:
                    setattr(quantity, name, value)
    except Exception as error:
        raise LoadError(
            f"the quantity {quantity.name!r} of the {extension} does not take the state that it "
            f"had: {type(error).__name__}: {error}"
        ) from error


def forget_sums(main_loop: Any) -> None:
    """Begin the epoch's sums anew, for an epoch that begins anew."""
    for _, buffers, quantities in _training_monitors(all_extensions(main_loop)):
        for buffer in buffers:
            buffer.initialize_aggregators()
        quantities.initialize_quantities()
