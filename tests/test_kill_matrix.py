"""A real training process is killed, again and again, and nothing is lost.

What is claimed of the file that is left is more than that it opens: its state
is, bit for bit, the one that the run had after the batch the file says it was
saved after; and going on from it leads to the states of a run that nobody
killed.
"""

import json
import os
import random
import re
import subprocess
import sys

import pytest
from straight import EPOCHS, StraightRun, state_of

from blocks_checkpoint import continue_training, load_main_loop, open_checkpoint
from blocks_checkpoint.commit import STEPS
from blocks_checkpoint.miniblocks.extensions import FinishAfter

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")

HERE = os.path.dirname(os.path.abspath(__file__))
PARTIAL = re.compile(r"\.run\.zip\.[0-9]+-[0-9a-f]{16}\.partial")
KILLED = -9
RANDOM_KILLS = 170
#: Seconds in which a run goes on from a file and saves a few times.
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


def test_killed_after_any_number_of_bytes(trainer, straight_run):
    assert trainer.run(step="resolve", save=2) == KILLED
    size = trainer.path.stat().st_size
    for number in [*range(0, size, size // 16), size - 1, size]:
        assert trainer.run(bytes=number, save=1) == KILLED
        assert trainer.iterations_done() == 1
        (name,) = trainer.partial_files()
        assert (trainer.path.parent / name).stat().st_size == number
    assert_goes_on(trainer, straight_run)


def moments(count, seed):
    """Return when to kill: often at some step of a save, and sometimes whenever it may be."""
    draw = random.Random(seed)
    for number in range(count):
        if number % 5:
            # Some steps take microseconds, and some milliseconds.
            yield {"save": draw.randint(1, 3), "seconds": 10 ** draw.uniform(-5, -1.5)}
        else:
            yield {"seconds": draw.uniform(0, LONGEST_RUN_SECONDS)}


def killed_at_random(trainer, straight_run, kills, seed):
    """Kill a run as often as that, at random; return how often a partial file was left."""
    assert trainer.run(step="resolve", save=2) == KILLED
    left = 0
    done = 1
    for moment in moments(kills, seed):
        assert trainer.run(**moment) == KILLED
        before, done = done, trainer.iterations_done()
        assert done >= before
        beside = trainer.partial_files()
        assert len(beside) <= 1
        left += len(beside)
    assert_goes_on(trainer, straight_run, batches=3)
    return left


def test_run_that_is_killed_at_random_ends_as_one_that_is_not(trainer, straight_run):
    # That no kill falls between the first step and the last would mean that
    # nothing was tried.
    assert killed_at_random(trainer, straight_run, RANDOM_KILLS, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_run_that_is_killed_a_thousand_times_ends_as_one_that_is_not(trainer, straight_run, seed):
    assert killed_at_random(trainer, straight_run, 1000, seed)
