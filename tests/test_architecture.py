"""The page on the rooms of the package, compared with the package."""

import ast
import re
from pathlib import Path

import pytest

import blocks_checkpoint

PACKAGE = Path(blocks_checkpoint.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "architecture.rst"

if not PAGE.exists():
    pytest.skip("the documentation is not beside the tests", allow_module_level=True)


def storeys():
    """Return the storey of each module and room by its name; None of what stands beside."""
    found = {}
    storey = 0
    _, _, picture = PAGE.read_text().partition("::\n")
    for line in picture.partition("How data flows")[0].splitlines():
        if line.strip() == "↓":
            storey += 1
        elif line.startswith("    beside"):
            storey = None
        if len(line) > 29:
            name = line[29:].split()[0].rstrip("/")
            assert name not in found, name
            found[name] = storey
    return found


def parts():
    """List the modules and rooms that are there."""
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    return modules | {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


def imported_parts(path):
    """List what a file imports when it is imported itself, by the names of modules and rooms."""
    depth = len(path.relative_to(PACKAGE).parts)
    for statement in ast.parse(path.read_text()).body:
        if isinstance(statement, ast.ImportFrom) and statement.level == depth:
            names = [each.name for each in statement.names]
            yield from [statement.module.partition(".")[0]] if statement.module else names


def test_page_lists_every_module_and_room_and_no_other():
    assert storeys().keys() == parts()


def test_room_of_pickling_lists_its_modules_and_no_other():
    room = PACKAGE / "pickling"
    listed = re.findall(r"^`(\w+)`", (room / "__init__.py").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(path.stem for path in room.glob("[!_]*.py"))


@pytest.mark.parametrize("part", sorted(parts()))
def test_nothing_is_imported_from_above(part):
    place = storeys()
    room = PACKAGE / part
    for path in sorted(room.rglob("*.py")) if room.is_dir() else [PACKAGE / f"{part}.py"]:
        for other in imported_parts(path):
            assert None in (place[part], place[other]) or place[other] >= place[part], path
