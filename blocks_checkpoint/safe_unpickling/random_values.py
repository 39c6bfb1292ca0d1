"""NumPy's random generators in a pickle, rebuilt from checked states.

A generator believes its state: a position behind the end of its table makes
it draw from memory that is not its own. The states are checked here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .allowance import Allowance
from .plain_values import Maker, Name
from .vocabulary import shortened

__all__ = ["MAKERS", "NAMES", "PendingGenerator", "checked"]

_BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
#: A seed is mixed at the speed of Python.
MAX_SEED_NUMBERS = 1000
_MT_WORDS = 624
_PHILOX_WORDS = 4


class PendingGenerator:
    """A generator that has not been given its state yet.

    Parameters
    ----------
    kind : {'bit generator', 'Generator', 'RandomState', 'SeedSequence'}
    bits : object
        Name of the bit generator, or the bit generator itself.
    """

    __slots__ = ("_bits", "_kind")

    def __init__(self, kind: str, bits: Any = "MT19937") -> None:
        self._kind = kind
        self._bits = bits

    def with_state(self, state: Any, allowance: Allowance) -> Any:
        """Return the generator itself."""
        if self._kind == "SeedSequence":
            return _seed_sequence(state, allowance)
        if self._kind == "RandomState":
            return _random_state(self._bits, state)
        # Since NumPy 1.24 or so, the state comes with the seed.
        state, seed = state if type(state) is tuple else (state, None)
        if self._kind == "Generator":
            return np.random.Generator(_bit_generator(self._bits, state, seed))
        return _bit_generator(self._bits, state, seed)


def _bit_generator(name: Any, state: Any, seed: Any = None) -> Any:
    if type(name) is not str or name not in _CLASSES:
        raise TypeError(f"this NumPy has no bit generator {shortened(name)}")
    generator = _CLASSES[name](seed if isinstance(seed, np.random.SeedSequence) else 0)
    generator.state = checked(state)
    return generator


def checked(state: Any) -> dict[str, Any]:
    """Return the state of a bit generator, or raise an error if it is not one."""
    if type(state) is not dict:
        raise TypeError("the state of a generator is no dictionary")
    kind, words = state["bit_generator"], state["state"]
    if kind == "MT19937":
        key, position = words["key"], words["pos"]
        _check_words(key, _MT_WORDS, "uint32")
        _check_position(position, _MT_WORDS)
    elif kind == "Philox":
        _check_words(state["buffer"], _PHILOX_WORDS, "uint64")
        _check_words(words["counter"], _PHILOX_WORDS, "uint64")
        _check_words(words["key"], _PHILOX_WORDS // 2, "uint64")
        _check_position(state["buffer_pos"], _PHILOX_WORDS)
    elif kind == "SFC64":
        _check_words(words["state"], 4, "uint64")
    elif kind not in _BIT_GENERATORS:
        raise ValueError(f"the bit generator {shortened(kind)} is unknown")
    checked: dict[str, Any] = state
    return checked


def _check_words(words: Any, count: int, dtype: str) -> None:
    if type(words) is not np.ndarray or words.shape != (count,) or words.dtype != dtype:
        raise ValueError(f"the state of a generator is not {count} numbers of {dtype}")


def _check_position(position: Any, end: int) -> None:
    if type(position) is not int or not 0 <= position <= end:
        raise ValueError(f"the position in the state of a generator is {shortened(position)}")


def _random_state(bits: Any, state: Any) -> np.random.RandomState:
    if type(state) is tuple:
        # As before NumPy 1.17.
        kind, key, position, has_gauss, gauss = state
        words = {"key": key, "pos": position}
        state = {"bit_generator": kind, "state": words, "has_gauss": has_gauss, "gauss": gauss}
    state = checked(state)
    if state["bit_generator"] != "MT19937":
        raise ValueError("a RandomState of another bit generator than its own")
    if not isinstance(bits, np.random.MT19937):
        bits = np.random.MT19937(0)
    generator = np.random.RandomState(bits)
    generator.set_state(state)
    return generator


def _seed_sequence(state: Any, allowance: Allowance) -> np.random.SeedSequence:
    entropy, children, _, pool_size, spawn_key = state[:5]
    length = len(spawn_key) + (1 if type(entropy) is int else len(entropy))
    if length > MAX_SEED_NUMBERS:
        raise ValueError(f"a SeedSequence of {length} numbers; {MAX_SEED_NUMBERS} is the limit")
    allowance.spend(length)
    numbers = [*_flat(entropy), *spawn_key, children]
    if not all(type(n) is int and n >= 0 for n in numbers) or pool_size not in range(4, 1025):
        raise ValueError("a SeedSequence that is not made of numbers")
    return np.random.SeedSequence(
        entropy, spawn_key=spawn_key, pool_size=pool_size, n_children_spawned=children
    )


def _flat(entropy: Any) -> list[Any]:
    if type(entropy) is np.ndarray:
        return list(entropy.ravel().tolist())
    return list(entropy) if type(entropy) in (list, tuple) else [entropy]


def _bit_generator_maker(args: tuple[Any, ...], allowance: Allowance) -> PendingGenerator:
    return PendingGenerator("bit generator", *args[:1])


def _generator_maker(args: tuple[Any, ...], allowance: Allowance) -> Any:
    bits: Any = args[0] if args else "MT19937"
    if type(bits) in _CLASSES.values():
        return np.random.Generator(bits)
    return PendingGenerator("Generator", bits)


def _random_state_maker(args: tuple[Any, ...], allowance: Allowance) -> PendingGenerator:
    return PendingGenerator("RandomState", *args[:1])


def _seed_sequence_maker(args: tuple[Any, ...], allowance: Allowance) -> PendingGenerator:
    return PendingGenerator("SeedSequence")


_CLASSES = {name: getattr(np.random, name) for name in _BIT_GENERATORS if hasattr(np.random, name)}
_BIT_GENERATOR_MAKER = Name("numpy.random", "bit generator")
_GENERATOR_MAKER = Name("numpy.random", "Generator")
_RANDOM_STATE_MAKER = Name("numpy.random", "RandomState")
_SEED_SEQUENCE_MAKER = Name("numpy.random", "SeedSequence")

#: What a pickle may name, by module and name.
NAMES: dict[tuple[str, str], Any] = {
    ("numpy.random._pickle", "__bit_generator_ctor"): _BIT_GENERATOR_MAKER,
    ("numpy.random._pickle", "__generator_ctor"): _GENERATOR_MAKER,
    ("numpy.random._pickle", "__randomstate_ctor"): _RANDOM_STATE_MAKER,
    ("numpy.random", "__RandomState_ctor"): _RANDOM_STATE_MAKER,
    ("numpy.random.bit_generator", "__pyx_unpickle_SeedSequence"): _SEED_SEQUENCE_MAKER,
    # Only ever an argument of the maker above.
    ("numpy.random.bit_generator", "SeedSequence"): "SeedSequence",
    **{
        (f"numpy.random.{module}", name): name
        for module, names in {
            "_mt19937": ["MT19937"],
            "_pcg64": ["PCG64", "PCG64DXSM"],
            "_philox": ["Philox"],
            "_sfc64": ["SFC64"],
        }.items()
        for name in names
    },
}

#: What may be called, and what is called in its place.
MAKERS: dict[Any, Maker] = {
    _BIT_GENERATOR_MAKER: _bit_generator_maker,
    _GENERATOR_MAKER: _generator_maker,
    _RANDOM_STATE_MAKER: _random_state_maker,
    _SEED_SEQUENCE_MAKER: _seed_sequence_maker,
}
