"""What cannot be had costs no more than it must, and is told."""

import os
import re
import zipfile

import pytest
from drifting import (
    BATCHES_PER_EPOCH,
    DataStream,
    assert_same_values,
    make_main_loop,
    make_model,
    make_stream,
    seen_by,
)

from blocks_checkpoint import Checkpoint, Resume, load_iteration_state
from blocks_checkpoint.errors import LoadError, ParameterMismatch
from blocks_checkpoint.tiers import TIERS, descend

EVERYTHING, STATE, PARAMETERS = TIERS


def attempt_that_fails_at(*failing):
    def attempt(tier):
        if tier in failing:
            raise LoadError(f"no {tier.name} here", path="run.zip")
        return tier.name

    return attempt


@pytest.mark.parametrize(
    ("failing", "reached"),
    [
        pytest.param((), EVERYTHING, id="nothing-fails"),
        pytest.param((EVERYTHING,), STATE, id="all-but-the-iteration-state"),
        pytest.param((EVERYTHING, STATE), PARAMETERS, id="only-parameters"),
        pytest.param((STATE,), EVERYTHING, id="nobody-asks"),
    ],
)
def test_highest_tier_that_can_be_had_is_taken(failing, reached):
    result, descent = descend(attempt_that_fails_at(*failing))
    assert (result, descent.tier) == (reached.name, reached)
    assert descent.is_complete == (reached is EVERYTHING)


def test_every_step_down_is_told_with_its_reason_and_its_loss():
    _, descent = descend(attempt_that_fails_at(EVERYTHING, STATE))
    lines = descent.describe().splitlines()
    assert lines[0] == "loaded the tier 'parameters'"
    assert "not 'everything', because run.zip: no everything here; lost is the place" in lines[1]
    assert "not 'state', because run.zip: no state here; lost is the log" in lines[2]


def test_what_was_complete_has_lost_nothing():
    _, descent = descend(attempt_that_fails_at())
    assert descent.describe() == "loaded the tier 'everything'"


def test_error_of_the_last_attempt_is_raised():
    def attempt(tier):
        raise ParameterMismatch(f"of {tier.name}", missing=["W"])

    with pytest.raises(ParameterMismatch, match="of parameters"):
        descend(attempt)


def test_fault_of_a_program_is_no_reason_to_step_down():
    def attempt(tier):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        descend(attempt)


def test_each_tier_takes_no_more_than_the_one_above():
    for above, below in zip(TIERS, TIERS[1:]):
        for name in ("load_log", "load_iteration_state", "load_buffers"):
            assert getattr(above, name) >= getattr(below, name)
        assert below.loses


# As Resume does it


class OtherStream(DataStream):
    """A stream of another class."""


@pytest.fixture
def saved(tmp_path):
    """Return the path of a run that was saved in mid-epoch, and of the run itself."""
    path = tmp_path / "run.zip"
    main_loop = make_main_loop(Checkpoint(path, after_n_batches=6, after_training=False), epochs=3)
    main_loop.run()
    return path, main_loop


def resumed(path, **how):
    resume = Resume(path, mode="auto")
    main_loop = make_main_loop(first=[resume], epochs=3, **how)
    main_loop.run()
    return resume, main_loop


def test_resume_reaches_everything_where_it_can(saved):
    path, straight = saved
    resume, main_loop = resumed(path)
    assert resume.tier == "everything"
    assert_same_values(main_loop, straight)
    assert seen_by(main_loop.log) == seen_by(straight.log)


def test_resume_without_the_stream_begins_the_epoch_anew(saved, caplog):
    path, _ = saved
    resume, main_loop = resumed(path, stream=make_stream(stream_class=OtherStream))
    assert resume.tier == "state"
    # Two batches of the second epoch were trained on before.
    assert main_loop.status["iterations_done"] == 6 + 2 * BATCHES_PER_EPOCH
    assert "lost is the place in the data" in caplog.text


def test_why_the_iteration_state_could_not_be_saved_is_told_when_it_is_asked_for(tmp_path, caplog):
    path, stream = tmp_path / "run.zip", make_stream()
    stream.reader = open(os.devnull)
    main_loop = make_main_loop(Checkpoint(path, on_failure="warn"), stream=stream, epochs=1)
    main_loop.run()
    stream.reader.close()
    why = r"(?s)run\.zip, .* is not in this checkpoint\. .*main_loop\.data_stream\.reader is a"
    with pytest.raises(LoadError, match=why):
        make_main_loop(first=[Resume(path, load_iteration_state=True)]).run()
    with pytest.raises(LoadError, match=why):
        load_iteration_state(path)
    caplog.clear()
    resume, _ = resumed(path)
    assert resume.tier == "state"
    assert re.search(why, caplog.text)


def test_resume_without_the_log_has_the_parameters(saved, tmp_path, caplog):
    path, _ = saved
    damaged = tmp_path / "damaged.zip"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(damaged, "w") as new:
        for info in old.infolist():
            content = b"rubbish" if info.filename == "log" else old.read(info)
            new.writestr(info.filename, content)
    resume, main_loop = resumed(damaged)
    assert resume.tier == "parameters"
    assert main_loop.status["iterations_done"] == 3 * BATCHES_PER_EPOCH
    assert "lost is the log" in caplog.text


def test_resume_refuses_parameters_of_another_model_in_every_mode(saved):
    path, _ = saved
    with pytest.raises(ParameterMismatch):
        resumed(path, model=make_model(dims=(3, 5, 2)))


def test_resume_refuses_a_mode_that_it_does_not_know():
    with pytest.raises(ValueError, match="use 'auto'"):
        Resume("run.zip", mode="all")
