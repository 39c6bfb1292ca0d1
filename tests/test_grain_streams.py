"""Runs on data sets and loaders of Grain, killed and continued in other processes, are exact."""

import pytest
from drifting import make_main_loop
from stream_runs import (
    check_going_on_in_a_fresh_interpreter,
    check_killed_again_and_again,
    needs,
)

from blocks_checkpoint import Checkpoint, UnpicklableError

pytestmark = needs("grain")

STREAMS = "grain_streams"
KINDS = ["own-class", "own-state", "stream", "stream-data-loader"]


@pytest.mark.parametrize("how", ["continue", "resume"])
@pytest.mark.parametrize("kind", KINDS)
def test_run_that_is_killed_again_and_again_equals_one_that_is_not(server, tmp_path, kind, how):
    check_killed_again_and_again(server, kind, how, tmp_path / "run.zip")


@pytest.mark.parametrize("how", ["continue", "resume"])
def test_iterator_that_is_longer_than_an_epoch_goes_on_exactly(server, tmp_path, how):
    """An epoch has three batches here, and a pass over the data four."""
    kills = [["after_epoch", 3], ["before_batch", 5], ["before_epoch", 6], ["before_batch", 7]]
    check_killed_again_and_again(server, "stream-many", how, tmp_path / "run.zip", kills)


@pytest.mark.parametrize("how", ["continue", "resume"])
def test_data_set_that_other_processes_read_goes_on_exactly(server, tmp_path, how):
    kills = [["before_batch", 2]]
    check_killed_again_and_again(server, "stream-workers", how, tmp_path / "run.zip", kills)


def test_loader_that_cannot_be_pickled_is_resumed_in_a_new_main_loop(server, tmp_path):
    check_killed_again_and_again(server, "stream-unpicklable", "resume", tmp_path / "run.zip")


@pytest.mark.parametrize("how", ["continue", "resume"])
def test_run_goes_on_in_a_fresh_interpreter(server, tmp_path, how):
    check_going_on_in_a_fresh_interpreter(
        server, "stream-many", how, tmp_path / "run.zip", ["before_batch", 5]
    )


def test_saving_changes_nothing(server, tmp_path):
    assert server.run("start", "stream", tmp_path / "run.zip") == (
        0,
        server.straight("stream"),
    )


def test_loader_of_which_grain_itself_makes_lambdas_is_named_with_the_cure(tmp_path):
    pytest.importorskip("grain")
    from grain_streams import make_stream

    path = str(tmp_path / "run.zip")
    main_loop = make_main_loop(Checkpoint(path), stream=make_stream("stream-unpicklable"))
    with pytest.raises(UnpicklableError, match=r"data_stream\.loader\..*LoaderStream a function"):
        main_loop.run()
