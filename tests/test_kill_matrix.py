"""A real training process is killed, again and again, and nothing is lost.

What is claimed of the file that is left is more than that it opens: its state
is, bit for bit, the one that the run had after the batch the file says it was
saved after; and going on from it leads to the states of a run that nobody
killed.
"""

import itertools
import json
import os
import random
import re
import subprocess
import sys

import pytest
from drifting import At, make_main_loop, values_of

from blocks_checkpoint import continue_training, load_main_loop, open_checkpoint
from blocks_checkpoint.commit import STEPS
from blocks_checkpoint.miniblocks.extensions import FinishAfter

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")

HERE = os.path.dirname(os.path.abspath(__file__))
PARTIAL = re.compile(r"\.run\.zip\.[0-9]+-[0-9a-f]{16}\.partial")
KILLED = -9
#: More than the runs here come to.
EPOCHS = 10_000
#: Calls of write in one save.
MAX_WRITES = 200
RANDOM_KILLS = 170
#: A run takes this long to go on from a file and to save a few times, roughly.
LONGEST_RUN_SECONDS = 0.2


class Trainer:
    """Runs training in processes that are killed, and looks at what they leave.

    Parameters
    ----------
    folder : pathlib.Path
    server : subprocess.Popen
    """

    def __init__(self, folder, server):
        self.path = folder / "run.zip"
        self._server = server

    def run(self, **order):
        """Train in a process until the order ends it; return its exit code."""
        line = json.dumps({"path": str(self.path), "epochs": EPOCHS, **order})
        self._server.stdin.write(f"{line}\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())

    def partial_files(self):
        """List what lies beside the file."""
        beside = sorted(set(os.listdir(self.path.parent)) - {"run.zip"})
        assert all(PARTIAL.fullmatch(name) for name in beside), beside
        return beside

    def iterations_done(self):
        """Check all of the file; return how many batches it is of, or None if it is not there."""
        if not self.path.exists():
            return None
        with open_checkpoint(self.path) as checkpoint:
            assert checkpoint.verify() == []
            done = checkpoint.status["iterations_done"]
            assert sorted(checkpoint.log()) == list(range(1, done + 1))
        return done


@pytest.fixture(scope="module")
def server():
    """Start a process that imports what training needs, once."""
    program = os.path.join(HERE, "programs", "fork_server.py")
    process = subprocess.Popen(
        [sys.executable, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield process
    process.stdin.close()
    assert process.wait() == 0
    process.stdout.close()


@pytest.fixture
def trainer(tmp_path, server):
    return Trainer(tmp_path, server)


class StraightRun:
    """The states of a run that nobody kills, batch by batch.

    A run goes on where it was left when a later state is asked for.
    """

    def __init__(self):
        self._states = [None]
        self._main_loop = make_main_loop(epochs=EPOCHS)
        self._main_loop.extensions.append(At(self._note, after_batch=True))
        self._until = 0

    def _note(self, main_loop):
        self._states.append(state_of(main_loop))
        if len(self._states) > self._until:
            main_loop.log.current_row["training_finish_requested"] = True

    def after(self, batches):
        """Return the state after so many batches."""
        if batches >= len(self._states):
            # What the generators are in between is the affair of others.
            self._until = batches + 100
            self._main_loop = make_main_loop(epochs=EPOCHS)
            self._states = [None]
            self._main_loop.extensions.append(At(self._note, after_batch=True))
            self._main_loop.run()
        return self._states[batches]


def state_of(main_loop):
    values = {name: value.tobytes() for name, value in values_of(main_loop).items()}
    return values, main_loop.log.current_row["seen"]


@pytest.fixture(scope="module")
def straight_run():
    return StraightRun()


def assert_goes_on(trainer, straight_run, batches=1):
    """Go on from the file for a few batches, saving, in this process."""
    done = trainer.iterations_done()
    loaded = load_main_loop(trainer.path)
    assert state_of(loaded) == straight_run.after(done)
    further = done + batches
    continued = continue_training(trainer.path, extensions=[FinishAfter(after_n_batches=further)])
    assert continued.status["iterations_done"] == further
    assert state_of(continued) == straight_run.after(further)
    assert trainer.iterations_done() == further
    assert trainer.partial_files() == []


@pytest.mark.parametrize("save", [1, 2, 5], ids="save-{}".format)
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_step_of_any_save(trainer, straight_run, step, save):
    assert trainer.run(step=step, save=save) == KILLED
    is_renamed = STEPS.index(step) > STEPS.index("replace")
    saved = save if is_renamed else save - 1
    assert trainer.iterations_done() == (saved or None)
    is_made = STEPS.index("create") < STEPS.index(step) <= STEPS.index("replace")
    assert len(trainer.partial_files()) == is_made
    if saved:
        assert_goes_on(trainer, straight_run)
    else:
        # Nothing was saved yet: the run begins anew, and removes what lies there.
        assert trainer.run(step="resolve", save=2) == KILLED
        assert trainer.partial_files() == []
        assert_goes_on(trainer, straight_run)


def test_killed_half_way_in_any_call_of_write(trainer, straight_run):
    writes = 0
    for number in itertools.count(1):
        assert trainer.run(step="resolve", save=3) == KILLED
        done = trainer.iterations_done()
        # A save that has no such call goes on to the next one.
        code = trainer.run(write=number, save=2)
        assert code == KILLED
        if trainer.iterations_done() != done + 1:
            break
        writes = number
        assert len(trainer.partial_files()) == 1
        if number == MAX_WRITES:
            pytest.fail("a save does not end")
    assert writes
    assert_goes_on(trainer, straight_run)


def killed_at_random(trainer, straight_run, kills, seed):
    """Kill a run as often as that, at random; return how often it was in a save."""
    moments = random.Random(seed)
    assert trainer.run(step="resolve", save=2) == KILLED
    in_a_save = 0
    done = 1
    for _ in range(kills):
        assert trainer.run(seconds=moments.uniform(0, LONGEST_RUN_SECONDS)) == KILLED
        before, done = done, trainer.iterations_done()
        assert done >= before
        beside = trainer.partial_files()
        assert len(beside) <= 1
        in_a_save += len(beside)
    assert_goes_on(trainer, straight_run, batches=3)
    return in_a_save


def test_run_that_is_killed_at_random_ends_as_one_that_is_not(trainer, straight_run):
    in_a_save = killed_at_random(trainer, straight_run, RANDOM_KILLS, seed=1)
    # Where the kills fall depends on the machine; that none falls into a save
    # would mean that nothing was tried.
    assert in_a_save


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_run_that_is_killed_a_thousand_times_ends_as_one_that_is_not(trainer, straight_run, seed):
    assert killed_at_random(trainer, straight_run, 1000, seed)
