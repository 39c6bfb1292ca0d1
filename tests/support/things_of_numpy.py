"""Things of NumPy that pickle in another way in each release of it.

``python things_of_numpy.py FOLDER`` saves them as ``FOLDER/numpy-VERSION.zip``,
and what is drawn from them as ``FOLDER/expected.json``.
"""

import json
import sys
from pathlib import Path

import numpy as np


def made():
    """Return generators and values, the same in every release."""
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence(3)))
    old = np.random.RandomState(4)
    old.normal()
    seeds = np.random.SeedSequence(5)
    return {
        "generator": generator,
        "old": old,
        "seeds": seeds,
        "child": np.random.Generator(np.random.PCG64(seeds.spawn(1)[0])),
        "array": np.arange(3.0),
        "number": np.float32(0.5),
        "objects": np.array([1, "a", None], dtype=object),
        "dates": np.array(["2020-01-01"], "M8[D]"),
        "structured": np.zeros(2, [("a", "i4"), ("b", "S2")]),
        "masked": np.ma.masked_equal([1, 2], 2),
        "large": np.arange(8_200.0),
    }


def drawn(things):
    """Return numbers and texts that follow from them."""
    values = [repr(value.tolist()) for value in things.values() if hasattr(value, "tolist")]
    return [
        *things["generator"].integers(100, size=3).tolist(),
        *things["old"].normal(size=3).tolist(),
        *things["seeds"].spawn(1)[0].generate_state(2).tolist(),
        *things["child"].integers(100, size=3).tolist(),
        *(text if len(text) < 100 else abridged(text) for text in values),
    ]


def abridged(text):
    """Return a short text for a long one."""
    return f"{len(text)} {text[:20]} {text[-20:]}"


if __name__ == "__main__":
    from blocks_checkpoint import dump

    folder = Path(sys.argv[1])
    dump(made(), folder / f"numpy-{np.__version__}.zip")
    (folder / "expected.json").write_text(json.dumps(drawn(made())) + "\n")
