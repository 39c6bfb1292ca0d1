"""An array of Python objects: numpy would unpickle it, and run what the pickle says."""

import io
import os
import pickle

import pytest
from forged import Entry, archive, npy

from blocks_checkpoint.archive import ArchiveReader
from blocks_checkpoint.errors import HostileCheckpoint


class Payload:
    """Leaves a mark where it is unpickled."""

    def __reduce__(self):
        return os.system, ("touch canary",)


@pytest.mark.parametrize(
    "descr",
    ["'|O'", "'O'", "'|O8'", "[('a', '|O')]", "[('a', [('b', '<f4'), ('c', '|O')])]", "'object'"],
)
def test_payload_is_refused_and_never_runs(tmp_path, monkeypatch, descr):
    monkeypatch.chdir(tmp_path)
    payload = pickle.dumps(Payload())
    content = archive(Entry("W.npy", npy(descr=descr, shape="(1,)", data=payload)))
    with ArchiveReader(io.BytesIO(content)) as reader:
        for read in (
            reader.read_array,
            reader.array_header,
            reader.map_array,
            lambda name: reader.read_arrays([name]),
        ):
            with pytest.raises(HostileCheckpoint, match="Python objects|not one that numpy stores"):
                read("W.npy")
        assert [damage.member for damage in reader.verify()] == ["W.npy"]
    assert os.listdir(tmp_path) == []
