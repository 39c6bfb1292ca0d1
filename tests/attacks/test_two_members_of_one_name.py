"""Two members of one name: readers disagree on which one counts."""

import io

import pytest
from forged import Entry, archive

from blocks_checkpoint.archive import ArchiveReader
from blocks_checkpoint.errors import HostileCheckpoint


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize(
    "names",
    [("log", "log"), ("W.npy", "w.NPY"), ("caf\u00e9", "cafe\u0301"), ("a", "b", "c", "a")],
    ids=["same", "case", "composition", "apart"],
)
def test_second_member_of_a_name_is_refused(names, marked):
    content = archive(*(Entry(name, b"x") for name in names), marked=marked)
    with pytest.raises(HostileCheckpoint, match="two members have this name") as caught:
        ArchiveReader(io.BytesIO(content))
    assert caught.value.member == names[-1]
