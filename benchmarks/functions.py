"""Compiled functions in a checkpoint: loading them against building them anew.

    python benchmarks/functions.py [--json] [--turns N]

Each turn is a fresh process with warm compile caches, timed from after the
imports to the first result of the function. *Building* makes graph, gradients
and function; *loading* reads a checkpoint that holds the function.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Ratio, add_turns, show

from blocks_checkpoint.engines import current

WIDTH = 32


def deep_network(layers: int = 30) -> Any:
    """A training function of so many tanh layers."""
    engine = current()
    tensor = engine.tensor
    x = tensor.matrix("x")
    rng = np.random.RandomState(1)
    weights = [
        engine.shared(rng.randn(WIDTH, WIDTH).astype(engine.floatX) / WIDTH, name=f"W{number}")
        for number in range(layers)
    ]
    hidden = x
    for weight in weights:
        hidden = tensor.tanh(tensor.dot(hidden, weight))
    return _training_function(engine, (hidden**2).sum(), weights, x)


def recurrent_network() -> Any:
    """A training function of a recurrent network, made with scan."""
    engine = current()
    tensor = engine.tensor
    x = tensor.matrix("x")
    rng = np.random.RandomState(1)
    weights = [
        engine.shared(rng.randn(WIDTH, WIDTH).astype(engine.floatX) / WIDTH, name=name)
        for name in ("W_in", "W_state")
    ]

    def step(row: Any, state: Any, w_in: Any, w_state: Any) -> Any:
        return tensor.tanh(tensor.dot(row, w_in) + tensor.dot(state, w_state))

    initial = tensor.zeros((WIDTH,), dtype=engine.floatX)
    states = engine.module.scan(step, sequences=[x], outputs_info=[initial], non_sequences=weights)
    # Newer engines give the outputs alone; older ones a pair with the updates.
    states = states[0] if isinstance(states, (tuple, list)) else states
    return _training_function(engine, (states[-1] ** 2).sum(), weights, x)


def _training_function(engine: Any, cost: Any, weights: list[Any], x: Any) -> Any:
    updates = [(w, w - 0.01 * g) for w, g in zip(weights, engine.grad(cost, weights))]
    return engine.function([x], cost, updates=updates)


MODELS = {"30 layers": deep_network, "recurrent (scan)": recurrent_network}


def run_once(model: str, way: str, path: str) -> float:
    """Time one turn, in a process of its own."""
    from blocks_checkpoint import dump, load

    engine = current()
    batch = np.zeros((5, WIDTH), dtype=engine.floatX)
    engine.function([], engine.tensor.zeros((1,)))()
    start = time.perf_counter()
    function = load(path) if way == "load" else MODELS[model]()
    function(batch)
    elapsed = time.perf_counter() - start
    if way == "save":
        dump(function, path)
    return elapsed


def measure(turns: int) -> list[Ratio]:
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for model in MODELS:
            path = str(Path(folder) / "function.zip")
            for warm in ("save", "load"):
                _in_process(model, warm, path)
            pairs = [
                (_in_process(model, "load", path), _in_process(model, "build", path))
                for _ in range(turns)
            ]
            ratios = [mine / other for mine, other in pairs]
            low, _, high = statistics.quantiles(ratios, n=4)
            results.append(
                Ratio(
                    f"{model}: load",
                    f"build anew ({current().name})",
                    statistics.median(ratios),
                    low,
                    high,
                    statistics.median(other for _, other in pairs),
                    1.0,
                )
            )
    return results


def _in_process(model: str, way: str, path: str) -> float:
    result = subprocess.run(
        [sys.executable, __file__, "--once", model, way, path],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return float(json.loads(result.stdout.splitlines()[-1]))


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="for a program to read")
    add_turns(parser)
    parser.add_argument("--once", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.once:
        print(run_once(*options.once))
        return
    show("Compiled functions", measure(options.turns), as_json=options.json)


if __name__ == "__main__":
    main()
