"""Start another network from the parameters that digits.py found.

It tells odd digits from even ones. The first layer of the trained network fits
it and is taken over; the second has another shape and is not, which a warning
says. Only arrays are read from the file, no pickle.

    python examples/warm_start.py [--path digits.zip] [--epochs 5]
"""

import argparse

from digits_model import make_main_loop

from blocks_checkpoint import LoadParameters


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--path", default="digits.zip", help="the checkpoint of digits.py")
    parser.add_argument("--epochs", type=int, default=5)
    arguments = parser.parse_args(argv)

    main_loop = make_main_loop(
        arguments.epochs, first=[LoadParameters(arguments.path, strict=False)], classes=2
    )
    main_loop.run()
    print(f"validation error: {main_loop.log.current_row['valid_error']:.4f}")


if __name__ == "__main__":
    main()
