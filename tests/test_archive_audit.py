import io
import os
import subprocess
import zipfile

import numpy as np
import pytest

from blocks_checkpoint.archive import ArchiveReader, ArchiveWriter, archive_audit
from blocks_checkpoint.errors import LoadError


def small_checkpoint(compression=None):
    """Return a checkpoint in miniature, and what is in it."""
    file = io.BytesIO()
    content = {
        "checkpoint.json": b'{"format": "blocks_checkpoint"}',
        "log": b"\x80\x05N.",
        "mlp/W.npy": np.arange(3, dtype=">i2"),
        "é.npy": np.float32(1.5),
        "empty.npy": np.zeros((0, 2)),
        "pkl": b"",
    }
    with ArchiveWriter(file, compression=compression) as writer:
        for name, value in content.items():
            if isinstance(value, bytes):
                writer.add_bytes(name, value)
            else:
                writer.add_array(name, value)
    return file.getvalue(), content


def outcome(data):
    """Return what reading everything gives: values, and members said to be wrong."""
    try:
        reader = ArchiveReader(io.BytesIO(data))
    except LoadError as error:
        return {}, {error.member or "file"}
    with reader:
        wrong = {damage.member for damage in reader.verify()}
        values = {}
        for name in reader.members:
            try:
                if name.endswith(".npy"):
                    array = reader.read_array(name)
                    values[name] = (array.dtype, array.shape, array.tobytes())
                else:
                    values[name] = reader.read(name)
            except LoadError as error:
                wrong.add(error.member)
    return values, wrong


def comparable(content):
    return {
        name: value if isinstance(value, bytes) else (value.dtype, value.shape, value.tobytes())
        for name, value in content.items()
    }


@pytest.mark.parametrize("compression", [None, "deflate"])
def test_every_single_bit_flip_is_reported_or_changes_no_value(compression):
    data, content = small_checkpoint(compression)
    good, wrong = outcome(data)
    assert good == comparable(content)
    assert not wrong
    members = {"directory", *content}
    for position in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            values, wrong = outcome(bytes(flipped))
            # Some bits of compressed data mean nothing: those after their end.
            harmless = compression and values == good
            assert wrong or harmless, f"bit {bit} of byte {position} was not noticed"
            assert wrong <= members | {"file"}
            # What is read without complaint is what was written.
            assert all(values[name] == good[name] for name in values)


def test_flipped_bit_of_a_member_is_reported_for_that_member_alone():
    data, content = small_checkpoint()
    with ArchiveReader(io.BytesIO(data)) as reader:
        for member in reader.members.values():
            end = member.data_offset + member.stored_size
            for position in range(member.header_offset, end):
                flipped = bytearray(data)
                flipped[position] ^= 0x10
                values, wrong = outcome(bytes(flipped))
                assert wrong == {member.name}
                assert set(values) == set(content) - {member.name}


def test_every_truncation_is_reported():
    data, _ = small_checkpoint()
    for length in range(len(data)):
        values, wrong = outcome(data[:length])
        assert not values
        assert wrong <= {"directory", "file"}


@pytest.mark.parametrize("page", [16, 64, 512])
@pytest.mark.parametrize("filling", [b"\x00", b"\xff"], ids=["zeros", "ones"])
def test_every_lost_page_is_reported_or_changes_nothing(page, filling):
    data, _ = small_checkpoint()
    good, _ = outcome(data)
    for start in range(0, len(data), page):
        length = min(page, len(data) - start)
        lost = data[:start] + filling * length + data[start + length :]
        values, wrong = outcome(lost)
        assert wrong or lost == data
        assert all(values[name] == good[name] for name in values)


def test_appended_bytes_are_reported():
    data, _ = small_checkpoint()
    for tail in (b"\0", b"x" * 100, data):
        assert outcome(data + tail)[1]


def test_rubbish_in_one_member_leaves_the_others_readable(tmp_path):
    data, content = small_checkpoint()
    good = comparable(content)
    with ArchiveReader(io.BytesIO(data)) as reader:
        kept = reader.members["mlp/W.npy"]
        end = kept.data_offset + kept.stored_size
        tail = reader._bytes.directory.offset
    rubbish = os.urandom(kept.header_offset) + data[kept.header_offset : end]
    rubbish += os.urandom(tail - end) + data[tail:]
    values, wrong = outcome(rubbish)
    assert values == {"mlp/W.npy": good["mlp/W.npy"]}
    assert wrong == set(content) - {"mlp/W.npy"}


def test_progress_is_told_and_ends_at_the_size_of_all_members():
    file = io.BytesIO()
    with ArchiveWriter(file) as writer:
        sizes = [writer.add_array(f"{n}.npy", np.zeros(300_000 * n)).size for n in range(1, 5)]
    told = []
    with ArchiveReader(file) as reader:
        assert reader.verify(told.append) == []
    assert told == sorted(told)
    assert told[-1] == sum(sizes)
    assert len(told) > 4


def zipfile_rewritten(data, compression, is_streamed):
    out = io.BytesIO()

    class Pipe(io.RawIOBase):
        def writable(self):
            return True

        def write(self, chunk):
            return out.write(chunk)

    with (
        zipfile.ZipFile(io.BytesIO(data)) as old,
        zipfile.ZipFile(Pipe() if is_streamed else out, "w", compression) as new,
    ):
        for info in old.infolist():
            new.writestr(info.filename, old.read(info.filename))
    return out.getvalue()


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("is_streamed", [False, True], ids=["file", "stream"])
def test_archive_rewritten_by_zipfile_is_good_and_its_flipped_bits_change_no_value(
    compression, is_streamed
):
    data, content = small_checkpoint()
    data = zipfile_rewritten(data, compression, is_streamed)
    good, wrong = outcome(data)
    assert good == comparable(content)
    assert not wrong
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 1 << position % 8
        values, wrong = outcome(bytes(flipped))
        # Dates and attributes may differ, and a name that is damaged both
        # ways in one place only is told; a value that is read is the true one.
        assert all(values[name] == good[name] for name in values)
        assert wrong or values == good


@pytest.mark.parametrize("options", [["-0"], ["-9"], ["-r"], ["-fd"]], ids=str)
def test_archive_rewritten_by_info_zip_is_good(tmp_path, options):
    data, content = small_checkpoint()
    (tmp_path / "old.zip").write_bytes(data)
    folder = tmp_path / "folder"
    subprocess.run(["unzip", "-q", "old.zip", "-d", "folder"], cwd=tmp_path, check=True)
    subprocess.run(["zip", "-q", *options, "-r", "../new.zip", "."], cwd=folder, check=True)
    values, wrong = outcome((tmp_path / "new.zip").read_bytes())
    assert values == comparable(content)
    assert not wrong


def test_archive_from_which_another_program_removed_a_member_says_so(tmp_path):
    data, _ = small_checkpoint()
    (tmp_path / "run.zip").write_bytes(data)
    subprocess.run(["zip", "-q", "-d", "run.zip", "pkl"], cwd=tmp_path, check=True)
    with pytest.raises(LoadError, match="kept the note"):
        ArchiveReader(tmp_path / "run.zip")


def test_bytes_between_members_of_a_foreign_archive_are_reported():
    data, _ = small_checkpoint()
    data = zipfile_rewritten(data, zipfile.ZIP_STORED, False)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        second = archive.infolist()[1].header_offset
    # Made room before the second member, and moved everything after it.
    out = io.BytesIO()
    out.write(data[:second])
    out.write(b"hidden")
    end = data.rindex(b"PK\x05\x06")
    offset = int.from_bytes(data[end + 16 : end + 20], "little")
    out.write(data[second:offset])
    directory = bytearray(data[offset:end])
    position = 0
    while position < len(directory):
        name, extra, comment = (
            int.from_bytes(directory[position + n : position + n + 2], "little")
            for n in (28, 30, 32)
        )
        place = int.from_bytes(directory[position + 42 : position + 46], "little")
        if place >= second:
            directory[position + 42 : position + 46] = (place + 6).to_bytes(4, "little")
        position += 46 + name + extra + comment
    out.write(directory)
    out.write(data[end : end + 16] + (offset + 6).to_bytes(4, "little") + data[end + 20 :])
    with ArchiveReader(out) as reader:
        damage = reader.verify()
    assert [(d.member, d.reason) for d in damage] == [
        ("checkpoint.json", "it is followed by 6 bytes that belong to no member")
    ]


@pytest.mark.parametrize("size", [999, 1000, 1001, 4096, 10_007])
def test_member_summed_in_parts_is_judged_as_one_summed_whole(monkeypatch, size):
    file = io.BytesIO()
    with ArchiveWriter(file) as writer:
        writer.add_bytes("log", b"a log")
        member = writer.add_array("W.npy", np.arange(size, dtype="u1"))
        writer.add_array("b.npy", np.arange(3000))
    sound = file.getvalue()
    places = [*range(member.data_offset - 1, member.data_offset + member.size, 97)]
    for place in [None, *places, member.data_offset + member.size - 1]:
        content = bytearray(sound)
        if place is not None:
            content[place] ^= 1
        found = []
        for part in (1 << 20, 500):
            monkeypatch.setattr(archive_audit, "_PART", part)
            told = []
            with ArchiveReader(io.BytesIO(content)) as reader:
                found.append(reader.verify(told.append))
                total = sum(each.size for each in reader.members.values())
            if place is None:
                assert told[-1] == total
        assert found[0] == found[1]
        assert [damage.member for damage in found[0]] == ["W.npy"] * (place is not None)
