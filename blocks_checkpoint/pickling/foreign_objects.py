"""Objects of other libraries whose own way of being pickled loses something.

NumPy's generators pickle in a different way in each release: older ones forget
the seed sequence, and that two generators draw from one source. The global
generators would come back as copies. Theano puts functions into its graphs that
cannot be pickled, and first elements of shared variables that should not.
"""

from __future__ import annotations

import copy
import importlib
import pickle
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.random import bit_generator as bit_generators
from numpy.random import mtrand

from ..errors import LoadError
from . import torch_random

__all__ = ["foreign_reducers"]

Reducer = Callable[[Any], Any]

_FORTRAN_MODULES = ("scipy.linalg.blas", "scipy.linalg.lapack")


def foreign_reducers(protocol: int, *, by_reference: bool) -> Iterator[tuple[type, Reducer]]:
    """List how objects of these classes are pickled.

    Parameters
    ----------
    protocol : int
    by_reference : bool
        Whether the global generators are referred to by name. Their state
        then has to be saved and restored apart.

    Yields
    ------
    type, callable
        For a dispatch table.
    """
    yield from _fortran_reducers()
    yield from _scalar_reducers(protocol)
    yield bit_generators.SeedSequence, _reduce_seed_sequence
    for name in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"):
        if hasattr(np.random, name):
            yield getattr(np.random, name), _by_name(_reduce_bit_generator, by_reference)
    yield np.random.Generator, _reduce_generator
    yield np.random.RandomState, _by_name(_reduce_random_state, by_reference)
    if by_reference:
        classes = [random.Random, torch_random.generator_class()]
        for cls in filter(None, classes):
            yield cls, _by_name(lambda thing: thing.__reduce_ex__(protocol), by_reference)


def _by_name(reduce: Reducer, by_reference: bool) -> Reducer:
    def reduce_global(thing: Any) -> Any:
        names = ["random", "numpy.random", "numpy.random.bit_generator"]
        if torch_random.default_generator() is not None:
            names.append("torch")
        for name in names:
            if thing is global_generator(name):
                return global_generator, (name,)
        return reduce(thing)

    return reduce_global if by_reference else reduce


def global_generator(name: str) -> Any:
    """Return a generator that the functions of a module use."""
    if name == "random":
        return random._inst
    if name == "numpy.random":
        return mtrand._rand
    if name == "numpy.random.bit_generator":
        return mtrand._rand._bit_generator
    if name == "torch":
        return importlib.import_module(name).default_generator
    raise LoadError(f"there is no global generator {name!r:.60}")


def _reduce_seed_sequence(seeds: Any) -> Any:
    fields = (seeds.entropy, seeds.spawn_key, seeds.pool_size, seeds.n_children_spawned)
    return seed_sequence, fields


def seed_sequence(entropy: Any, spawn_key: Any, pool_size: int, spawned: int) -> Any:
    """Make a seed sequence that has spawned a number of children."""
    return np.random.SeedSequence(
        entropy, spawn_key=spawn_key, pool_size=pool_size, n_children_spawned=spawned
    )


def _reduce_bit_generator(source: Any) -> Any:
    return bit_generator, (type(source), source.state, source._seed_seq)


def bit_generator(cls: type, state: Any, seeds: Any) -> Any:
    """Make a bit generator of that state, with the seed sequence it had."""
    source = cls(0 if seeds is None else seeds)
    source.state = state
    return source


def _reduce_generator(generator: Any) -> Any:
    return np.random.Generator, (generator.bit_generator,)


def _reduce_random_state(generator: Any) -> Any:
    # It keeps half of a pair of normal deviates; the rest is in its source.
    return np.random.RandomState, (generator._bit_generator,), generator.get_state(legacy=False)


def _scalar_reducers(protocol: int) -> Iterator[tuple[type, Reducer]]:
    # Theano fuses operations and tries the result on the first element of
    # each input. Of a learning rate, that is all there is.
    def reduce_scalar(variable: Any) -> Any:
        reduced = variable.__reduce_ex__(protocol)
        state = reduced[2] if len(reduced) > 2 else None
        if isinstance(state, dict) and hasattr(state.get("tag"), "test_value"):
            tag = copy.copy(state["tag"])
            del tag.test_value
            reduced = (*reduced[:2], {**state, "tag": tag}, *reduced[3:])
        return reduced

    for engine in ("theano", "aesara"):
        cls = getattr(sys.modules.get(f"{engine}.scalar.basic"), "ScalarVariable", None)
        if isinstance(cls, type):
            yield cls, reduce_scalar


def _fortran_reducers() -> Iterator[tuple[type, Reducer]]:
    # Theano 1.0.5 beside a newer SciPy leaves BLAS functions in its graphs.
    # They are attributes of an extension module, of a type that knows nothing
    # of pickling.
    for module_name in _FORTRAN_MODULES:
        for name in ("dgemm", "dgetrf"):
            cls = type(getattr(sys.modules.get(module_name), name, None))
            if cls.__name__ == "fortran":
                yield cls, _reduce_fortran


def _reduce_fortran(function: Any) -> Any:
    for module_name in _FORTRAN_MODULES:
        for name, value in vars(sys.modules.get(module_name, sys)).items():
            if value is function:
                return fortran_function, (module_name, name)
    raise pickle.PicklingError(
        f"the Fortran function {getattr(function, '__name__', function)!r} is in none of "
        + ", ".join(_FORTRAN_MODULES)
    )


def fortran_function(module_name: str, name: str) -> Any:
    """Find a function of SciPy's wrappers of BLAS and LAPACK again."""
    if module_name not in _FORTRAN_MODULES:
        raise LoadError(f"{module_name} is not a module of Fortran functions")
    return getattr(importlib.import_module(module_name), name)
