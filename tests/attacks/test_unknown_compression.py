"""A compression that the reader does not know, or whose sizes make no sense."""

import io

import pytest
from forged import Entry, archive

from blocks_checkpoint.archive import ArchiveReader
from blocks_checkpoint.errors import HostileCheckpoint


@pytest.mark.parametrize("method", [1, 6, 9, 12, 14, 93, 99, 0xFFFF])
def test_method_is_refused(method):
    changes = {"method": method}
    content = archive(Entry("log", b"x", local=changes, central=changes))
    with pytest.raises(HostileCheckpoint, match=f"method {method} is neither stored nor deflate"):
        ArchiveReader(io.BytesIO(content))


@pytest.mark.parametrize("marked", [False, True])
def test_stored_member_of_two_sizes_is_refused(marked):
    changes = {"size": 100}
    content = archive(Entry("log", b"x", local=changes, central=changes), marked=marked)
    with pytest.raises(HostileCheckpoint, match="100 bytes take 1"):
        ArchiveReader(io.BytesIO(content))
