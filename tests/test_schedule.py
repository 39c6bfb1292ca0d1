"""Decisions by the clock, told the time."""

import copy
import datetime
import json
import math
import pickle

import pytest

from blocks_checkpoint.schedule import EveryNSeconds, Overhead


def save(schedule, now, stall):
    """Save at that time, and return the time at which training goes on."""
    schedule.begin(now)
    assert schedule.end(now + stall) == pytest.approx(stall)
    return now + stall


def saves(schedule, stalls, *, until, step=1.0, start=1000.0):
    """Train in steps; return how much was trained before each save."""
    trained = []
    now, total = start, 0.0
    stalls = iter(stalls)
    schedule.advance(now)
    while total < until:
        now += step
        total += step
        if schedule.is_due(now):
            trained.append(total)
            now = save(schedule, now, next(stalls))
    return trained


@pytest.mark.parametrize(
    ("times", "due"),
    [
        pytest.param([5, 14], False, id="before"),
        pytest.param([5, 15], True, id="at-the-second"),
        pytest.param([5, 9, 15.5], True, id="told-in-between"),
        pytest.param([15], False, id="told-for-the-first-time"),
        pytest.param([5, 1, 10.5], False, id="clock-that-went-back"),
    ],
)
def test_so_many_seconds_are_counted_from_the_first_time_told(times, due):
    schedule = EveryNSeconds(10)
    assert [schedule.is_due(now) for now in times][-1] is due


def test_training_that_was_begun_is_counted_from_then_on():
    schedule = EveryNSeconds(10)
    schedule.start(3)
    schedule.start(9)
    assert not schedule.is_due(12)
    assert schedule.is_due(13)


@pytest.mark.parametrize("make", [lambda: EveryNSeconds(10), lambda: Overhead(0.1, 100)])
def test_another_schedule_goes_on_from_what_one_has_counted(make):
    first, second = make(), make()
    first.advance(0)
    now = save(first, 1, stall=2)
    first.advance(now + 7)
    second.go_on_from(json.loads(json.dumps(first.counted())))
    second.start(1e6)
    for passed in (0, 1, 2.9, 3.1, 12.9, 13.1):
        assert second.is_due(1e6 + passed) == first.is_due(now + 7 + passed)


def test_schedule_of_another_kind_goes_on_from_the_seconds():
    counted = EveryNSeconds(10)
    counted.start(0)
    counted.advance(8)
    bounded = Overhead(0.1, at_least_every=9)
    bounded.go_on_from(counted.counted())
    assert bounded.trained_seconds == 8
    timed = EveryNSeconds(9)
    timed.go_on_from(bounded.counted())
    assert timed.trained_seconds == 8


def test_seconds_of_the_save_do_not_count():
    schedule = EveryNSeconds(10)
    schedule.advance(0)
    now = save(schedule, 10, stall=7)
    assert not schedule.is_due(now + 9.5)
    assert schedule.is_due(now + 10)


def test_every_n_seconds_saves_once_in_so_many_seconds():
    assert saves(EveryNSeconds(10), [3.0] * 9, until=45) == [10, 20, 30, 40]


@pytest.mark.parametrize("schedule", [EveryNSeconds(10), Overhead(0.1)])
@pytest.mark.parametrize("travel", [copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing))])
def test_remaining_time_travels_and_the_reading_of_the_clock_does_not(schedule, travel):
    schedule = copy.deepcopy(schedule)
    schedule.advance(500)
    save(schedule, 501, stall=1)
    schedule.advance(508)
    there = travel(schedule)
    assert not there.is_due(3)
    assert there.trained_seconds == schedule.trained_seconds == 6
    due_here = next(now for now in range(600) if schedule.is_due(508 + now))
    due_there = next(now for now in range(600) if there.is_due(3 + now))
    assert due_there == due_here > 0


@pytest.mark.parametrize("schedule", [EveryNSeconds(10), Overhead(0.1, at_least_every=10)])
def test_schedule_in_the_file_is_not_due_when_it_is_loaded(schedule):
    schedule.advance(0)
    save(schedule, 1, stall=1)
    assert schedule.is_due(100)
    schedule.begin(100)
    loaded = pickle.loads(pickle.dumps(schedule))
    assert not loaded.is_due(0)
    assert not loaded.is_due(0.5)


@pytest.mark.parametrize(
    ("stalls", "trained"),
    [
        # The first is not known beforehand, and paid for afterwards.
        pytest.param([1] * 9, [1, 17, 25, 33, 41, 49, 57], id="steady"),
        pytest.param([2] * 9, [1, 33, 49], id="dearer-is-rarer"),
        pytest.param([0.125] * 99, [1, *range(3, 61)], id="cheap-is-at-every-step"),
        pytest.param([1, 3, 1, 1, 1], [1, 17, 41, 49, 57], id="surprise-puts-the-next-off"),
        pytest.param([1, 1, 1] + [0.5] * 9, [1, 17, 25, 33, 37, 39, 43, 47], id="cheaper"),
    ],
)
def test_overhead_saves_as_often_as_the_share_pays_for(stalls, trained):
    assert saves(Overhead(0.125), stalls, until=60)[: len(trained)] == trained


@pytest.mark.parametrize("stalls", [[0.3] * 500, [0.2, 0.7] * 250, [0.1, 0.1, 0.1, 2.0] * 100])
def test_stalls_stay_within_the_share_of_training(stalls):
    share = 0.05
    trained = saves(Overhead(share), stalls, until=400, step=0.5)
    spent = sum(stalls[: len(trained)])
    assert spent <= share * trained[-1] + 2 * max(stalls)
    assert spent >= 0.7 * share * trained[-1]


def test_no_save_comes_on_the_heels_of_one_that_was_cheaper_than_expected():
    # The first copies go into new memory, and take many times as long.
    trained = saves(Overhead(0.1), [20] + [1] * 99, until=600)
    gaps = [after - before for before, after in zip(trained, trained[1:])]
    assert gaps[0] == 400
    assert min(gaps[1:]) >= 5


@pytest.mark.parametrize(
    ("at_least_every", "gap"),
    [pytest.param(50, 50, id="bound"), pytest.param(None, 1000, id="none")],
)
def test_overhead_never_waits_longer_than_told(at_least_every, gap):
    schedule = Overhead(0.01, at_least_every=at_least_every)
    trained = saves(schedule, [10.0] * 99, until=4000)
    later = [after - before for before, after in zip(trained[1:], trained[2:])]
    assert set(later) == {gap}


def test_debt_of_saves_that_had_to_be_is_no_more_than_one_stall():
    schedule = Overhead(0.01, at_least_every=5)
    stalls = [10.0] * 20 + [0.01] * 2000
    trained = saves(schedule, stalls, until=1500)
    assert trained[-1] - trained[-2] == 1


def test_time_without_a_save_does_not_let_saves_pile_up():
    schedule = Overhead(0.1)
    schedule.advance(0)
    now = save(schedule, 1, stall=1)
    now = save(schedule, now + 10_000, stall=1)
    assert not schedule.is_due(now + 4)


@pytest.mark.parametrize("at_least_every", [None, 12])
def test_interval_says_when_the_next_is_due(at_least_every):
    schedule = Overhead(0.1, at_least_every)
    schedule.advance(0)
    now = save(schedule, 1, stall=1)
    schedule.advance(now + 4)
    due = now + 4 + schedule.interval_seconds
    assert not schedule.is_due(due - 0.01)
    assert schedule.is_due(due + 1e-6)
    assert schedule.as_records()["save_expected_stall_seconds"] == 1


@pytest.mark.parametrize(
    "seconds", [0, -1, math.nan, True, False, "600", datetime.timedelta(minutes=10)]
)
@pytest.mark.parametrize(
    "make",
    [EveryNSeconds, Overhead, lambda seconds: Overhead(0.1, at_least_every=seconds)],
    ids=["every_n_seconds", "max_overhead", "at_least_every"],
)
def test_what_is_no_length_of_time_is_refused(make, seconds):
    with pytest.raises(ValueError, match="give a number above 0"):
        make(seconds)


def test_share_of_one_is_refused():
    with pytest.raises(ValueError, match="below 1"):
        Overhead(1)


def test_stall_without_a_beginning_is_none():
    schedule = Overhead(0.1)
    assert schedule.end(5) == 0
    assert schedule.expected_stall_seconds == 0
