"""The worked case of docs/moving-from-blocks, run as a user runs it."""

import io
import re
import tarfile
from pathlib import Path

import numpy as np
import pytest

from blocks_checkpoint import load_log, load_parameters, open_checkpoint
from blocks_checkpoint.conversion import convert

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "from_blocks.py"
PAGE = ROOT / "docs" / "moving-from-blocks.rst"
SHAPES = {
    "/mlp/linear_0.W": (784, 100),
    "/mlp/linear_0.b": (100,),
    "/mlp/linear_1.W": (100, 10),
    "/mlp/linear_1.b": (10,),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory, run_program):
    """Return a checkpoint of one epoch, and what the program printed."""
    path = tmp_path_factory.mktemp("trained") / "mnist.zip"
    done = run_program(EXAMPLE, path, "--num-epochs", 1, cwd=path.parent)
    return path, done.stdout


def test_example_trains_and_saves_under_the_names_of_blocks(trained):
    path, output = trained
    assert {name: value.shape for name, value in load_parameters(path).items()} == SHAPES
    assert "epochs: 1, test error: " in output
    for name in SHAPES:
        assert name in output


def test_example_goes_on_where_it_was(trained, tmp_path, run_program):
    path = tmp_path / "mnist.zip"
    path.write_bytes(trained[0].read_bytes())
    output = run_program(EXAMPLE, path, "--num-epochs", 2, "--resume", cwd=tmp_path).stdout
    assert "epochs: 2, test error: " in output
    log = load_log(path)
    assert log.status["epochs_done"] == 2
    assert log[40]["train_cost"] < log[20]["train_cost"]


def write_tar_of_blocks(path, parameters):
    """Write parameters as Blocks did from 2016 on."""
    npz = io.BytesIO()
    np.savez(npz, **{name.replace("/", "|"): value for name, value in parameters.items()})
    with tarfile.open(path, "w") as archive:
        info = tarfile.TarInfo("_parameters")
        info.size = len(npz.getvalue())
        archive.addfile(info, io.BytesIO(npz.getvalue()))


def test_example_starts_from_the_parameters_of_an_old_checkpoint(trained, tmp_path, run_program):
    old = tmp_path / "old.tar"
    write_tar_of_blocks(old, load_parameters(trained[0]))
    path = tmp_path / "new.zip"
    run_program(EXAMPLE, path, "--num-epochs", 1, "--parameters-of", old, cwd=tmp_path)
    first, second = load_log(trained[0]), load_log(path)
    assert second[20]["train_cost"] < first[20]["train_cost"]


def test_old_checkpoint_is_resumed_after_conversion(trained, tmp_path, run_program):
    old, path = tmp_path / "old.tar", tmp_path / "mnist.zip"
    write_tar_of_blocks(old, load_parameters(trained[0]))
    convert(old, path)
    for name, value in load_parameters(trained[0]).items():
        np.testing.assert_array_equal(load_parameters(path)[name], value)
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.manifest["converted"]["kind"] == "tar"


@pytest.mark.blocks
def test_example_is_a_script_of_blocks_but_for_the_import_roots(tmp_path, run_program):
    pytest.importorskip("blocks.main_loop")
    script = tmp_path / "from_blocks_itself.py"
    text = EXAMPLE.read_text(encoding="utf-8")
    text = re.sub(
        r"blocks_checkpoint\.miniblocks\.(datasets|schemes|streams|transformers)", r"fuel.\1", text
    )
    script.write_text(text.replace("blocks_checkpoint.miniblocks.", "blocks."), encoding="utf-8")
    path = tmp_path / "mnist.zip"
    run_program(script, path, "--num-epochs", 1, cwd=tmp_path, may_warn=True)
    assert {name: value.shape for name, value in load_parameters(path).items()} == SHAPES
    run_program(script, path, "--num-epochs", 2, "--resume", cwd=tmp_path, may_warn=True)
    assert load_log(path).status["epochs_done"] == 2


def test_page_shows_the_example_as_it_is():
    """Lines that the page says are those of the moved script are in it."""
    page, example = PAGE.read_text(encoding="utf-8"), EXAMPLE.read_text(encoding="utf-8")
    new_lines = re.findall(r"^   \+(.+)$", page, re.MULTILINE)
    assert len(new_lines) > 5
    for line in new_lines:
        assert line.strip() in example


def test_every_name_of_this_package_on_the_page_exists():
    import blocks_checkpoint
    from blocks_checkpoint import extensions, serialization

    page = PAGE.read_text(encoding="utf-8")
    for new in re.findall(r"``blocks_checkpoint\.(\w+)(?:\(|``)", page):
        assert hasattr(blocks_checkpoint, new), new
    homes = {"serialization": serialization, "extensions": extensions}
    for module, new in re.findall(r"``blocks_checkpoint\.(serialization|extensions)\.(\w+)", page):
        assert hasattr(homes[module], new), new
