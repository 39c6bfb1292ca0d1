import bz2
import gzip
import io
import lzma
import pickle
import tarfile

import numpy as np
import pytest

from blocks_checkpoint.archive import ArchiveReader
from blocks_checkpoint.archive.file_kinds import what_it_seems
from blocks_checkpoint.errors import DamagedCheckpoint, NotACheckpoint


def _tar():
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("_pkl"), io.BytesIO(b""))
    return file.getvalue()


def _npy():
    file = io.BytesIO()
    np.save(file, np.eye(2))
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "an empty file"),
        (bytes(5000), "a file of zeros"),
        (b"learning rate: 0.1\n", "text"),
        ("größe\n".encode() * 300, "text"),
        (_tar(), "a tar archive"),
        (gzip.compress(b"x"), "a gzip file"),
        (bz2.compress(b"x"), "a bzip2 file"),
        (lzma.compress(b"x"), "an xz file"),
        (b"\x89HDF\r\n\x1a\n" + bytes(100), "an HDF5 file"),
        (_npy(), "a single NumPy array"),
        (pickle.dumps({"a": 1}, 2), "a plain pickle"),
        (pickle.dumps({"a": 1}, 5), "a plain pickle"),
        (pickle.dumps({"a": 1}, 0), "a plain pickle of protocol 0"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a Git LFS pointer"),
        (b"\x89PNG\r\n\x1a\n" + bytes(20), "a PNG image"),
        (b"PK\x07\x08rest", "one part of a zip archive in several parts"),
        (b"\xfe\xfa\x12\x00", "another kind of file"),
    ],
)
def test_message_says_what_a_file_seems_to_be(tmp_path, content, words):
    assert what_it_seems(content[:1024]).startswith(words)
    path = tmp_path / "run.zip"
    path.write_bytes(content)
    with pytest.raises(NotACheckpoint) as caught:
        ArchiveReader(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 30])
def test_beginning_of_a_zip_is_called_damaged_rather(tmp_path, length):
    path = tmp_path / "run.zip"
    path.write_bytes((b"PK\x03\x04" + bytes(26))[:length])
    with pytest.raises(DamagedCheckpoint, match="cut off"):
        ArchiveReader(path)


def test_text_is_recognised_where_a_letter_is_cut_in_two():
    assert what_it_seems("é".encode() * 10 + b"\xc3") == "text"


def test_tar_that_ends_with_a_zip_is_a_tar(tmp_path):
    # As those of Blocks do, whose parameters are a zip.
    npz, path = io.BytesIO(), tmp_path / "run.tar"
    np.savez(npz, W=np.eye(2))
    with tarfile.open(path, "w") as archive:
        info = tarfile.TarInfo("parameters")
        info.size = len(npz.getvalue())
        npz.seek(0)
        archive.addfile(info, npz)
    with pytest.raises(NotACheckpoint, match="a tar archive"):
        ArchiveReader(path)
