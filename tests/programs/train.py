"""Train, and save after every batch: ``train.py PATH SEED EPOCHS``."""

import sys

from drifting import make_main_loop, make_stream

from blocks_checkpoint import Checkpoint


def main(path, seed, epochs):
    """Train a new main loop."""
    saving = Checkpoint(path, every_n_batches=1)
    main_loop = make_main_loop(saving, epochs=epochs, stream=make_stream(seed))
    print("training", flush=True)
    main_loop.run()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
