"""The examples, each run as a user runs it: a program in a fresh process."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy
import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
DIGITS = EXAMPLES / "digits.py"
#: Short runs, saved often enough to be killed between two saves of one epoch.
SHORT = ("--epochs", "3", "--every-n-batches", "7")


def arrays_of(path):
    with numpy.load(path) as archive:
        found = {name: archive[name] for name in archive.files}
    return {name: value for name, value in found.items() if isinstance(value, numpy.ndarray)}


def assert_same_arrays(path, reference):
    ours, theirs = arrays_of(path), arrays_of(reference)
    assert list(ours) == list(theirs)
    for name, value in ours.items():
        assert value.tobytes() == theirs[name].tobytes(), name


def stop_after_save(command, path, stop_signal):
    """Start a program, stop it as soon as it has replaced the file, and wait."""
    before = os.stat(path).st_ino if path.exists() else None
    child = subprocess.Popen(command, cwd=path.parent, stdout=subprocess.PIPE, text=True)
    while child.poll() is None and (not path.exists() or os.stat(path).st_ino == before):
        time.sleep(0.001)
    child.send_signal(stop_signal)
    output, _ = child.communicate(timeout=300)
    return child.returncode, output


@pytest.fixture(scope="module")
def finished(tmp_path_factory, run_program):
    """Return the folder of a run that was never interrupted, and its output."""
    folder = tmp_path_factory.mktemp("finished")
    return folder, run_program(DIGITS, *SHORT, cwd=folder).stdout


@pytest.fixture
def copied(finished, tmp_path):
    """Return a copy of the finished run's checkpoint, free to be changed."""
    return Path(shutil.copy(finished[0] / "digits.zip", tmp_path))


def test_digits_reports_error_path_and_arrays(finished):
    folder, output = finished
    assert "training anew; checkpoints go to digits.zip" in output
    assert "valid_error: " in output
    assert "train_cost: " in output
    report = output[output.index("\nvalidation error: ") :].splitlines()[1:]
    assert float(report[0].split()[-1]) < 0.2
    assert report[1] == "checkpoint: digits.zip"
    listed = [line.split()[0] for line in report[3:]]
    assert listed == list(arrays_of(folder / "digits.zip"))
    assert "mlp/linear_0/W" in listed


def test_digits_trains_nothing_once_finished(copied, run_program):
    before = copied.read_bytes()
    output = run_program(DIGITS, *SHORT, cwd=copied.parent).stdout
    assert "digits.zip has finished: epoch 3, iteration 135. Nothing is left to train." in output
    assert "AFTER ANOTHER EPOCH" not in output
    assert copied.read_bytes() == before


def test_digits_killed_again_and_again_ends_with_the_same_bits(finished, tmp_path, run_program):
    path = tmp_path / "digits.zip"
    command = [sys.executable, str(DIGITS), *SHORT]
    for _ in range(3):
        code, _ = stop_after_save(command, path, signal.SIGKILL)
        assert code == -signal.SIGKILL
    output = run_program(DIGITS, *SHORT, cwd=tmp_path).stdout
    assert "continuing digits.zip at epoch " in output
    assert_same_arrays(path, finished[0] / "digits.zip")
    assert [child.name for child in tmp_path.iterdir()] == ["digits.zip"]


def test_digits_interrupted_is_finished_by_a_program_without_its_modules(
    finished, tmp_path, run_program
):
    path = tmp_path / "digits.zip"
    code, output = stop_after_save([sys.executable, str(DIGITS), *SHORT], path, signal.SIGTERM)
    assert code == 0
    assert "interrupted; saved in digits.zip at epoch " in output
    program = Path(shutil.copy(EXAMPLES / "interpreter.py", tmp_path))
    assert "trained for 3 epochs in all" in run_program(program, cwd=tmp_path).stdout
    assert_same_arrays(path, finished[0] / "digits.zip")


def test_digits_interrupted_is_finished_by_the_command(finished, tmp_path, run_program):
    path = tmp_path / "digits.zip"
    # Ctrl-C is for the end of an epoch.
    code, output = stop_after_save([sys.executable, str(DIGITS), *SHORT], path, signal.SIGINT)
    assert code == 0
    assert "interrupted; saved in digits.zip at epoch 1, iteration 45." in output
    command = tmp_path / "blocks_continue.py"
    command.write_text("from blocks_checkpoint.cli.continuing import main\nmain()\n")
    output = run_program(command, "digits.zip", cwd=tmp_path).stdout
    assert output.startswith("continuing digits.zip at epoch 1, iteration 45\n")
    assert output.endswith("ended at epoch 3, iteration 135\n")
    assert_same_arrays(path, finished[0] / "digits.zip")


def test_digits_proves_before_the_readers_eyes_that_it_goes_on_exactly(tmp_path, run_program):
    output = run_program(
        DIGITS, "--prove-exact", "--epochs", "2", "--seed", "5", cwd=tmp_path
    ).stdout
    lines = output.splitlines()
    assert lines[1].startswith("training the same, to be killed after batch ")
    assert lines[1].endswith(" (--seed 5)")
    assert lines[2].startswith("it ended with code -9; there is epoch ")
    assert "    mlp/linear_0/W           same" in lines
    assert "DIFFERENT" not in output
    assert lines[-1] == "every parameter, buffer and record of the log is the same, bit for bit"
    assert list(tmp_path.iterdir()) == []


def test_resume_trains_a_new_main_loop_further(copied, run_program):
    output = run_program(EXAMPLES / "resume.py", "--epochs", "4", cwd=copied.parent).stdout
    assert "trained for 4 epochs in all" in output
    assert output.count("AFTER ANOTHER EPOCH") == 1


def test_warm_start_takes_over_what_fits_and_says_what_does_not(copied, run_program):
    done = run_program(
        EXAMPLES / "warm_start.py", "--epochs", "1", cwd=copied.parent, may_warn=True
    )
    assert float(done.stdout.split()[-1]) < 0.2
    assert "ParameterWarning" in done.stderr
    assert "/mlp/linear_1.W" in done.stderr
    assert "/mlp/linear_0.W" not in done.stderr
