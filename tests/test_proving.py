"""A checkpoint is loaded by a fresh process while the run is alive."""

import json
import os
import pickle

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


def test_file_that_does_not_load_is_reported_with_the_reason(tmp_path, caplog):
    path = tmp_path / "run.zip"
    main_loop = make_main_loop(Checkpoint(path), epochs=1)
    # There in this process, and not in the next one.
    main_loop.thing = Vanishing()
    main_loop.run()
    prover = Prover()
    prover.start(path)
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


@pytest.mark.parametrize("content", ["", "[]", "{}", json.dumps({"loads": True})])
def test_what_is_no_proof_is_none(path, content):
    path.with_name("run.zip.proof.json").write_text(content)
    assert proof_of(path) is None


def test_one_at_a_time(path):
    prover = Prover()
    assert prover.start(path)
    assert not prover.start(path)
    assert prover.wait().loads
    assert prover.report() is None
    assert prover.start(path)
    assert prover.wait().loads


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
