"""Train a small network on handwritten digits, with a checkpoint every epoch.

Interrupt it with Ctrl-C, or kill it in whatever way, and start it again: it
goes on from its last checkpoint, and ends with the same parameters as a run
that was never interrupted.

    python examples/digits.py [--path digits.zip] [--epochs 100]

See for yourself: this trains twice, kills itself at a random batch the second
time, goes on, and compares.

    python examples/digits.py --prove-exact --epochs 5
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile

import numpy

from blocks_checkpoint import Checkpoint, continue_training, load_log, open_checkpoint


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--path", default="digits.zip", help="the checkpoint")
    parser.add_argument("--epochs", type=int, default=100, help="length of a new run")
    parser.add_argument("--every-n-batches", type=int, help="save this often, not every epoch")
    parser.add_argument("--prove-exact", action="store_true", help="kill a run, and compare")
    parser.add_argument("--seed", type=int, help="of the batch to be killed at")
    parser.add_argument("--kill-after-batch", type=int, help="die like that, as by kill -9")
    arguments = parser.parse_args(argv)
    path = arguments.path
    if arguments.prove_exact:
        return prove_exact(arguments.epochs, arguments.every_n_batches or 7, arguments.seed)

    if arguments.kill_after_batch:
        die_after(arguments.kill_after_batch)

    if not os.path.exists(path):
        print(f"training anew; checkpoints go to {path}")
        train(path, arguments.epochs, arguments.every_n_batches)
    elif has_finished(path):
        print(f"{path} has finished: {progress(path)}. Nothing is left to train.")
    else:
        print(f"continuing {path} at {progress(path)}")
        continue_training(path)

    if has_finished(path):
        report(path)
    else:
        print(f"interrupted; saved in {path} at {progress(path)}. Start again to go on.")


def train(path, epochs, every_n_batches):
    # Compiles functions for seconds, which whoever continues does not need.
    from digits_model import make_main_loop

    triggers = {"every_n_batches": every_n_batches} if every_n_batches else {}
    make_main_loop(epochs, last=[Checkpoint(path, **triggers)]).run()


def die_after(batches):
    """See to it that this process is killed when it has trained so many batches."""
    from blocks_checkpoint.miniblocks.algorithms import GradientDescent

    train_on, left = GradientDescent.process_batch, [batches]

    def process_batch(self, batch):
        train_on(self, batch)
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    # Of the class: what hangs in the main loop is saved with it.
    GradientDescent.process_batch = process_batch


def has_finished(path):
    """Tell whether the run has reached its end, rather than an interruption."""
    return bool(load_log(path).current_row.get("training_finish_requested"))


def progress(path):
    with open_checkpoint(path) as checkpoint:
        status = checkpoint.manifest["status"]
    return f"epoch {status['epochs_done']}, iteration {status['iterations_done']}"


def report(path):
    log = load_log(path)
    print(f"validation error: {log.current_row['valid_error']:.4f}")
    print(f"checkpoint: {path}")
    print(f"numpy.load({path!r}) has:")
    with numpy.load(path) as archive:
        for name in archive.files:
            # Log and pickles are in the file too; numpy gives them as bytes.
            if isinstance(archive[name], numpy.ndarray):
                print(f"    {name:24} {archive[name].dtype} {archive[name].shape}")


def prove_exact(epochs, every_n_batches, seed):
    """Train without interruption, and with one, and compare what comes of it."""
    from digits_model import BATCH_SIZE, make_streams

    examples = make_streams()[0].dataset.num_examples
    seed = random.randrange(10**6) if seed is None else seed
    batch = random.Random(seed).randint(1, epochs * -(-examples // BATCH_SIZE))
    command = [sys.executable, os.path.abspath(__file__), "--epochs", str(epochs)]
    command += ["--every-n-batches", str(every_n_batches)]

    def run(path, *further):
        done = subprocess.run(
            [*command, "--path", path, *further], stdout=subprocess.DEVNULL, check=False
        )
        return done.returncode

    with tempfile.TemporaryDirectory() as folder:
        straight = os.path.join(folder, "straight.zip")
        killed = os.path.join(folder, "killed.zip")
        print(f"training {epochs} epochs without interruption")
        run(straight)
        print(f"training the same, to be killed after batch {batch} (--seed {seed})")
        code = run(killed, "--kill-after-batch", str(batch))
        saved = progress(killed) if os.path.exists(killed) else "nothing saved yet"
        print(f"it ended with code {code}; there is {saved}")
        print("starting it again")
        run(killed)
        if not is_same(straight, killed):
            sys.exit("the two runs differ")
    print("every parameter, buffer and record of the log is the same, bit for bit")


def is_same(path, other):
    """Compare two checkpoints, and show what is compared."""
    same = True
    with open_checkpoint(path) as one, open_checkpoint(other) as two:
        same = list(one.arrays) == list(two.arrays)
        for name in one.arrays:
            equal = one.arrays[name].tobytes() == two.arrays[name].tobytes()
            print(f"    {name:24} {'same' if equal else 'DIFFERENT'}")
            same = same and equal
        rows, others = comparable(one.log()), comparable(two.log())
    equal = rows == others
    print(f"    {'log':24} {'same' if equal else 'DIFFERENT'} ({len(rows)} rows)")
    return same and equal


def comparable(log):
    """Return the rows of a log without times, and without the names of files."""
    return {
        time: {k: repr(v) for k, v in log[time].items() if "time_" not in k and k != "saved_to"}
        for time in log
    }


if __name__ == "__main__":
    main()
