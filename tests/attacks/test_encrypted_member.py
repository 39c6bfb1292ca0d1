"""Members that are encrypted, or ask for features no checkpoint has."""

import io

import pytest
from forged import Entry, archive

from blocks_checkpoint.archive import ArchiveReader
from blocks_checkpoint.errors import HostileCheckpoint


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (0x1, "encrypted"),
        (0x41, "encrypted"),
        (0x20, "flags 0x0020"),
        (0x40, "flags 0x0040"),
        (0x2000, "flags 0x2000"),
    ],
)
def test_flags_are_refused(flags, reason, marked):
    changes = {"flags": flags}
    content = archive(Entry("log", b"x", local=changes, central=changes), marked=marked)
    with pytest.raises(HostileCheckpoint, match=reason):
        ArchiveReader(io.BytesIO(content))
