"""Train a small network on handwritten digits, with a checkpoint every epoch.

Interrupt it with Ctrl-C, or kill it in whatever way, and start it again: it
goes on from its last checkpoint, and ends with the same parameters as a run
that was never interrupted.

    python examples/digits.py [--path digits.zip] [--epochs 100]
"""

import argparse
import os

import numpy

from blocks_checkpoint import Checkpoint, continue_training, load_log, open_checkpoint


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--path", default="digits.zip", help="the checkpoint")
    parser.add_argument("--epochs", type=int, default=100, help="length of a new run")
    parser.add_argument("--every-n-batches", type=int, help="save this often, not every epoch")
    arguments = parser.parse_args(argv)
    path = arguments.path

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


if __name__ == "__main__":
    main()
