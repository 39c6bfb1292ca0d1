"""What is no old checkpoint, is damaged, or was made by somebody else."""

import io
import pickle
import tarfile
import warnings
import zipfile

import numpy as np
import pytest
from old_checkpoints import (
    FILES,
    KINDS,
    Canary,
    npy,
)

from blocks_checkpoint.errors import (
    CheckpointError,
    CheckpointNotFound,
    DamagedCheckpoint,
    HostileCheckpoint,
)
from blocks_checkpoint.legacy import open_legacy


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"some text\n" * 100, id="text"),
        pytest.param(b"\0" * 1024, id="zeros"),
        pytest.param(pickle.dumps({"a": 1}), id="another-pickle"),
        pytest.param(b"PK\x03\x04 and no more", id="beginning-of-a-zip"),
    ],
)
def test_something_else_is_none(content, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(content)
    assert open_legacy(path) is None
    assert open_legacy(io.BytesIO(content)) is None


def test_archives_of_other_things_are_none(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("readme.txt", "x")
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr("checkpoint.json", "{}")
        archive.writestr("pkl", b"N.")
    with tarfile.open(tmp_path / "c.tar", "w") as archive:
        archive.add(__file__, "x.py")
    with zipfile.ZipFile(tmp_path / "d.zip", "w"):
        pass
    for name in ("a.zip", "b.zip", "c.tar", "d.zip", "."):
        assert open_legacy(tmp_path / name) is None


def test_missing_file_is_not_found(tmp_path):
    with pytest.raises(CheckpointNotFound):
        open_legacy(tmp_path / "none.zip")


@pytest.mark.parametrize("version", [version for version in KINDS if version != "0.0.1"])
def test_every_truncation_is_noticed(version):
    content = (FILES / KINDS[version][0]).read_bytes()
    for length in [*range(0, len(content), 997), len(content) - 1]:
        try:
            checkpoint = open_legacy(io.BytesIO(content[:length]))
        except (DamagedCheckpoint, HostileCheckpoint):
            continue
        if checkpoint is not None:
            # The padding at the end of a tar means nothing.
            assert not content[length:].strip(b"\0") or checkpoint.verify()


@pytest.mark.filterwarnings("ignore::blocks_checkpoint.errors.ParameterWarning")
def test_every_flipped_bit_of_a_parameter_is_noticed():
    content = bytearray((FILES / "blocks-2018-09.tar").read_bytes())
    with open_legacy(io.BytesIO(bytes(content))) as checkpoint:
        expected = {name: checkpoint.parameters[name] for name in checkpoint.parameters}
    start = content.index(b"PK\x03\x04")
    end = content.index(b"_pkl")
    for position in range(start, end, 7):
        content[position] ^= 4
        try:
            checkpoint = open_legacy(io.BytesIO(bytes(content)))
            loaded = {name: checkpoint.parameters[name] for name in checkpoint.parameters}
        except CheckpointError:
            loaded = None
        # Names are covered by no checksum; a changed one is another name.
        for name in set(loaded or ()) & set(expected):
            np.testing.assert_array_equal(loaded[name], expected[name])
        content[position] ^= 4


def _zip_with(tmp_path, content, **attributes):
    path = tmp_path / "old.zip"
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo("mlp.W")
        archive.writestr(info, content)
        archive.writestr("pkl", b"N.")
        for name, value in attributes.items():
            setattr(info, name, value)
    return path


def test_object_array_is_refused(tmp_path):
    path = tmp_path / "p.npz"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.savez(path, W=np.array([Canary()], dtype=object))
    with open_legacy(path) as checkpoint, pytest.raises(DamagedCheckpoint, match="objects"):
        checkpoint.parameters["W"]


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        pytest.param({"file_size": 1 << 40}, "promises", id="size-beyond-the-file"),
        pytest.param({"flag_bits": 1}, "encrypted", id="encrypted"),
        pytest.param({"compress_type": 14}, "compressed in a way", id="another-compression"),
    ],
)
def test_list_of_members_that_nobody_wrote_is_refused(attributes, why, tmp_path):
    path = _zip_with(tmp_path, npy([1.0]), **attributes)
    with pytest.raises(HostileCheckpoint, match=why):
        open_legacy(path)


@pytest.fixture
def repeating(tmp_path):
    """Return a function that writes an archive with members of one name."""

    def write(*members):
        path = tmp_path / "repeating.zip"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with zipfile.ZipFile(path, "w") as archive:
                for name, content in members:
                    archive.writestr(name, content)
        return path

    return write


def test_members_to_which_blocks_gave_one_name_are_numbered(repeating):
    """As in a checkpoint that was once committed to blocks-examples."""
    names = ["mlp.W", "shared_None", "shared_None_2", "shared_None_2", "shared_None_2_0"]
    path = repeating(
        *((name, npy(np.full(2, float(n)))) for n, name in enumerate(names)), ("pkl", b"N.")
    )
    with open_legacy(path) as checkpoint:
        values = {name: checkpoint.arrays[name][0] for name in checkpoint.arrays}
        assert checkpoint.verify() == []
    assert sorted(values.values()) == [0, 1, 2, 3, 4]
    assert values["/mlp.W"] == 0
    assert values["shared_None_2_0"] == 4


@pytest.mark.parametrize("name", ["pkl", "W.npy"])
def test_two_members_of_one_name_that_blocks_never_wrote_are_refused(name, repeating):
    content = npy([1.0]) if name == "W.npy" else b"N."
    with pytest.raises(HostileCheckpoint, match="two members"):
        open_legacy(repeating((name, content), (name, content)))


def test_shape_that_promises_more_than_there_is_is_refused(tmp_path):
    header = npy(np.zeros(2)).replace(b"(2,), ", b"(2" + b"0" * 12 + b",), ")[:128]
    path = _zip_with(tmp_path, header + b"\0" * 16)
    with open_legacy(path) as checkpoint, pytest.raises(DamagedCheckpoint, match="promises"):
        _ = checkpoint.arrays["/mlp.W"]


def _tar_with(*infos):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for info in infos:
            archive.addfile(info, io.BytesIO(b"x" * max(info.size, 0)))
    return buffer


def _info(name, **attributes):
    info = tarfile.TarInfo(name)
    for attribute, value in attributes.items():
        setattr(info, attribute, value)
    return info


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param({"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}, id="symbolic-link"),
        pytest.param({"type": tarfile.LNKTYPE, "linkname": "_parameters"}, id="hard-link"),
        pytest.param({"type": tarfile.CHRTYPE}, id="device"),
        pytest.param({"type": tarfile.FIFOTYPE}, id="pipe"),
    ],
)
def test_member_of_a_tar_that_is_no_file_is_refused(attributes):
    with pytest.raises(HostileCheckpoint, match="no regular file"):
        open_legacy(_tar_with(_info("_pkl", **attributes)))


def test_size_in_a_tar_that_leads_back_ends():
    content = bytearray(_tar_with(_info("_pkl", size=512)).getvalue())
    # A negative number in the binary form of sizes.
    content[124:136] = (-1024).to_bytes(12, "big", signed=True)
    content[148:156] = b" " * 8
    content[148:156] = b"%06o\0 " % sum(content[:512])
    with pytest.raises((HostileCheckpoint, DamagedCheckpoint)):
        open_legacy(io.BytesIO(bytes(content)))
