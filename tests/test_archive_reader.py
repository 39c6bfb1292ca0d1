import gzip
import io
import os
import threading
import tracemalloc

import numpy as np
import pytest

from blocks_checkpoint.archive import ArchiveReader, ArchiveWriter
from blocks_checkpoint.errors import (
    CheckpointNotFound,
    DamagedCheckpoint,
    HostileCheckpoint,
    LoadError,
)


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(1)
    return {
        "small.npy": rng.random((3, 4)),
        "scalar.npy": np.array(7),
        "large.npy": rng.random(2_000_003),
        "fortran.npy": np.asfortranarray(rng.random((700, 900))),
        "void.npy": rng.integers(0, 255, (50, 4), "u1").view("V2"),
        "empty.npy": np.zeros((3, 0)),
    }


@pytest.fixture(scope="module", params=[None, "deflate"])
def path(request, arrays, tmp_path_factory):
    path = tmp_path_factory.mktemp("reader") / "run.zip"
    with open(path, "wb") as file, ArchiveWriter(file, compression=request.param) as writer:
        writer.add_bytes("log", b"a log")
        for name, array in arrays.items():
            writer.add_array(name, array)
    return path


def same(first, second):
    return (
        first.dtype == second.dtype
        and first.shape == second.shape
        and first.tobytes() == second.tobytes()
    )


def test_every_way_of_reading_gives_the_array(path, arrays):
    with ArchiveReader(path) as reader:
        together = reader.read_arrays(arrays)
        assert list(together) == list(arrays)
        for name, array in arrays.items():
            for read in (reader.read_array(name), together[name], reader.map_array(name)):
                assert same(read, array)
                assert read.flags.writeable
                assert read.flags.f_contiguous == array.flags.f_contiguous
            header = reader.array_header(name)
            assert header[:3] == (array.dtype, array.shape, name == "fortran.npy")
            assert header.nbytes == array.nbytes


@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_array_is_read_into_memory_that_is_given(path, arrays, order):
    with ArchiveReader(path) as reader:
        for name, array in arrays.items():
            if order == "strided":
                out = np.zeros((*array.shape, 2), array.dtype)[..., 0]
            else:
                out = np.zeros(array.shape, array.dtype, order)
            assert reader.read_array(name, out=out) is out
            assert np.array_equal(out, array)


def test_void_is_read_into_the_type_it_stands_for(path, arrays):
    with ArchiveReader(path) as reader:
        out = np.zeros((50, 2), "u2")
        reader.read_array("void.npy", out=out)
        assert out.tobytes() == arrays["void.npy"].tobytes()


@pytest.mark.parametrize(
    ("name", "out"),
    [
        ("small.npy", np.zeros((4, 3))),
        ("small.npy", np.zeros((3, 4), "f4")),
        ("small.npy", np.zeros((3, 4), ">f8")),
        ("void.npy", np.zeros((50, 2), "u4")),
        ("void.npy", np.zeros((50, 2), "O")),
        ("small.npy", np.broadcast_to(np.zeros(4), (3, 4))),
    ],
    ids=["shape", "size", "byte-order", "void", "objects", "read-only"],
)
def test_memory_that_does_not_fit_is_refused(path, name, out):
    with ArchiveReader(path) as reader, pytest.raises(ValueError, match="out"):
        reader.read_array(name, out=out)


def test_mapped_array_may_be_changed_and_the_file_stays(path, arrays):
    before = path.read_bytes()
    with ArchiveReader(path) as reader:
        mapped = reader.map_array("large.npy")
        again = reader.map_array("small.npy")
    mapped[:] = 0
    assert not mapped.any()
    assert same(again, arrays["small.npy"])
    assert path.read_bytes() == before
    with ArchiveReader(path) as reader:
        assert same(reader.map_array("large.npy"), arrays["large.npy"])


def test_mapped_array_is_the_callers_own(path, arrays):
    with ArchiveReader(path) as reader:
        mapped = reader.map_array("large.npy")
        mapped[:] = 0
        assert same(reader.map_array("large.npy"), arrays["large.npy"])
    assert not mapped.any()


def test_mapped_array_outlives_a_new_file_in_its_place(path, arrays, tmp_path):
    copy = tmp_path / "run.zip"
    copy.write_bytes(path.read_bytes())
    with ArchiveReader(copy) as reader:
        mapped = reader.map_array("large.npy")
    (tmp_path / "new").write_bytes(b"new")
    os.replace(tmp_path / "new", copy)
    assert same(mapped, arrays["large.npy"])


def test_any_seekable_file_is_read_and_left_open(path, arrays):
    for file in (io.BytesIO(path.read_bytes()), open(path, "rb"), open(path, "rb", buffering=0)):
        with file:
            with ArchiveReader(file) as reader:
                for name in ("small.npy", "large.npy", "fortran.npy"):
                    assert same(reader.read_array(name), arrays[name])
                    assert same(reader.map_array(name), arrays[name])
                assert reader.verify() == []
            assert not file.closed


def test_file_inside_a_compressed_one_is_read(arrays):
    content = io.BytesIO()
    with ArchiveWriter(content) as writer:
        writer.add_array("W.npy", arrays["fortran.npy"])
    packed = io.BytesIO(gzip.compress(content.getvalue(), 1))
    with gzip.open(packed) as file, ArchiveReader(file) as reader:
        assert same(reader.read_array("W.npy"), arrays["fortran.npy"])
        assert same(reader.map_array("W.npy"), arrays["fortran.npy"])


def test_path_is_known_where_there_is_one(path):
    with ArchiveReader(path) as reader:
        assert reader.path == str(path)
    with open(path, "rb") as file, ArchiveReader(file) as reader:
        assert reader.path == str(path)
    with ArchiveReader(io.BytesIO(path.read_bytes())) as reader:
        assert reader.path is None


def test_bytes_are_read_up_to_a_limit(path):
    with ArchiveReader(path) as reader:
        assert reader.read("log", max_bytes=5) == b"a log"
        with pytest.raises(HostileCheckpoint, match="has 5 bytes, and no more than 4") as caught:
            reader.read("log", max_bytes=4)
    assert (caught.value.path, caught.value.member) == (str(path), "log")


def test_member_that_is_not_there_is_a_load_error_with_its_name(path):
    with ArchiveReader(path) as reader:
        for read in (reader.read, reader.read_array, reader.map_array, reader.array_header):
            with pytest.raises(LoadError, match="no such member") as caught:
                read("none")
            assert caught.value.member == "none"


def test_member_of_bytes_is_no_array(path):
    with ArchiveReader(path) as reader, pytest.raises(HostileCheckpoint, match="not an array"):
        reader.read_array("log")


def test_missing_file_is_not_found(tmp_path):
    with pytest.raises(CheckpointNotFound):
        ArchiveReader(tmp_path / "none.zip")


def test_opening_reads_only_the_end_of_the_file(path):
    class Watched(io.BytesIO):
        lowest = 1 << 60

        def readinto(self, view):
            self.lowest = min(self.lowest, self.tell())
            return super().readinto(view)

    file = Watched(path.read_bytes())
    with ArchiveReader(file) as reader:
        assert file.lowest >= min(len(file.getvalue()) - 4096, reader._bytes.directory.offset)


def test_large_array_is_read_without_a_second_copy(path, arrays):
    with ArchiveReader(path) as reader:
        tracemalloc.start()
        try:
            reader.read_array("large.npy")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < arrays["large.npy"].nbytes + (4 << 20)


def test_damage_of_a_large_array_is_found_and_named(path, arrays, tmp_path):
    with ArchiveReader(path) as reader:
        member = reader.members["large.npy"]
    data = bytearray(path.read_bytes())
    data[member.header_offset + member.stored_size // 2] ^= 1
    (tmp_path / "run.zip").write_bytes(data)
    with ArchiveReader(tmp_path / "run.zip") as reader:
        for read in (
            reader.read_array,
            reader.read,
            lambda name: reader.read_arrays(["small.npy", name]),
        ):
            with pytest.raises(DamagedCheckpoint) as caught:
                read("large.npy")
            assert caught.value.member == "large.npy"
        assert [damage.member for damage in reader.verify()] == ["large.npy"]
        assert same(reader.read_array("fortran.npy"), arrays["fortran.npy"])


def test_file_cut_off_while_it_is_open_is_damaged(path, tmp_path):
    copy = tmp_path / "run.zip"
    copy.write_bytes(path.read_bytes())
    with ArchiveReader(copy) as reader:
        os.truncate(copy, 100_000)
        with pytest.raises(DamagedCheckpoint):
            reader.read_array("large.npy")
        with pytest.raises(DamagedCheckpoint):
            reader.read_arrays(["fortran.npy", "small.npy"])


def test_eight_threads_read_from_one_reader(path, arrays):
    wrong = []

    def read(reader, number):
        for turn in range(6):
            name = list(arrays)[(number + turn) % len(arrays)]
            if not same(reader.read_array(name), arrays[name]):
                wrong.append(name)

    with ArchiveReader(path) as reader:
        threads = [threading.Thread(target=read, args=(reader, n)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_no_descriptor_is_left_open(path, tmp_path):
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("the system does not list open files")
    before = set(os.listdir("/proc/self/fd"))
    (tmp_path / "text").write_text("text")
    for _ in range(3):
        with ArchiveReader(path) as reader:
            reader.read_arrays(list(reader.members)[1:])
        with pytest.raises(LoadError):
            ArchiveReader(tmp_path / "text")
        with pytest.raises(LoadError):
            ArchiveReader(tmp_path)
    assert set(os.listdir("/proc/self/fd")) == before


def test_archive_of_numpy_is_read(tmp_path):
    kinds = {"plain": np.savez, "packed": np.savez_compressed}
    for kind, save in kinds.items():
        save(tmp_path / f"{kind}.npz", W=np.eye(40), **{"a/b": np.arange(300_000)})
        with ArchiveReader(tmp_path / f"{kind}.npz") as reader:
            assert reader.verify() == []
            assert list(reader.members) == ["W.npy", "a/b.npy"]
            assert np.array_equal(reader.read_arrays(["W.npy"])["W.npy"], np.eye(40))
            assert np.array_equal(reader.map_array("a/b.npy"), np.arange(300_000))
