"""What several test modules share."""

import json
import os
import subprocess
import sys

import numpy
import pytest

from blocks_checkpoint.archive import ArchiveWriter
from blocks_checkpoint.engines import current

# Main loops that tests make are of classes that other processes can import, too.
SUPPORT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "support")
sys.path.insert(0, SUPPORT)
# Child processes run in other folders, where a relative entry means another.
entries = [SUPPORT, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
os.environ["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, entries))


@pytest.fixture(scope="session")
def engine_name():
    """Name of the engine that the tests build graphs with."""
    return current().name


@pytest.fixture
def path(tmp_path):
    """Where a run is to be saved."""
    return str(tmp_path / "run.zip")


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


@pytest.fixture(scope="module")
def server(request, tmp_path_factory):
    """A server of runs on the streams of a module of ``support``, the test module's STREAMS."""
    from stream_runs import StreamServer

    made = StreamServer(request.module.STREAMS, tmp_path_factory.mktemp("runs"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def write_checkpoint():
    """Return a function that writes a small checkpoint with the manifest entries given.

    It has one array of a thousand random numbers and no pickles, and returns
    its path.
    """

    def write(path, *, iteration=None, epoch=0, **manifest):
        status = {} if iteration is None else {"iterations_done": iteration, "epochs_done": epoch}
        manifest = {"format": "blocks_checkpoint", "format_version": 1, "status": status} | manifest
        with open(path, "wb") as file, ArchiveWriter(file) as archive:
            archive.add_array("W.npy", numpy.random.default_rng(0).normal(size=1000))
            archive.add_bytes("checkpoint.json", json.dumps(manifest).encode())
        return path

    return write
