"""Runs in processes of their own, on the streams of a module; for tests of real libraries."""

import importlib.util
import json
import os
import pickle
import subprocess
import sys

import pytest

PROGRAM = os.path.join(os.path.dirname(__file__), os.pardir, "programs", "stream_server.py")
KILLED = -9
#: Compiling is not what is tested here.
FLAGS = {"PYTENSOR_FLAGS": "mode=Mode,linker=py,optimizer=None"}


def needs(library):
    """Return the marks of a test module whose streams are of that library."""
    has_library = importlib.util.find_spec(library) is not None
    return [
        pytest.mark.skipif(not has_library, reason=f"needs {library}"),
        pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork"),
    ]


class StreamServer:
    """A process that imports everything once, and forks a process for each run.

    Parameters
    ----------
    module : str
        In ``support``; it has ``make_stream(kind)``.
    folder : pathlib.Path
    environment : str
        Variables.
    """

    def __init__(self, module, folder, **environment):
        self.module, self.folder = module, folder
        self._straight = {}
        self._process = subprocess.Popen(
            [sys.executable, PROGRAM, module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **FLAGS, **environment},
        )

    def run(self, begin, kind, path, fate=None):
        """Return how a run ended: its exit code, and what it came to."""
        result = str(self.folder / "result.pkl")
        order = {"begin": begin, "kind": kind, "path": str(path), "fate": fate, "result": result}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        if code:
            return code, None
        with open(result, "rb") as file:
            return code, pickle.load(file)

    def straight(self, kind):
        """Return what a run comes to that neither saves nor is interrupted."""
        if kind not in self._straight:
            self._straight[kind] = self.run("straight", kind, "")
        code, outcome = self._straight[kind]
        assert code == 0
        return outcome

    def close(self):
        self._process.stdin.close()
        assert self._process.wait() == 0
        self._process.stdout.close()


#: What is saved last is the state in mid-epoch; when the last batch of an epoch
#: is done; when an epoch is; and in mid-epoch again.
KILLS = [["before_batch", 2], ["after_epoch", 4], ["before_epoch", 8], ["before_batch", 10]]


def check_killed_again_and_again(server, kind, how, path, kills=KILLS):
    """Kill a run, go on in another process, kill that; and compare with one never killed."""
    begin = "start"
    for kill in kills:
        assert server.run(begin, kind, path, kill) == (KILLED, None)
        begin = how
    assert server.run(begin, kind, path) == (0, server.straight(kind))


def check_going_on_in_a_fresh_interpreter(server, kind, how, path, kill):
    """Kill a run, and go on in a process of another hash seed; nothing is left but the file."""
    assert server.run("start", kind, path, kill) == (KILLED, None)
    fresh = StreamServer(server.module, path.parent, PYTHONHASHSEED="12345")
    try:
        assert fresh.run(how, kind, path) == (0, server.straight(kind))
    finally:
        fresh.close()
