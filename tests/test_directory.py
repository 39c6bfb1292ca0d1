import io
import zipfile

import pytest

from blocks_checkpoint.archive import (
    ArchiveReader,
    ArchiveWriter,
    directory,
    directory_end,
    zip_structures,
)
from blocks_checkpoint.errors import HostileCheckpoint, SaveError


def written_by_zipfile(names, **options):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.comment = options.get("comment", b"")
        for name in names:
            archive.writestr(zipfile.ZipInfo(name), name.encode())
    return file


def test_members_are_in_the_order_of_the_directory():
    names = ["z", "a", "m/b", "é"]
    with ArchiveReader(written_by_zipfile(names)) as reader:
        assert list(reader.members) == names
        assert all(member.data_offset is None for member in reader.members.values())


def test_folders_are_no_members():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("mlp/", b"")
        archive.writestr("mlp/log", b"a log")
    with ArchiveReader(file) as reader:
        assert list(reader.members) == ["mlp/log"]
        assert reader.verify() == []


@pytest.mark.parametrize("comment", [b"", b"x", b"x" * 34, b"x" * 5000, b"x" * 65535])
def test_comment_of_any_length_is_passed_over(comment):
    with ArchiveReader(written_by_zipfile(["log"], comment=comment)) as reader:
        assert reader.read("log") == b"log"
        assert reader.verify() == []


def test_name_in_the_old_encoding_of_dos_is_read():
    data = written_by_zipfile(["xyz"]).getvalue()
    # Made by DOS, and named by letters that are no UTF-8.
    data = data.replace(b"xyz", b"\x82\x83\x84")
    entry = data.index(b"PK\x01\x02")
    data = data[: entry + 5] + b"\x00" + data[entry + 6 :]
    with ArchiveReader(io.BytesIO(data)) as reader:
        assert list(reader.members) == ["éâä"]


def test_archive_of_nothing_has_no_members():
    for file in (io.BytesIO(), written_by_zipfile([])):
        if not file.getvalue():
            ArchiveWriter(file).close()
        with ArchiveReader(file) as reader:
            assert reader.members == {}
            assert reader.verify() == []


def test_directory_is_bounded_for_reader_and_writer(monkeypatch):
    file = written_by_zipfile([str(number) for number in range(100)])
    monkeypatch.setattr(zip_structures, "MAX_DIRECTORY_BYTES", 1000)
    with pytest.raises(HostileCheckpoint, match="1000 is the limit"):
        ArchiveReader(file)
    monkeypatch.setattr("blocks_checkpoint.archive.archive_writer.MAX_DIRECTORY_BYTES", 1000)
    with ArchiveWriter(io.BytesIO()) as writer:
        for number in range(20):
            writer.add_bytes(str(number), b"")
        with pytest.raises(SaveError, match="too many members: 20"):
            writer.add_bytes("20", b"")


def test_place_of_the_next_entry_is_known():
    with ArchiveReader(written_by_zipfile(["a", "b"])) as reader:
        found = reader._bytes.directory
        first, second = (member.header_offset for member in found.members.values())
        assert isinstance(found, directory.Directory)
        assert found.next_start(first) == second
        assert found.next_start(second) == found.offset


def test_end_is_found_from_the_last_bytes():
    file = io.BytesIO()
    with ArchiveWriter(file) as writer:
        writer.add_bytes("log", b"a log")
    with ArchiveReader(file) as reader:
        end = directory_end.find_end(reader._source)
        assert (end.entries, end.offset) == (1, 38)
        assert end.mark is not None
