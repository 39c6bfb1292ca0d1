"""The state of one random generator, as values that JSON can hold, and back.

Generators are put back *in place*: whoever holds one, under whatever name,
draws on from where it was.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.random import bit_generator as bit_generators

from ..errors import LoadError
from ..safe_unpickling.random_values import checked
from . import torch_random
from .random_state import from_json, to_json

__all__ = ["is_generator", "is_global", "new_generator", "put_state", "state_of"]

_BIT_GENERATOR = bit_generators.BitGenerator
_SEED_SEQUENCE = bit_generators.SeedSequence
_KINDS: dict[str, type] = {
    "Generator": np.random.Generator,
    "RandomState": np.random.RandomState,
    "BitGenerator": _BIT_GENERATOR,
    "SeedSequence": _SEED_SEQUENCE,
    "Random": random.Random,
}
#: The kind of PyTorch's generators, whose class is known once it is imported.
_TORCH = "torch.Generator"
#: One that draws from the operating system has no state.
_STATELESS = (random.SystemRandom,)


def is_generator(thing: Any) -> bool:
    """Tell whether this is a random generator, or what they are seeded from."""
    return isinstance(thing, tuple(_kinds().values())) and not isinstance(thing, _STATELESS)


def _kinds() -> dict[str, type]:
    cls = torch_random.generator_class()
    return _KINDS if cls is None else {**_KINDS, _TORCH: cls}


def is_global(thing: Any) -> bool:
    """Tell whether this is a generator that the functions of a module use."""
    # ``random`` and ``numpy.random`` give these functions as methods of them.
    hidden: Any = getattr(np.random.mtrand, "_rand")  # noqa: B009 - not in its stubs
    own: Any = getattr(random, "_inst")  # noqa: B009
    return any(
        thing is each
        for each in (hidden, hidden._bit_generator, own, torch_random.default_generator())
    )


def state_of(generator: Any) -> dict[str, Any]:
    """Return the state of a generator.

    Nothing is drawn.
    """
    kind = next(name for name, cls in _kinds().items() if isinstance(generator, cls))
    if kind == _TORCH:
        return {
            "kind": kind,
            "device": str(generator.device),
            "state": torch_random.state_of(generator),
        }
    if kind == "Random":
        version, words, gauss = generator.getstate()
        return {"kind": kind, "state": [version, list(words), gauss]}
    if kind == "SeedSequence":
        return {"kind": kind, "seeds": _seeds(generator)}
    if kind == "RandomState":
        # It keeps half of a pair of normal deviates beside its source.
        state, source = generator.get_state(legacy=False), generator._bit_generator
    else:
        source = generator.bit_generator if kind == "Generator" else generator
        state = source.state
    return {"kind": kind, "state": to_json(state), "seeds": _seeds(_seed_sequence(source))}


def _seed_sequence(source: Any) -> Any:
    return getattr(source, "seed_seq", None) or getattr(source, "_seed_seq", None)


def _seeds(seeds: Any) -> dict[str, Any] | None:
    if not isinstance(seeds, _SEED_SEQUENCE):
        return None
    entropy: Any = seeds.entropy
    return {
        "entropy": entropy.tolist() if isinstance(entropy, np.ndarray) else entropy,
        "spawn_key": list(seeds.spawn_key),
        "pool_size": seeds.pool_size,
        "spawned": seeds.n_children_spawned,
    }


def put_state(generator: Any, stored: Mapping[str, Any]) -> None:
    """Put a generator into a state that :func:`state_of` returned.

    Raises
    ------
    LoadError
        The state is that of a generator of another kind, or none at all; or
        a seed sequence has spawned more children than it had then.
    """
    try:
        _put(generator, stored)
    except (ValueError, TypeError, LookupError, OverflowError, AttributeError) as error:
        raise LoadError(
            f"the state of a random generator cannot be put back: {error}", member="random_state"
        ) from error


def _put(generator: Any, stored: Mapping[str, Any]) -> None:
    kind = stored["kind"]
    expected: Any = _kinds()[kind]
    if not isinstance(generator, expected):
        raise TypeError(f"it is that of a {kind}, and here is a {type(generator).__name__}")
    if kind == "Random":
        version, words, gauss = stored["state"]
        generator.setstate((version, tuple(words), gauss))
        return
    if kind == _TORCH:
        torch_random.put_state(generator, stored["state"])
        return
    if kind == "SeedSequence":
        _spawn(generator, stored["seeds"])
        return
    state = checked(from_json(stored["state"]))
    if kind == "RandomState":
        source = generator._bit_generator
    else:
        source = generator.bit_generator if kind == "Generator" else generator
    if state["bit_generator"] != source.state["bit_generator"]:
        raise TypeError(
            f"it is that of a {state['bit_generator']}, and here is a {type(source).__name__}"
        )
    seeds = _seed_sequence(source)
    # A RandomState of a number has no seed sequence, and one that NumPy has
    # A RandomState that was seeded by a number has no seed sequence; one that was
    # made anew from its state has one that means nothing. It spawns no children.
    is_seeded_by_number = kind == "RandomState" and not isinstance(seeds, _SEED_SEQUENCE)
    if stored["seeds"] is not None and not is_seeded_by_number:
        _spawn(seeds, stored["seeds"])
    if kind == "RandomState":
        generator.set_state(state)
    else:
        source.state = state


def _spawn(seeds: Any, stored: Mapping[str, Any]) -> None:
    """Let a seed sequence have spawned as many children as it had then."""
    present = _seeds(seeds)
    missing = stored["spawned"] - (present or stored)["spawned"]
    if present is None or {**present, "spawned": stored["spawned"]} != dict(stored) or missing < 0:
        raise ValueError("it is seeded in another way, or has spawned more than it had then")
    seeds.spawn(missing)


def new_generator(stored: Mapping[str, Any]) -> Any:
    """Make a generator that is in a state that :func:`state_of` returned.

    Raises
    ------
    LoadError
        It is no such state.
    """
    try:
        return _new(stored)
    except (ValueError, TypeError, LookupError, OverflowError, AttributeError) as error:
        raise LoadError(
            f"this is not the state of a random generator: {error}", member="random_state"
        ) from error


def _new(stored: Mapping[str, Any]) -> Any:
    kind = stored["kind"]
    if kind not in _kinds():
        raise ValueError(f"there is no generator of the kind {kind!r:.40}")
    if kind == _TORCH:
        made = torch_random.new_generator(stored["device"])
        torch_random.put_state(made, stored["state"])
        return made
    if kind == "Random":
        made = random.Random()
        version, words, gauss = stored["state"]
        made.setstate((version, tuple(words), gauss))
        return made
    seeds = None
    if stored["seeds"] is not None:
        described = stored["seeds"]
        seeds = _SEED_SEQUENCE(
            described["entropy"],
            spawn_key=described["spawn_key"],
            pool_size=described["pool_size"],
            n_children_spawned=described["spawned"],
        )
    if kind == "SeedSequence":
        return seeds
    state = checked(from_json(stored["state"]))
    source = getattr(np.random, state["bit_generator"])(0 if seeds is None else seeds)
    if kind == "RandomState":
        generator = np.random.RandomState(source)
        generator.set_state(state)
        return generator
    source.state = state
    return np.random.Generator(source) if kind == "Generator" else source
