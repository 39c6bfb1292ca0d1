import threading

import pytest

from blocks_checkpoint.archive.parallel import available_cores, for_each


@pytest.mark.parametrize("threads", [0, 1, 2, 5])
def test_every_item_is_taken_once(threads):
    taken = []
    for_each(taken.append, range(200), threads)
    assert sorted(taken) == list(range(200))


def test_no_item_is_no_work():
    for_each(pytest.fail, [], 2)


def test_threads_work_at_the_same_time():
    meeting = threading.Barrier(3, timeout=30)
    for_each(lambda item: meeting.wait(), range(3), 3)


def test_error_of_the_first_item_is_raised_and_the_rest_left():
    taken = []

    def work(item):
        taken.append(item)
        raise ValueError(item)

    with pytest.raises(ValueError, match="^0$"):
        for_each(work, range(1000), 2)
    assert len(taken) <= 2


def test_interrupt_in_a_thread_reaches_the_caller_and_no_thread_is_left():
    def work(item):
        if item == 3:
            raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        for_each(work, range(10), 3)
    assert threading.active_count() == before


def test_calling_thread_does_all_where_no_thread_can_be_started(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    taken = []
    for_each(taken.append, range(5), 4)
    assert taken == [0, 1, 2, 3, 4]


def test_there_is_a_core():
    assert available_cores() >= 1
