"""What Blocks and Fuel leave undone is done, or told."""

import warnings

import pytest
from drifting import DataStream, make_main_loop, make_stream

from blocks_checkpoint import Checkpoint
from blocks_checkpoint.errors import ReadAheadWarning
from blocks_checkpoint.miniblocks.transformers import Cast
from blocks_checkpoint.upstream import reads_ahead, reopen_files


class ServerDataStream(DataStream):
    """Called like the one of Fuel that reads ahead in another process."""


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_stream_that_reads_ahead_is_announced_once(tmp_path, is_wrapped):
    stream = make_stream(stream_class=ServerDataStream)
    if is_wrapped:
        stream = Cast(stream, "floatX")
    assert reads_ahead(stream) == "ServerDataStream"
    main_loop = make_main_loop(Checkpoint(tmp_path / "run.zip"), epochs=2, stream=stream)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        main_loop.run()
    assert [each.category for each in caught].count(ReadAheadWarning) == 1


def test_other_streams_are_not():
    assert reads_ahead(make_stream()) is None
    assert reads_ahead(Cast(make_stream(), "floatX")) is None


def test_streams_of_other_libraries_are_left_alone():
    stream = make_stream()
    before = dict(stream.__dict__)
    reopen_files(stream)
    assert stream.__dict__ == before
