import gc
import os
import threading
import zlib

import pytest

from blocks_checkpoint.archive.summer import Summer


def test_sum_of_chunks_is_that_of_the_whole_each_time_anew():
    summer = Summer()
    for chunk_count in (0, 1, 2, 3, 9):
        chunks = [os.urandom(1000 + n) for n in range(chunk_count)]
        for chunk in chunks:
            summer.begin(chunk)
        assert summer.finish() == zlib.crc32(b"".join(chunks))


def test_thread_ends_with_the_object():
    before = set(threading.enumerate())
    summer = Summer()
    summer.begin(b"x")
    summer.finish()
    (thread,) = set(threading.enumerate()) - before
    del summer
    gc.collect()
    thread.join(30)
    assert not thread.is_alive()


def test_error_of_the_thread_is_raised_where_it_is_waited_for():
    summer = Summer()
    summer.begin("text")
    with pytest.raises(TypeError):
        summer.finish()


def test_sums_itself_where_no_thread_can_be_started(monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    summer = Summer()
    summer.begin(b"ab")
    summer.begin(b"c")
    assert summer.finish() == zlib.crc32(b"abc")
