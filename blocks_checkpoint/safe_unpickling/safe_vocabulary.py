"""The vocabulary of values: containers, numbers, text, dates, arrays.

What a pickle may name is a table; what it may call is another one, of our own
functions. Nothing in it imports a module, calls a class of another library,
or sets an attribute.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..errors import HostileCheckpoint, RefusedClass
from . import array_values, plain_values, random_values
from .allowance import Allowance
from .array_values import PendingArray
from .plain_values import Name, PendingUUID
from .random_values import PendingGenerator
from .vocabulary import shortened

__all__ = ["SafeVocabulary", "canonical"]

_RENAMED = {"__builtin__": "builtins", "copy_reg": "copyreg"}

_RECONSTRUCTOR = Name("copyreg", "_reconstructor")
_NAMES = {
    **plain_values.NAMES,
    **array_values.NAMES,
    **random_values.NAMES,
    ("builtins", "object"): object,
    ("copyreg", "_reconstructor"): _RECONSTRUCTOR,
}
_MAKERS = {**plain_values.MAKERS, **array_values.MAKERS, **random_values.MAKERS}


def canonical(module: str) -> str:
    """Return today's name of a module that Python 2 or another NumPy named."""
    if module.startswith("numpy._core."):
        return "numpy.core." + module[len("numpy._core.") :]
    return _RENAMED.get(module, module)


class SafeVocabulary:
    """A :class:`~blocks_checkpoint.safe_unpickling.vocabulary.Vocabulary` of plain values.

    Attributes
    ----------
    allowance : Allowance
        What the pickles read with it may still spend, together.
    """

    replaced: tuple[type, ...] = (np.dtype, PendingArray, PendingGenerator, PendingUUID)

    def __init__(self) -> None:
        self.allowance = Allowance()

    def begin(self, size: int) -> None:
        """Allow as much work as a pickle of that many bytes may ask for."""
        self.allowance.grant(size)

    def find(self, module: str, name: str) -> Any:
        """Return what a name stands for, if it is one of the table."""
        try:
            return _NAMES[canonical(module), name]
        except KeyError:
            raise RefusedClass(module, name) from None

    def call(self, function: Any, args: tuple[Any, ...]) -> Any:
        """Call our function for that name."""
        maker = _MAKERS.get(function) if isinstance(function, (type, Name)) else None
        if maker is not None:
            return maker(args, self.allowance)
        if function is _RECONSTRUCTOR:
            return self.reconstruct(*args)
        raise HostileCheckpoint(
            f"the pickle calls {shortened(function)}, which is only a value here"
        )

    def new(self, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make an instance that gets its state afterwards."""
        if kwargs:
            raise HostileCheckpoint(f"the pickle makes a {shortened(cls)} with keywords")
        return self.call(cls, args)

    def reconstruct(self, cls: Any, base: Any, state: Any) -> Any:
        """Make an instance as protocols 0 and 1 write them."""
        if base is not object or state is not None:
            raise HostileCheckpoint(f"the pickle makes a {shortened(cls)} from a {shortened(base)}")
        return self.new(cls, (), {})

    def build(self, thing: Any, state: Any) -> Any:
        """Return the object that a pending one becomes."""
        if isinstance(thing, np.dtype):
            return array_values.dtype_with_state(thing, state, self.allowance)
        if isinstance(thing, PendingArray):
            return array_values.array_with_state(state, self.allowance)
        if isinstance(thing, PendingGenerator):
            return thing.with_state(state, self.allowance)
        if isinstance(thing, PendingUUID):
            return thing.with_state(state)
        if isinstance(thing, np.random.Generator) and state is None:
            return thing
        raise HostileCheckpoint(f"the pickle sets attributes of a {type(thing).__name__}")

    def extend(self, thing: Any, items: list[Any]) -> None:
        """Append to a deque."""
        if type(thing) is not deque:
            raise HostileCheckpoint(f"the pickle appends to a {type(thing).__name__}")
        thing.extend(items)

    def update(self, thing: Any, pairs: Iterable[tuple[Any, Any]]) -> None:
        """Set items of one of the dictionaries of :mod:`collections`."""
        if type(thing) not in (OrderedDict, defaultdict):
            raise HostileCheckpoint(f"the pickle sets items of a {type(thing).__name__}")
        thing.update(pairs)

    def add(self, thing: Any, items: list[Any]) -> None:
        """Refuse: sets are the machine's own."""
        raise HostileCheckpoint(f"the pickle adds to a {type(thing).__name__}")

    def key(self, key: Any) -> Any:
        """Return the key, if it is not one too many."""
        return self.allowance.key(key)

    def persistent(self, identity: Any) -> Any:
        """Refuse: logs have no persistent ids."""
        raise HostileCheckpoint(f"the pickle has the persistent id {shortened(identity)}")
