"""What a shared variable is, per symbolic engine.

PyTensor, Aesara and Theano are one family: a *shared variable* is a graph
node with a ``container`` whose ``storage[0]`` is its present value. This is
the only module that knows the engines by name. Two groups of functions:

- on objects (:func:`is_shared`, :func:`stored_value`, ...): look only at
  engines that the process has imported already, and import none;
- :func:`current`: the engine that *miniblocks* builds graphs with; imports it.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import os
import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from .errors import EngineError

__all__ = [
    "ENGINES",
    "Engine",
    "creation_number",
    "current",
    "identity",
    "is_shared",
    "loaded_versions",
    "shared_variable_types",
    "stored_value",
]

#: In the order of preference.
ENGINES = ("pytensor", "theano", "aesara")

#: Environment variable that names the engine to use.
ENGINE_VARIABLE = "BLOCKS_CHECKPOINT_ENGINE"


@dataclass(frozen=True)
class Engine:
    """The few names that this package needs of an engine.

    Attributes
    ----------
    name : str
        One of :data:`ENGINES`.
    module : module
        ``pytensor``, ``theano`` or ``aesara``.
    tensor : module
        Its ``tensor`` submodule.
    """

    name: str
    module: ModuleType
    tensor: ModuleType

    @property
    def version(self) -> str:
        """Version of the engine."""
        return str(self.module.__version__)

    @property
    def floatX(self) -> str:  # noqa: N802 - the engines' own spelling
        """Name of the default floating point type, e.g. ``'float64'``."""
        return str(self.module.config.floatX)

    def function(self, *args: Any, **kwargs: Any) -> Any:
        """Compile a function of the graph."""
        return self.module.function(*args, **kwargs)

    def shared(self, value: Any, **kwargs: Any) -> Any:
        """Make a shared variable."""
        return self.module.shared(value, **kwargs)

    def grad(self, cost: Any, wrt: Any) -> Any:
        """Gradient of a scalar ``cost`` with respect to ``wrt``."""
        return self.tensor.grad(cost, wrt)

    def ancestors(self, outputs: Iterable[Any]) -> list[Any]:
        """Every variable that ``outputs`` are computed from, them included."""
        return list(_graph_module(self.name, "traversal").ancestors(list(outputs)))

    def clone_replace(self, outputs: list[Any], replacements: dict[Any, Any]) -> list[Any]:
        """Copy a graph, with some of its variables replaced."""
        if self.name == "theano":
            # Theano calls it clone; ``share_inputs`` keeps shared variables.
            return list(self.module.clone(outputs, replacements, share_inputs=True))
        return list(_graph_module(self.name, "replace").clone_replace(outputs, replacements))

    def random_stream(self, seed: int) -> Any:
        """Make the engine's stream of symbolic random variables."""
        if self.name == "theano":
            streams = importlib.import_module("theano.tensor.shared_randomstreams")
            return streams.RandomStreams(seed)
        utils = importlib.import_module(f"{self.name}.tensor.random.utils")
        with warnings.catch_warnings():
            # What PyTensor has in its place begins with version 3.
            warnings.simplefilter("ignore", FutureWarning)
            return utils.RandomStream(seed)


def _graph_module(name: str, part: str) -> ModuleType:
    if name == "theano":
        return importlib.import_module("theano.gof.graph")
    try:
        return importlib.import_module(f"{name}.graph.{part}")
    except ImportError:
        # Aesara, and older releases of PyTensor, keep all of it in ``basic``.
        return importlib.import_module(f"{name}.graph.basic")


def current() -> Engine:
    """Return the engine to build graphs with, importing it if need be.

    The environment variable ``BLOCKS_CHECKPOINT_ENGINE`` decides; without it,
    an engine that the process already uses; without one, the first of
    :data:`ENGINES` that is installed.

    Returns
    -------
    Engine

    Raises
    ------
    EngineError
        None is installed, or the one asked for cannot be imported.
    """
    chosen = os.environ.get(ENGINE_VARIABLE)
    if chosen and chosen not in ENGINES:
        raise EngineError(
            f"{ENGINE_VARIABLE} is {chosen!r}; the engines known are {', '.join(ENGINES)}"
        )
    candidates = [chosen] if chosen else [name for name in ENGINES if name in sys.modules]
    candidates = candidates or [name for name in ENGINES if importlib.util.find_spec(name)]
    if not candidates:
        raise EngineError(
            "no symbolic engine is installed. Install one of them: "
            "pip install 'blocks_checkpoint[pytensor]' (or [theano], on Python 3.9)"
        )
    name = candidates[0]
    try:
        module = importlib.import_module(name)
        tensor = importlib.import_module(f"{name}.tensor")
    except ImportError as error:
        raise EngineError(
            f"the engine {name} is asked for and cannot be imported: {error}"
        ) from error
    return Engine(name, module, tensor)


def shared_variable_types() -> dict[type, str]:
    """Map each class of shared variables in this process to its engine's name.

    Subclasses are included. Engines that are not imported have no variables,
    and are not imported to find that out.
    """
    found: dict[type, str] = {}
    for name in ENGINES:
        # ``sys.modules`` rather than an attribute of the engine: a process
        # may be in the middle of importing it.
        module = sys.modules.get(f"{name}.compile.sharedvalue")
        base = getattr(module, "SharedVariable", None)
        stack = [base] if isinstance(base, type) else []
        while stack:
            cls = stack.pop()
            if cls not in found:
                found[cls] = name
                stack.extend(cls.__subclasses__())
    return found


def is_shared(thing: Any) -> bool:
    """Tell whether ``thing`` is a shared variable of a loaded engine."""
    return isinstance(thing, tuple(shared_variable_types()))


def stored_value(variable: Any) -> Any:
    """Return the object that holds a shared variable's value, not a copy."""
    return variable.container.storage[0]


def identity(variable: Any) -> int:
    """Return a number that two handles of one shared variable have in common.

    Theano copies the graph that it compiles, shared variables included. Such
    a copy is another object around the same container: setting the one sets
    the other.
    """
    return id(getattr(variable, "container", variable))


def creation_number(variable: Any) -> int:
    """Return a number that is the larger, the later a variable was made.

    Of a script that runs again, the variables come in the same order. That in
    which a graph's sets and dictionaries have them depends on addresses.
    """
    digits = str(getattr(variable, "auto_name", None)).rpartition("_")[2]
    return int(digits) if digits.isdecimal() else sys.maxsize


def variables_made() -> int:
    """Return how many variables the engines of this process have made, at least."""
    return max(map(_next_number, _variable_classes()), default=0)


def count_from(made: int) -> None:
    """Let variables made from now on have larger creation numbers than this many."""
    for cls in _variable_classes():
        if _next_number(cls) < made:
            cls.__count__ = itertools.count(made)


def _next_number(variable_class: Any) -> int:
    # A counter that is asked for its next number has counted; its text has not.
    digits = repr(getattr(variable_class, "__count__", None))[len("count(") : -1]
    return int(digits) if digits.isdecimal() else 0


def _variable_classes() -> list[Any]:
    modules = [_graph_module(name, "basic") for name in ENGINES if name in sys.modules]
    return [module.Variable for module in modules]


def loaded_versions() -> dict[str, str]:
    """Map the name of each engine in this process to its version."""
    return {
        name: str(getattr(sys.modules[name], "__version__", "unknown"))
        for name in ENGINES
        if name in sys.modules
    }
