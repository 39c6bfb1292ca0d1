"""The streams of docs/resuming are exact, copied from the page as they stand."""

import importlib.util
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy
import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "resuming.rst"
PROGRAM = ROOT / "tests" / "programs" / "page_stream.py"
BLOCK = re.compile(
    r"^\.\. code-block:: python\n   :caption: (?P<name>\w+)\.py\n\n(?P<code>(?:(?:   .*)?\n)+)",
    re.MULTILINE,
)
NEEDED = {"torch_stream": "torchdata", "grain_stream": "grain", "own_stream": "numpy"}


def blocks():
    text = PAGE.read_text(encoding="utf-8")
    return {match["name"]: textwrap.dedent(match["code"]) for match in BLOCK.finditer(text)}


def train(folder, *arguments, code=0):
    """Run the program, and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(PROGRAM), *map(str, arguments)],
        cwd=str(folder),
        env={**os.environ, "PYTHONPATH": os.environ["PYTHONPATH"] + os.pathsep + str(folder)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stdout


def test_page_has_these_streams():
    assert blocks().keys() == NEEDED.keys()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs signals that kill")
@pytest.mark.parametrize("module", NEEDED)
def test_stream_of_the_page_goes_on_exactly(tmp_path, module):
    if importlib.util.find_spec(NEEDED[module]) is None:
        pytest.skip(f"needs {NEEDED[module]}")
    (tmp_path / f"{module}.py").write_text(blocks()[module], encoding="utf-8")
    numpy.random.default_rng(1).normal(size=300).tofile(tmp_path / "numbers.bin")
    expected = train(tmp_path, module, "straight")
    for how in ("continue", "resume"):
        train(tmp_path, module, "until", 13, code=-9)
        assert train(tmp_path, module, how) == expected
