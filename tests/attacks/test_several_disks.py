"""An archive in several parts, of which this is one."""

import io

import pytest
from forged import Entry, archive

from blocks_checkpoint.archive import ArchiveReader
from blocks_checkpoint.errors import DamagedCheckpoint, HostileCheckpoint


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("end", [{"disk": 1}, {"first_disk": 1}, {"here": 0}, {"count": 2}])
def test_end_that_speaks_of_other_disks_is_refused(end, marked):
    content = archive(Entry("log", b"x"), end=end, marked=marked)
    with pytest.raises((HostileCheckpoint, DamagedCheckpoint), match="several disks") as caught:
        ArchiveReader(io.BytesIO(content))
    assert caught.value.member == "directory"


@pytest.mark.parametrize("disk", [1, 0xFFFF])
def test_entry_on_another_disk_is_refused(disk):
    content = archive(Entry("log", b"x", central={"disk": disk}))
    with pytest.raises(HostileCheckpoint, match="on another disk"):
        ArchiveReader(io.BytesIO(content))
