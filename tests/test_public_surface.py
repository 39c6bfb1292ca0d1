"""What the package offers, and what importing it costs."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import blocks_checkpoint
from blocks_checkpoint import errors, serialization

#: A copy that is edited by hand: a name that appears or goes does so on purpose.
PUBLIC = """
    Checkpoint CheckpointError CheckpointFile CheckpointNotFound CheckpointWarning Damage
    DamagedCheckpoint DataNotFound EngineError HeavyDataWarning HostileCheckpoint KeepAll KeepBest
    KeepEvery KeepFor KeepLast LoadError LoadParameters MainModuleError MainModuleWarning
    NameConflict NoGoodCheckpoint NotACheckpoint ParameterMismatch ParameterWarning Policy
    ReadAheadWarning RefusedClass Resume SaveError UnpicklableError UnsupportedFormat __version__
    add_to_dump continue_training dump dump_and_add_to_dump load load_iteration_state load_log
    load_main_loop load_parameters open_checkpoint register_array_type save_parameters secure_dump
""".split()
HEAVY = {
    "numpy", "h5py", "click", "rich", "tqdm", "pytensor", "theano", "aesara", "blocks", "fuel",
    "multiprocessing", "asyncio", "zipfile",
}  # fmt: skip


def run(code, *arguments):
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout


def test_public_names_are_the_listed_ones():
    assert sorted(blocks_checkpoint.__all__) == sorted(PUBLIC)
    assert dir(blocks_checkpoint) == sorted(PUBLIC)
    namespace = {}
    exec("from blocks_checkpoint import *", namespace)
    assert namespace.keys() >= set(PUBLIC) - {"__version__"}
    with pytest.raises(AttributeError, match="no attribute 'Chekpoint'"):
        blocks_checkpoint.Chekpoint  # noqa: B018


@pytest.mark.parametrize("name", sorted(set(PUBLIC) - {"__version__"}))
def test_public_name_is_documented_where_it_is_defined(name):
    thing = getattr(blocks_checkpoint, name)
    if not inspect.isclass(thing) and not inspect.isfunction(thing):
        return
    assert inspect.getdoc(thing), name
    assert thing.__module__.startswith("blocks_checkpoint.")
    if inspect.isfunction(thing):
        documented = inspect.getdoc(thing)
        for parameter in inspect.signature(thing).parameters:
            if "Parameters\n---" in documented:
                assert re.search(rf"\b{parameter}\b", documented), (name, parameter)


def test_public_name_is_in_the_reference():
    """By itself, or with the module that the reference takes whole."""
    reference = Path(__file__).parents[1] / "docs" / "api.rst"
    if not reference.exists():
        pytest.skip("the documentation is not beside the tests")
    named = set(re.findall(r"auto(?:class|function):: (\w+)", reference.read_text()))
    whole = {*serialization.__all__, *errors.__all__}
    assert set(PUBLIC) - {"__version__"} <= named | whole


def test_every_error_and_warning_is_of_one_tree_and_public():
    assert set(errors.__all__) <= set(PUBLIC)
    for name in errors.__all__:
        cls = getattr(errors, name)
        root = errors.CheckpointWarning if issubclass(cls, Warning) else errors.CheckpointError
        assert issubclass(cls, root)


def test_importing_the_package_imports_nothing_heavy():
    code = (
        "import sys; before = set(sys.modules); import blocks_checkpoint\n"
        "print(*sorted(m.partition('.')[0] for m in set(sys.modules) - before))"
    )
    imported = set(run(code).split())
    assert "blocks_checkpoint" in imported
    assert not imported & HEAVY


@pytest.mark.parametrize(
    "name",
    ["load_parameters", "load_log", "open_checkpoint", "save_parameters", "continue_training"],
)
def test_reading_imports_no_engine(name):
    code = (
        "import sys, blocks_checkpoint\n"
        "getattr(blocks_checkpoint, sys.argv[1])\n"
        "print(*sys.modules)"
    )
    imported = {module.partition(".")[0] for module in run(code, name).split()}
    assert not imported & {"pytensor", "theano", "aesara", "blocks", "fuel"}


def test_unrelated_folder_called_blocks_is_no_blocks(tmp_path):
    (tmp_path / "blocks").mkdir()
    code = "import sys; sys.path.insert(0, sys.argv[1]); from blocks_checkpoint import Checkpoint\n"
    assert "miniblocks" in run(
        code + "print([cls.__module__ for cls in Checkpoint.__mro__])", str(tmp_path)
    )


def test_blocks_that_cannot_be_imported_is_reported_once(tmp_path):
    (tmp_path / "blocks").mkdir()
    (tmp_path / "blocks" / "__init__.py").write_text("raise SyntaxError('made for Python 2')")
    code = (
        "import sys, warnings; sys.path.insert(0, sys.argv[1])\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    from blocks_checkpoint import Checkpoint, Resume, LoadParameters\n"
        "    Checkpoint('a'), Checkpoint('b')\n"
        "print(len(caught), caught[0].message, caught[0].category.__name__)"
    )
    said = run(code, str(tmp_path))
    assert said.startswith("1 Blocks is installed, but cannot be imported here")
    assert "made for Python 2" in said
    assert said.endswith("CheckpointWarning\n")


def test_version_is_that_of_the_distribution():
    from importlib.metadata import PackageNotFoundError, version

    try:
        assert version("blocks_checkpoint") == blocks_checkpoint.__version__
    except PackageNotFoundError:
        assert re.fullmatch(r"\d+\.\d+(\.\w+)*", blocks_checkpoint.__version__)
