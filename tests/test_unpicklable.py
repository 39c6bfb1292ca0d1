"""What stands in the way of pickling is searched for once for each cause."""

import threading

import pytest
from drifting import make_main_loop
from interventions import Do

from blocks_checkpoint import Checkpoint, diagnosis
from blocks_checkpoint.diagnosis import Walker
from blocks_checkpoint.unpicklable import Searches


@pytest.fixture
def searches(monkeypatch):
    """Return the list to which every search adds what it begins from."""
    made, search = [], diagnosis.find_offenders

    def find_offenders(roots, walker):
        made.append([name for name, _ in roots])
        return search(roots, walker)

    monkeypatch.setattr(diagnosis, "find_offenders", find_offenders)
    return made


def explained(searches, thing, error=None, name="thing"):
    error = error or TypeError("cannot pickle '_thread.lock' object")
    return searches.explain(error, name, [(name, thing)], Walker())


def test_error_says_what_stands_in_the_way():
    error = explained(Searches(), {"a": [threading.Lock()]})
    assert error.message.startswith(
        "thing cannot be pickled: cannot pickle '_thread.lock' object. What stands in the way:\n"
        "  - thing['a'][0] is a _thread.lock: "
    )
    assert [offender.path for offender in error.offenders] == ["thing['a'][0]"]


def test_same_cause_is_told_again_without_a_search_and_the_error_says_so(searches):
    mine, thing = Searches(), [threading.Lock()]
    first, second = explained(mine, thing), explained(mine, thing)
    assert len(searches) == 1
    assert "searched" not in first.message
    assert "was not searched for again. What stands in the way:\n  - thing[0]" in second.message
    assert second.offenders == first.offenders


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"error": TypeError("cannot pickle 'generator' object")}, id="text"),
        pytest.param({"error": ValueError("cannot pickle '_thread.lock' object")}, id="type"),
        pytest.param({"name": "other"}, id="what-was-pickled"),
    ],
)
def test_other_cause_is_searched_for(searches, other):
    mine, thing = Searches(), [threading.Lock()]
    explained(mine, thing)
    assert "searched" not in explained(mine, thing, **other).message
    assert len(searches) == 2


def spoil(main_loop):
    main_loop.thing = lambda: None


def spoil_further(main_loop):
    main_loop.thing = threading.Lock()


@pytest.mark.parametrize("background", [False, True], ids=["waiting", "background"])
def test_run_that_goes_on_searches_once_for_each_obstacle(tmp_path, searches, caplog, background):
    main_loop = make_main_loop(
        Do(spoil, after_n_batches=2),
        Do(spoil_further, after_n_batches=7),
        Checkpoint(
            tmp_path / "run.zip", every_n_batches=1, on_failure="warn", background=background
        ),
    )
    main_loop.run()
    assert len(searches) == 2
    # Of batches 2 to 12, and of the end of training.
    reports = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert len(reports) == 12
    assert ["searched" in report for report in reports] == [n not in (0, 5) for n in range(12)]
    assert all("main_loop.thing is a" in report for report in reports)


def test_parts_that_cannot_be_saved_either_are_not_searched_one_by_one(tmp_path, searches, caplog):
    main_loop = make_main_loop(
        Checkpoint(tmp_path / "run.zip", on_failure="warn", after_epoch=False), epochs=1
    )
    main_loop.data_stream.lock = threading.Lock()
    main_loop.run()
    assert searches == [["main_loop"]]
    assert "main_loop.iteration_state cannot be saved either" in caplog.text
