"""Print a command of the README, word for word, so that CI runs exactly it.

Usage: readme_command.py WORD. The command is the one line of README.rst that
starts with ``pip install`` and contains WORD; anything but one is an error.
"""

import pathlib
import sys

README = pathlib.Path(__file__).resolve().parent.parent / "README.rst"


def find_command(text: str, word: str) -> str:
    commands = [line.strip() for line in text.splitlines() if line.startswith("    pip install ")]
    found = [command for command in commands if word in command]
    if len(found) != 1:
        raise SystemExit(f"{README}: {len(found)} commands with {word!r}; there should be one")
    return found[0]


if __name__ == "__main__":
    print(find_command(README.read_text(encoding="utf-8"), sys.argv[1]))
