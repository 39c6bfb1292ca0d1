"""Train the network of digits.py for some epochs more, in a new main loop.

The loop is built by a script, so everything in it can differ from the one that
was saved: here it trains longer. Parameters, momentum and log come from the
checkpoint, and what is trained on top is saved in it again.

    python examples/resume.py [--path digits.zip] [--epochs 105]
"""

import argparse

from digits_model import make_main_loop

from blocks_checkpoint import Checkpoint, Resume


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--path", default="digits.zip", help="the checkpoint of digits.py")
    parser.add_argument("--epochs", type=int, default=105, help="in all, with those before")
    arguments = parser.parse_args(argv)

    main_loop = make_main_loop(
        arguments.epochs,
        first=[Resume(arguments.path, load_log=True)],
        last=[Checkpoint(arguments.path)],
    )
    main_loop.run()
    print(f"trained for {main_loop.status['epochs_done']} epochs in all")
    print(f"validation error: {main_loop.log.current_row['valid_error']:.4f}")


if __name__ == "__main__":
    main()
