"""A run that was interrupted equals one that was not, bit for bit."""

import importlib.util
import json
import os
import pickle
import random
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")

HERE = os.path.dirname(os.path.abspath(__file__))
BATCHES_PER_EPOCH, EPOCHS = 5, 3
BATCHES = BATCHES_PER_EPOCH * EPOCHS
#: Compiling is not what is tested here.
FLAGS = {
    "PYTENSOR_FLAGS": "mode=Mode,linker=py,optimizer=None",
    "THEANO_FLAGS": "linker=py,optimizer=None",
}
FINISHED, BROKEN, INTERRUPTED, KILLED = 0, 2, 3, -9
#: How a process may end, by what happens to it.
ENDINGS = {
    "error": {BROKEN},
    "kill": {KILLED},
    "interrupt": {INTERRUPTED, FINISHED},
    "interrupt-twice": {INTERRUPTED, FINISHED},
    "terminate": {INTERRUPTED, FINISHED},
}
#: Where an error can come that is saved: extensions behind one that fails after
#: a batch never hear of that batch.
IN_A_BATCH = ("before_batch", "process_batch")
EVENTS = ("before_epoch", "before_batch", "process_batch", "after_batch", "after_epoch")


class Server:
    """A process that imports everything once, and forks a process for each run."""

    def __init__(self, *, is_blocks=False, flags=FLAGS, **environment):
        self.is_blocks = is_blocks
        environment["MAIN_LOOP_OF"] = "blocks" if is_blocks else "blocks_checkpoint.miniblocks"
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "programs", "thorough_server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **flags, **environment},
        )

    def run(self, **order):
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        assert self.process.wait() == 0
        self.process.stdout.close()


HAS_BLOCKS = all(importlib.util.find_spec(name) for name in ("blocks", "fuel"))


@pytest.fixture(
    scope="module",
    params=[
        "miniblocks",
        pytest.param(
            "blocks",
            marks=[
                pytest.mark.blocks,
                pytest.mark.skipif(not HAS_BLOCKS, reason="needs Blocks and Fuel"),
            ],
        ),
    ],
)
def server(request):
    made = Server(is_blocks=request.param == "blocks")
    yield made
    made.close()


@pytest.fixture
def compiling():
    made = Server(flags={})
    yield made
    made.close()


class Run:
    """One training run, in as many processes as it takes.

    Parameters
    ----------
    server : Server
    folder : pathlib.Path
    loop : dict
        Arguments of ``make_main_loop``.
    triggers : list of dict
        Of each ``Checkpoint``.
    """

    def __init__(self, server, folder, loop, triggers):
        self._server = server
        folder.mkdir()
        self._paths = [str(folder / f"saver-{number}.zip") for number in range(len(triggers))]
        self._result = folder / "result.pkl"
        self.saves_errors = any(each.get("on_error") for each in triggers)
        self._order = {
            "loop": {**loop, "folder": str(folder.parent)},
            "savers": list(zip(self._paths, triggers)),
            "result": str(self._result),
        }

    def sources(self):
        """List the files to go on from."""
        return [path for path in self._paths if os.path.exists(path)]

    def begin(self, *fate):
        return self._server.run(begin="start", fate=fate, **self._order)

    def go_on(self, how, source, *fate):
        return self._server.run(begin=how, source=source, fate=fate, **self._order)

    def move_to(self, server):
        self._server = server

    def result(self):
        return pickle.loads(self._result.read_bytes())


def assert_equal(result, expected):
    """Compare two runs, and say where they differ first."""
    for kind, other in expected.items():
        mine = result[kind]
        assert mine.keys() == other.keys(), kind
        for key in other:
            assert mine[key] == other[key], (kind, key)


@pytest.fixture(scope="module")
def straight(server, tmp_path_factory):
    """Return a function that returns what a run that is never interrupted comes to."""
    folder = tmp_path_factory.mktemp("straight")
    results = {}

    def result_of(loop):
        key = json.dumps(loop)
        if key not in results:
            run = Run(server, folder / str(len(results)), loop, [{"after_epoch": False}])
            assert run.begin() == FINISHED
            results[key] = run.result()
        return results[key]

    return result_of


def interrupted_at_random(run, choices, ways, interruptions, tell):
    """Interrupt a run again and again, and go on, until it has come to its end."""
    code = None
    for number in range(interruptions + 1):
        sources = run.sources()
        source = choices.choice(sources) if sources else None
        how = choices.choice(ways) if sources else "start"
        action = choices.choice(sorted(ENDINGS))
        event = choices.choice(IN_A_BATCH if action == "error" and run.saves_errors else EVENTS)
        time = choices.randrange(BATCHES)
        if event.endswith("epoch"):
            time = time // BATCHES_PER_EPOCH * BATCHES_PER_EPOCH
        fate = [[event, time, action]] if number < interruptions else []
        tell(how, os.path.basename(source or ""), *fate)
        code = run.begin(*fate) if source is None else run.go_on(how, source, *fate)
        assert code in {FINISHED, *ENDINGS[action]}
    assert code == FINISHED


LOOPS = [
    {"rule": rule, "stream": stream}
    for rule, stream in [
        ("scale", "sequential"),
        ("momentum", "shuffled"),
        ("adam", "hdf5"),
        ("adam", "examples"),
        ("momentum", "hdf5"),
        ("scale", "shuffled"),
    ]
]
SAVERS = [
    [{"every_n_batches": 2}, {"every_n_epochs": 1}],
    [{}, {"every_n_batches": 3}],
    [{"after_batch": True}, {"every_n_batches": 4}],
    [{"every_n_batches": 3, "before_epoch": True}, {"before_training": True}],
    [{"before_batch": True}, {"every_n_epochs": 2}],
    [{"every_n_batches": 4, "on_error": True}, {"before_training": True, "before_batch": True}],
]


def check(server, straight, tmp_path, seed, ways, interruptions=3, **options):
    """Interrupt a run at random, and compare it with one that is not."""
    choices = random.Random(seed)
    loop = LOOPS[seed % len(LOOPS)] | options
    savers = choices.choice(SAVERS)
    # Shown if the test fails.
    print(f"seed {seed}: {loop}, {savers}")
    run = Run(server, tmp_path / "run", loop, savers)
    interrupted_at_random(run, choices, ways, interruptions, print)
    assert_equal(run.result(), straight(loop))


@pytest.mark.parametrize("seed", range(6))
def test_run_that_is_continued_from_its_file_equals_one_never_interrupted(
    server, straight, tmp_path, seed
):
    check(server, straight, tmp_path, seed, ["continue"])


@pytest.mark.parametrize("seed", range(6, 12))
def test_run_that_is_resumed_in_new_main_loops_equals_one_never_interrupted(
    server, straight, tmp_path, seed
):
    check(server, straight, tmp_path, seed, ["resume"])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_run_that_is_interrupted_often_equals_one_never_interrupted(
    server, straight, tmp_path, seed
):
    check(server, straight, tmp_path, seed, ["continue", "resume"], interruptions=8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 206))
def test_run_of_compiled_functions_equals_one_never_interrupted(compiling, tmp_path, seed):
    """As the engine compiles by default."""

    def straight(loop):
        run = Run(compiling, tmp_path / "straight", loop, [{"after_epoch": False}])
        assert run.begin() == FINISHED
        return run.result()

    check(compiling, straight, tmp_path, seed, ["continue", "resume"], mode=None)


@pytest.mark.parametrize("loop", LOOPS[2:4], ids=lambda loop: "-".join(loop.values()))
def test_run_that_saves_after_every_batch_equals_one_that_does_not(
    server, straight, tmp_path, loop
):
    triggers = dict.fromkeys(
        ["before_training", "before_epoch", "before_batch", "after_batch"], True
    )
    run = Run(server, tmp_path / "run", loop, [triggers, {"every_n_batches": 1}])
    assert run.begin() == FINISHED
    assert_equal(run.result(), straight(loop))


@pytest.mark.parametrize("how", ["continue", "resume"])
def test_run_that_goes_on_in_a_fresh_interpreter_equals_one_never_interrupted(
    server, straight, tmp_path, how
):
    """Of another hash seed; nothing is left of the first but the file."""
    loop = LOOPS[1]
    run = Run(server, tmp_path / "run", loop, [{"every_n_batches": 2}])
    assert run.begin(["before_batch", 7, "kill"]) == KILLED
    fresh = Server(is_blocks=server.is_blocks, PYTHONHASHSEED="12345")
    try:
        run.move_to(fresh)
        assert run.go_on(how, run.sources()[0]) == FINISHED
    finally:
        fresh.close()
    assert_equal(run.result(), straight(loop))
