"""Go on with an interrupted run of digits.py where its script is not at hand.

Everything is in the file, so any interpreter will do, a bare one too:

    >>> from blocks_checkpoint import continue_training
    >>> continue_training("digits.zip")

    python examples/interpreter.py [--path digits.zip]
"""

import argparse

from blocks_checkpoint import continue_training, load_log


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--path", default="digits.zip", help="the checkpoint of digits.py")
    arguments = parser.parse_args(argv)

    continue_training(arguments.path)
    log = load_log(arguments.path)
    print(f"trained for {log.status['epochs_done']} epochs in all")
    print(f"validation error: {log.current_row['valid_error']:.4f}")


if __name__ == "__main__":
    main()
