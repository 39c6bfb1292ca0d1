"""Imported by tests in Blocks' own main loop, before anything of Blocks: skips them without it.

Blocks is not on the package index. With its sources and Fuel's on ``PYTHONPATH``::

    PYTHONPATH=blocks:fuel-0.2.0 python3.9 -m pytest tests/blocks
"""

import warnings

import pytest

with warnings.catch_warnings():
    # It is of another time, and so are Theano and Fuel.
    warnings.simplefilter("ignore")
    try:
        import blocks_loop  # noqa: F401 - what the tests import is imported by now
    except Exception as error:
        pytest.skip(f"Blocks does not work here: {error!r}", allow_module_level=True)

MARKS = [pytest.mark.blocks, pytest.mark.filterwarnings("ignore")]
