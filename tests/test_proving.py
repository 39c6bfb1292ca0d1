"""A checkpoint is loaded by a fresh process while the run is alive."""

import json
import os
import pickle
import shutil
import textwrap

import pytest
from click.testing import CliRunner
from drifting import make_main_loop
from erratic import Vanishing

from blocks_checkpoint import Checkpoint, Resume
from blocks_checkpoint.cli.inspecting import main
from blocks_checkpoint.proving import Prover, proof_of, prove


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "run.zip"
    make_main_loop(Checkpoint(path), epochs=1).run()
    return path


def test_fresh_process_says_that_a_file_loads_and_leaves_it_as_it_is(path, caplog):
    before = path.read_bytes()
    caplog.set_level("INFO")
    prover = Prover()
    assert prover.start(path)
    proof = prover.wait()
    assert proof.loads
    assert proof.reason == ""
    assert proof_of(path) == proof
    assert path.read_bytes() == before
    assert "loads, as was tried" in caplog.text
    assert sorted(os.listdir(path.parent)) == ["run.zip", "run.zip.proof.json"]


def proving_in_vain(path):
    """Begin to prove a file that holds what is in this process, and not in the next one."""
    main_loop = make_main_loop(Checkpoint(path), epochs=1)
    main_loop.thing = Vanishing()
    main_loop.run()
    prover = Prover()
    prover.start(path)
    return prover


def test_file_that_does_not_load_is_reported_with_the_reason(tmp_path, caplog):
    path = tmp_path / "run.zip"
    prover = proving_in_vain(path)
    proof = prover.wait()
    assert not proof.loads
    assert "gone in this process" in proof.reason
    assert "cannot be continued from" in caplog.text


def test_damaged_file_is_reported(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert not prove(path).loads


def test_proof_of_another_file_of_that_name_is_none(path):
    assert prove(path).loads
    assert proof_of(path).loads
    make_main_loop(Checkpoint(path), epochs=1).run()
    assert proof_of(path) is None


def test_file_that_does_not_load_is_reported_though_it_was_replaced_meanwhile(tmp_path, caplog):
    """Saves may come faster than a fresh process can load."""
    path = tmp_path / "run.zip"
    prover = proving_in_vain(path)
    prover._process.wait()
    make_main_loop(Checkpoint(path), epochs=1).run()
    assert not prover.report().loads
    assert "cannot be continued from" in caplog.text
    assert proof_of(path) is None


def test_proof_of_a_file_that_is_gone_is_not_left_behind(path):
    path.unlink()
    assert not prove(path).loads
    assert os.listdir(path.parent) == []


@pytest.mark.parametrize("content", ["", "[]", "{}", json.dumps({"loads": True})])
def test_what_is_no_proof_is_none(path, content):
    path.with_name("run.zip.proof.json").write_text(content)
    assert proof_of(path) is None


def test_one_at_a_time_and_the_last_that_came_meanwhile_next(path):
    second, third = path.with_name("second.zip"), path.with_name("third.zip")
    for other in (second, third):
        shutil.copy(path, other)
    prover = Prover()
    assert prover.start(path)
    assert not prover.start(second)
    assert not prover.start(third)
    assert prover.wait().loads
    assert prover.wait().loads
    assert prover.wait() is None
    assert proof_of(third).loads
    assert proof_of(second) is None


def test_process_is_not_part_of_a_pickle(path):
    prover = Prover()
    prover.start(path)
    assert not pickle.loads(pickle.dumps(prover)).is_busy
    prover.wait()


# As Checkpoint does it


def test_checkpoint_lets_its_file_be_proven(tmp_path):
    path = tmp_path / "run.zip"
    saver = Checkpoint(path, prove=True, after_epoch=False)
    make_main_loop(saver, epochs=1).run()
    assert saver._prover.wait().loads
    shown = CliRunner().invoke(main, ["info", str(path)])
    assert "loads in a fresh process" in shown.output


def test_last_file_of_a_run_is_proven_though_one_before_it_was_just_being(tmp_path):
    path = str(tmp_path / "run-{iterations_done}.zip")
    saver = Checkpoint(path, every_n_batches=1, prove=True)
    main_loop = make_main_loop(saver, epochs=1)
    main_loop.run()
    saver._prover.wait()
    assert proof_of(path.format(**main_loop.status)).loads


def test_resume_says_that_a_file_could_not_be_continued_from(tmp_path, caplog):
    path = tmp_path / "run.zip"
    saver = Checkpoint(path, prove=True, after_epoch=False)
    main_loop = make_main_loop(saver, epochs=1)
    main_loop.thing = Vanishing()
    main_loop.run()
    assert not saver._prover.wait().loads
    make_main_loop(first=[Resume(path)], epochs=1).run()
    assert "could not be continued from when it was saved" in caplog.text
    shown = CliRunner().invoke(main, ["info", str(path), "--json"])
    assert json.loads(shown.output)["proof"]["loads"] is False


SCRIPT = """
    import sys

    from drifting import make_main_loop

    from blocks_checkpoint import Checkpoint
    from blocks_checkpoint.miniblocks.extensions import SimpleExtension

    class Own(SimpleExtension):
        def do(self, which_callback, *args):
            pass

    with open("begun.txt", "a") as file:
        file.write("once more\\n")
    saver = Checkpoint("run.zip", prove=True, after_epoch=False)
    make_main_loop(*({own}), saver, epochs=1).run()
    saver._prover.wait()
"""


@pytest.mark.parametrize(
    ("own", "loads"),
    [
        pytest.param("[]", True, id="needs-nothing-of-the-script"),
        pytest.param("[Own()]", False, id="needs-a-class-of-it"),
    ],
)
def test_script_that_trains_when_it_is_imported_is_not_trained_by_the_proof(
    tmp_path, run_program, own, loads
):
    """It would save over the file of the run that is alive, and prove that, and so on."""
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(SCRIPT).format(own=own))
    run_program(script, cwd=tmp_path, may_warn=True)
    proof = proof_of(tmp_path / "run.zip")
    assert proof.loads is loads
    assert loads or "__name__" in proof.reason
    # One that needs a class is imported, and refuses to train.
    assert (tmp_path / "begun.txt").read_text().count("once more") == (1 if loads else 2)


def test_modules_beside_the_script_are_found_from_another_folder(tmp_path, run_program):
    (tmp_path / "scripts").mkdir()
    (tmp_path / "elsewhere").mkdir()
    beside = "from blocks_checkpoint.miniblocks.extensions import SimpleExtension as Base\n"
    beside += "class Beside(Base):\n    def do(self, which_callback, *args):\n        pass\n"
    (tmp_path / "scripts" / "neighbour.py").write_text(beside)
    script = tmp_path / "scripts" / "train.py"
    body = textwrap.dedent(SCRIPT).format(own="[neighbour.Beside()]")
    script.write_text(f"import neighbour\n{body}")
    run_program(script, cwd=tmp_path / "elsewhere", may_warn=True)
    proof = proof_of(tmp_path / "elsewhere" / "run.zip")
    assert proof.loads, proof.reason
