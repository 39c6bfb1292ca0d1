import errno
import io
import os
import struct
import subprocess
import tracemalloc
import zipfile
import zlib

import numpy as np
import pytest

from blocks_checkpoint.archive import ArchiveReader, ArchiveWriter, member_pieces
from blocks_checkpoint.archive.crc import combine
from blocks_checkpoint.errors import DamagedCheckpoint, SaveError


class Stream(io.RawIOBase):
    """A pipe: it cannot seek, and takes less than it is given."""

    def __init__(self):
        self.content = bytearray()

    def writable(self):
        return True

    def write(self, data):
        taken = min(len(data), 1 << 20)
        self.content += bytes(memoryview(data)[:taken])
        return taken


class Quota:
    """A file whose disk fills up in mid-write."""

    def __init__(self, raw, room, number=errno.ENOSPC, step=1 << 30):
        self.raw, self.room, self.number, self.step = raw, room, number, step

    def __getattr__(self, name):
        return getattr(self.raw, name)

    def write(self, data):
        taken = self.raw.write(bytes(data[: min(self.room, self.step)]))
        self.room -= taken
        if not taken and len(data):
            raise OSError(self.number, os.strerror(self.number))
        return taken


def fill(writer):
    writer.add_bytes("checkpoint.json", b"{}")
    writer.add_array("mlp/W.npy", np.arange(6.0))
    writer.add_bytes("log", [b"one", bytearray(b"two"), memoryview(b"three")])
    writer.add_array("é.npy", np.asfortranarray(np.ones((2, 3))))


def written(fill=fill, **options):
    file = io.BytesIO()
    with ArchiveWriter(file, **options) as writer:
        fill(writer)
    return file.getvalue()


@pytest.mark.parametrize("compression", [None, "deflate"])
def test_independent_programs_find_the_archive_good(tmp_path, compression):
    path = tmp_path / "run.zip"
    path.write_bytes(written(compression=compression))
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["checkpoint.json", "mlp/W.npy", "log", "é.npy"]
        assert archive.read("log") == b"onetwothree"
    with np.load(path, allow_pickle=False) as arrays:
        assert arrays["mlp/W"].tolist() == [0, 1, 2, 3, 4, 5]
        assert arrays["é"].flags.f_contiguous
    done = subprocess.run(["unzip", "-t", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "No errors detected" in done.stdout


def test_unpacking_gives_readable_files_of_1980(tmp_path):
    path = tmp_path / "run.zip"
    path.write_bytes(written())
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            assert info.date_time == (1980, 1, 1, 0, 0, 0)
            assert info.external_attr >> 16 == 0o100644
            assert info.compress_type == zipfile.ZIP_STORED


def test_names_have_the_mark_of_utf8_where_they_need_it():
    with zipfile.ZipFile(io.BytesIO(written())) as archive:
        flags = {info.filename: info.flag_bits for info in archive.infolist()}
    assert flags == {"checkpoint.json": 0, "mlp/W.npy": 0, "log": 0, "é.npy": 0x800}


def test_same_content_gives_the_same_bytes():
    assert written() == written()


def test_array_member_is_what_numpy_reads_as_a_file_of_its_own():
    with ArchiveReader(io.BytesIO(written())) as reader:
        loaded = np.load(io.BytesIO(reader.read("mlp/W.npy")), allow_pickle=False)
    assert loaded.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("name_length", range(5, 75))
def test_array_data_begin_at_a_multiple_of_64_bytes(name_length):
    file = io.BytesIO()
    with ArchiveWriter(file) as writer:
        writer.add_bytes("x", b"x" * name_length)
        member = writer.add_array("n" * (name_length - 4) + ".npy", np.full(3, 7, "u1"))
    header = member.size - 3
    assert (member.data_offset + header) % 64 == 0
    assert file.getvalue()[member.data_offset + header :][:3] == b"\7\7\7"


@pytest.mark.parametrize("before", [0, 1, 63, 64, 3900, 4096, 300_000])
@pytest.mark.parametrize("nbytes", [256 << 10, (256 << 10) + 1, (3 << 20) + 5])
def test_data_of_an_array_of_256_kib_and_more_begin_at_a_page(before, nbytes):
    array = np.frombuffer(np.random.RandomState(before).bytes(nbytes), "u1")
    file = io.BytesIO()
    with ArchiveWriter(file) as writer:
        writer.add_bytes("x", bytes(before))
        writer.add_array("W.npy", array)
        writer.add_array("second.npy", array)
    with ArchiveReader(file) as reader:
        for name in ("W.npy", "second.npy"):
            assert reader.array_header(name).data_offset % 4096 == 0
            assert np.array_equal(reader.read_array(name), array)
        assert reader.verify() == []
    with np.load(io.BytesIO(file.getvalue())) as arrays:
        assert np.array_equal(arrays["second"], array)


def test_large_array_of_a_dtype_that_takes_a_long_header_is_read_by_numpy_all_the_same():
    # Where the data begin, is then left to chance.
    array = np.zeros(300, [(f"field_{number}", "<f8") for number in range(450)])
    file = io.BytesIO()
    with ArchiveWriter(file) as writer:
        member = writer.add_array("W.npy", array)
    assert 8192 < member.size - array.nbytes < 10_000
    with np.load(io.BytesIO(file.getvalue())) as arrays:
        assert arrays["W"].dtype == array.dtype


@pytest.mark.parametrize("seekable", [True, False])
@pytest.mark.parametrize("order", ["C", "F"])
def test_sum_that_is_known_is_taken(seekable, order):
    array = np.random.RandomState(1).rand(1100, 1000).copy(order)
    known = zlib.crc32(array.tobytes(order))
    file = io.BytesIO() if seekable else Stream()
    with ArchiveWriter(file) as writer:
        writer.add_arrays([("W.npy", array), ("V.npy", array)], {"V.npy": known})
        writer.add_array("wrong.npy", array, crc=known ^ 1)
        assert writer.checksum_seconds > 0 or not seekable
    content = file.getvalue() if seekable else bytes(file.content)
    with ArchiveReader(io.BytesIO(content)) as reader:
        assert [damage.member for damage in reader.verify()] == ["wrong.npy"]


def test_members_that_are_returned_are_those_that_are_read():
    file = io.BytesIO()
    with ArchiveWriter(file) as writer:
        members = [
            writer.add_bytes("log", b"abc"),
            writer.add_array("W.npy", np.eye(3)),
            writer.add_array("big.npy", np.zeros(2_000_000)),
        ]
        assert writer.bytes_written == members[-1].data_offset + members[-1].size
    assert writer.bytes_written == len(file.getvalue())
    with ArchiveReader(file) as reader:
        assert list(reader.members.values()) == members


@pytest.mark.parametrize(
    ("compression", "items"),
    [
        (None, 10),
        (None, 40_000),
        (None, 400_000),
        (None, 4_000_000),
        ("deflate", 10),
        ("deflate", 40_000),
        ("deflate", 400_000),
    ],
)
def test_stream_and_file_get_the_same_bytes(compression, items):
    def fill_both(writer):
        writer.add_array("W.npy", np.arange(items, dtype="f4"))
        writer.add_bytes("log", [b"x" * items, b"y"])

    stream = Stream()
    with ArchiveWriter(stream, compression=compression) as writer:
        fill_both(writer)
    assert bytes(stream.content) == written(fill_both, compression=compression)


def test_real_pipe_is_written_to():
    program = "cat"
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        with ArchiveWriter(process.stdin) as writer:
            fill(writer)
        process.stdin.close()
        assert process.stdout.read() == written()


def test_file_opened_for_appending_is_not_patched(tmp_path):
    path = tmp_path / "run.zip"
    with open(path, "ab") as file, ArchiveWriter(file) as writer:
        writer.add_array("W.npy", np.arange(1_000_000))
    with ArchiveReader(path) as reader:
        assert reader.verify() == []


def test_file_that_is_not_at_its_beginning_is_refused():
    file = io.BytesIO(b"abc")
    file.seek(3)
    with pytest.raises(ValueError, match="not at its beginning"):
        ArchiveWriter(file)


def test_unknown_compression_is_refused():
    with pytest.raises(ValueError, match="'lzma'"):
        ArchiveWriter(io.BytesIO(), compression="lzma")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("W.npy", "W.npy"),
        ("W.npy", "w.npy"),
        ("caf\u00e9.npy", "cafe\u0301.npy"),
        ("stra\u00dfe.npy", "STRASSE.npy"),
    ],
)
def test_two_members_of_one_name_are_refused_and_the_first_stays(first, second):
    file = io.BytesIO()
    with ArchiveWriter(file) as writer:
        writer.add_array(first, np.zeros(3))
        with pytest.raises(SaveError, match="of this name already") as caught:
            writer.add_array(second, np.ones(3))
        assert caught.value.member == second
    with ArchiveReader(file) as reader:
        assert list(reader.members) == [first]
        assert reader.read_array(first).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "name", ["", "/W.npy", "a/../W.npy", "a//W.npy", "a\\W.npy", "c:/W.npy", "a\nW.npy", "a/"]
)
def test_name_that_leads_elsewhere_is_refused(name):
    with ArchiveWriter(io.BytesIO()) as writer:
        with pytest.raises(SaveError, match="not allowed"):
            writer.add_bytes(name, b"")
        assert writer.bytes_written == 0


def test_array_that_only_a_pickle_could_hold_is_refused():
    with ArchiveWriter(io.BytesIO()) as writer:
        for array in (np.array([None]), np.zeros(2, [("a", "O")])):
            with pytest.raises(SaveError, match="Python objects"):
                writer.add_array("W.npy", array)
        with pytest.raises(SaveError, match="lose its mask"):
            writer.add_array("W.npy", np.ma.masked_array([1.0], [True]))
        with pytest.raises(SaveError, match=r"must end in \.npy"):
            writer.add_array("W", np.zeros(1))
        assert writer.bytes_written == 0


def test_array_may_be_changed_as_soon_as_it_is_added():
    file = io.BytesIO()
    small, large = np.zeros(10), np.zeros(300_000)
    with ArchiveWriter(file) as writer:
        for name, array in (("s.npy", small), ("l.npy", large)):
            writer.add_array(name, array)
            array[:] = 1
    with ArchiveReader(file) as reader:
        assert not reader.verify()
        assert not reader.read_array("s.npy").any()
        assert not reader.read_array("l.npy").any()


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((3000, 3000)).T,
        np.zeros((3000, 6000))[:, ::2],
        np.broadcast_to(np.zeros(3000), (3000, 3000)),
        np.zeros((3000, 3000))[::-1, ::-1],
        np.zeros(9_000_000)[::-1],
        np.zeros((2, 2, 4500, 500)).transpose(3, 0, 2, 1),
    ],
    ids=["fortran", "strided", "broadcast", "reversed", "reversed-line", "shuffled"],
)
def test_large_array_is_written_in_bounded_memory(tmp_path, array):
    with open(tmp_path / "run.zip", "wb") as file:
        tracemalloc.start()
        try:
            with ArchiveWriter(file) as writer:
                writer.add_array("W.npy", array)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 5 * member_pieces.CHUNK < array.nbytes
    with ArchiveReader(tmp_path / "run.zip") as reader:
        assert np.array_equal(reader.read_array("W.npy"), array)


def test_leaving_with_an_error_writes_no_directory():
    file = io.BytesIO()

    def fail(writer):
        fill(writer)
        raise KeyError

    with pytest.raises(KeyError), ArchiveWriter(file) as writer:
        fail(writer)
    assert b"PK\x05\x06" not in file.getvalue()
    with pytest.raises(ValueError, match="given up"):
        writer.add_bytes("x", b"")


def test_closed_writer_takes_no_more_and_may_be_closed_again():
    file = io.BytesIO()
    writer = ArchiveWriter(file)
    writer.close()
    writer.close()
    with pytest.raises(ValueError, match="closed"):
        writer.add_bytes("x", b"")
    with ArchiveReader(file) as reader:
        assert reader.members == {}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_write_error_at_any_byte_is_raised_and_no_archive_results(number):
    whole = written()
    for room in range(len(whole)):
        file = io.BytesIO()
        with (
            pytest.raises(OSError, match=r"\[Errno") as caught,
            ArchiveWriter(Quota(file, room, number)) as writer,
        ):
            fill(writer)
        assert caught.value.errno == number
        assert len(file.getvalue()) <= room
    file = io.BytesIO()
    with ArchiveWriter(Quota(file, len(whole), number)) as writer:
        fill(writer)
    assert file.getvalue() == whole


def test_writer_is_of_no_more_use_after_a_write_error():
    writer = ArchiveWriter(Quota(io.BytesIO(), 100))
    with pytest.raises(OSError, match="No space"):
        writer.add_array("W.npy", np.zeros(1_000_000))
    with pytest.raises(ValueError, match="broken"):
        writer.add_bytes("x", b"")
    with pytest.raises(ValueError, match="broken"):
        writer.close()


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_file_that_takes_a_little_at_a_time_gets_everything(step):
    file = io.BytesIO()
    with ArchiveWriter(Quota(file, 1 << 40, step=step)) as writer:
        fill(writer)
    assert file.getvalue() == written()


def test_file_that_does_not_wait_is_an_error():
    class Busy(io.BytesIO):
        def write(self, data):
            return None

    writer = ArchiveWriter(Busy())
    writer.add_bytes("x", b"x")
    with pytest.raises(BlockingIOError):
        writer.close()


def test_compressed_member_that_deflate_cannot_shrink_is_read_back(tmp_path):
    noise = np.frombuffer(os.urandom(3_000_001), "u1")
    with (
        open(tmp_path / "run.zip", "wb") as file,
        ArchiveWriter(file, compression="deflate") as writer,
    ):
        member = writer.add_array("W.npy", noise)
    assert member.stored_size > member.size
    with ArchiveReader(tmp_path / "run.zip") as reader:
        assert np.array_equal(reader.read_array("W.npy"), noise)
        assert reader.verify() == []


class Sparse(io.FileIO):
    """A file in which stretches of zeros take no space."""

    def write(self, data):
        if len(data) > 4096 and not np.frombuffer(data[: len(data) & ~7], "u8").any():
            self.seek(len(data), os.SEEK_CUR)
            return len(data)
        return super().write(data)


def crc_of_zeros(length):
    if length < 1 << 20:
        return zlib.crc32(bytes(length))
    half = crc_of_zeros(length // 2)
    return combine(combine(half, half, length // 2), zlib.crc32(bytes(length % 2)), length % 2)


@pytest.mark.parametrize("is_known", [False, True], ids=["summed", "sum-known"])
def test_arrays_and_offsets_past_4_gib(tmp_path, is_known):
    path = tmp_path / "run.zip"
    large = np.zeros((5 << 30) + 3, "u1")
    crc = crc_of_zeros(large.nbytes) if is_known else None
    with Sparse(path, "w+") as file:
        with ArchiveWriter(file) as writer:
            first = writer.add_array("large.npy", large, crc=crc)
            second = writer.add_array("last.npy", np.arange(5))
            writer.add_bytes("log", b"log")
        assert first.size > 1 << 32 < second.header_offset
    assert second.data_offset % 64 == 0
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("large.npy")
        assert (info.file_size, info.header_offset) == (first.size, 0)
        with archive.open("large.npy") as member:
            assert member.read(6) == b"\x93NUMPY"
        assert archive.read("log") == b"log"
    with np.load(path) as arrays:
        assert arrays["last"].tolist() == [0, 1, 2, 3, 4]
    with ArchiveReader(path) as reader:
        assert reader.read_array("last.npy").tolist() == [0, 1, 2, 3, 4]
        header = reader.array_header("large.npy")
        assert (header.shape, header.data_offset % 4096) == (large.shape, 0)
        mapped = reader.map_array("large.npy")
        assert mapped[-1] == 0
        mapped[-1] = 1
    # Reading 5 GiB would take long; the sum of zeros can be had by halves.
    with open(path, "rb") as file:
        file.seek(first.data_offset)
        header = file.read(first.size - large.nbytes)
    assert first.crc32 == combine(zlib.crc32(header), crc_of_zeros(large.nbytes), large.nbytes)


@pytest.mark.parametrize("less", [128, 2000, 4096, 5000])
def test_array_that_is_past_4_gib_only_with_its_header(tmp_path, less):
    path = tmp_path / "run.zip"
    large = np.zeros((1 << 32) - less, "u1")
    with Sparse(path, "w+") as file, ArchiveWriter(file) as writer:
        writer.add_bytes("before", b"x")
        writer.add_array("large.npy", large, crc=crc_of_zeros(large.nbytes))
        writer.add_array("last.npy", np.arange(5))
    with zipfile.ZipFile(path) as archive, archive.open("large.npy") as member:
        assert member.read(6) == b"\x93NUMPY"
    with ArchiveReader(path) as reader:
        assert reader.array_header("large.npy").shape == large.shape
        assert reader.read_array("last.npy").tolist() == [0, 1, 2, 3, 4]


def test_small_arrays_on_both_sides_of_4_gib(tmp_path):
    path = tmp_path / "run.zip"
    small = {f"{number}.npy": np.full(200, number) for number in range(5000)}
    with Sparse(path, "w+") as file, ArchiveWriter(file) as writer:
        writer.add_array("large.npy", np.zeros((4 << 30) - (3 << 20), "u1"))
        writer.add_arrays(small.items())
    with zipfile.ZipFile(path) as archive:
        offsets = [info.header_offset for info in archive.infolist()]
        assert offsets[1] < 1 << 32 < offsets[-1]
    with ArchiveReader(path) as reader:
        assert [member.header_offset for member in reader.members.values()] == offsets
        read = reader.read_arrays(small)
    assert all(np.array_equal(read[name], small[name]) for name in small)


@pytest.mark.slow
def test_every_byte_past_2_and_4_gib_is_read_and_checked(tmp_path):
    """Takes 4 GiB of memory, and no room on the disk."""
    path = tmp_path / "run.zip"
    with Sparse(path, "w+") as file, ArchiveWriter(file) as writer:
        members = [
            writer.add_array("first.npy", np.zeros((2 << 30) + 5, "u1")),
            writer.add_array("second.npy", np.zeros((4 << 30) + 5, "u1")),
        ]
    with ArchiveReader(path) as reader:
        read = reader.read_array("second.npy")
        assert read.shape == ((4 << 30) + 5,)
        assert not read[-(1 << 20) :].any()
        del read
    with open(path, "r+b") as file:
        for member in members:
            file.seek(member.data_offset + member.size - 1)
            file.write(b"\x01")
    with ArchiveReader(path) as reader:
        assert [damage.member for damage in reader.verify()] == ["first.npy", "second.npy"]
        with pytest.raises(DamagedCheckpoint, match="CRC-32"):
            reader.read_array("first.npy")


def test_more_members_than_16_bits_count():
    file = io.BytesIO()
    with ArchiveWriter(file) as writer:
        for number in range(65_540):
            writer.add_bytes(str(number), b"")
    assert b"PK\x06\x06" in file.getvalue()[-200:]
    with zipfile.ZipFile(file) as archive:
        assert len(archive.namelist()) == 65_540
    with ArchiveReader(file) as reader:
        assert len(reader.members) == 65_540
        assert reader.read("65539") == b""


def test_nothing_is_in_64_bits_where_32_suffice():
    content = written()
    assert b"PK\x06\x06" not in content
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for info in archive.infolist():
            assert info.extract_version == 20
            assert struct.pack("<H", 1) != info.extra[:2]
