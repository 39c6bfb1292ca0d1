"""What importing costs, and what may import what."""

import ast
from pathlib import Path

import pytest

import blocks_checkpoint.miniblocks as package

FOLDER = Path(package.__file__).parent
MODULES = sorted(FOLDER.rglob("*.py"))

WITHOUT_ENGINE = """
import importlib, sys
for name in {names}:
    importlib.import_module("blocks_checkpoint.miniblocks." + name)
print([name for name in ("pytensor", "theano", "aesara", "h5py", "tqdm") if name in sys.modules])
"""


def dotted(path):
    parts = path.relative_to(FOLDER).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def test_importing_any_module_imports_no_engine(tmp_path, run_program):
    names = [dotted(path) for path in MODULES if dotted(path)]
    script = tmp_path / "importing.py"
    script.write_text(WITHOUT_ENGINE.format(names=names))
    assert run_program(script, cwd=tmp_path).stdout.strip() == "[]"


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_module_knows_engines_and_the_rest_of_the_package_through_two_modules(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module]
        assert not {name.split(".")[0] for name in names} & {
            "pytensor",
            "theano",
            "aesara",
            "blocks_checkpoint",
        }
        if isinstance(node, ast.ImportFrom):
            depth = len(path.relative_to(FOLDER).parts)
            is_outside = node.level > depth
            assert not is_outside or node.module in ("engines", "state_methods")
