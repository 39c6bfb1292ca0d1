"""What several test modules share."""

import os
import subprocess
import sys

import pytest

from blocks_checkpoint.engines import current

# Child processes run in other folders, where a relative entry means another.
if "PYTHONPATH" in os.environ:
    entries = os.environ["PYTHONPATH"].split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, entries))


@pytest.fixture(scope="session")
def engine_name():
    """Name of the engine that the tests build graphs with."""
    return current().name


@pytest.fixture(scope="session")
def run_program():
    """Return a function that runs a script in a fresh process.

    It returns the process, completed; a script that fails, or warns, fails
    the test.
    """

    def run(script, *arguments, cwd, may_warn=False):
        command = [sys.executable, str(script), *map(str, arguments)]
        done = subprocess.run(
            command, cwd=str(cwd), capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, f"{command} failed:\n{done.stdout}\n{done.stderr}"
        assert may_warn or "Warning" not in done.stderr, done.stderr
        return done

    return run
