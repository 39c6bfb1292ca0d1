"""The README does what it says: its blocks of Python run, in their order."""

import re
import textwrap
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.rst"
BLOCK = re.compile(
    r"^\.\. code-block:: python\n(?:   :caption: (?P<name>\S+)\n)?\n(?P<code>(?:(?:   .*)?\n)+)",
    re.MULTILINE,
)


def find_blocks(text):
    """Return pairs of file name and code; blocks without a caption get a number."""
    return [
        (match["name"] or f"block_{number}.py", textwrap.dedent(match["code"]))
        for number, match in enumerate(BLOCK.finditer(text))
    ]


def test_blocks_run_one_after_another(tmp_path, engine_name, run_program):
    blocks = find_blocks(README.read_text(encoding="utf-8"))
    assert len(blocks) == README.read_text(encoding="utf-8").count("code-block:: python")
    for name, code in blocks:
        # A script moves between engines by its imports.
        script = tmp_path / name
        script.write_text(code.replace("pytensor", engine_name), encoding="utf-8")
        run_program(script, cwd=tmp_path)
    assert (tmp_path / "sine.zip").is_file()


def test_commands_named_are_those_installed():
    text = README.read_text(encoding="utf-8")
    named = set(re.findall(r"\bblocks-[a-z]+(?= \w+\.zip| info| verify)", text))
    assert named == {"blocks-continue", "blocks-checkpoint"}


def test_first_thing_is_the_two_commands():
    text = README.read_text(encoding="utf-8")
    first = text[text.index("::\n") :].splitlines()[2:4]
    assert [line.strip() for line in first] == [
        "pip install '.[examples]' && python examples/digits.py",
        "pip install '.[test]' && pytest",
    ]
