"""No damage to a checkpoint is silent: reading says what is damaged, or reads what was written.

The checkpoint is a real one, with a member of every kind.
"""

import bz2
import gzip
import io
import json
import lzma
import os
import pickle
import tarfile
import zipfile

import h5py
import numpy
import pytest
from drifting import make_main_loop

from blocks_checkpoint import (
    Checkpoint,
    LoadParameters,
    Resume,
    continue_training,
    load_iteration_state,
    load_log,
    load_main_loop,
    load_parameters,
    open_checkpoint,
    save_parameters,
)
from blocks_checkpoint.checkpoint_file import CheckpointFile
from blocks_checkpoint.errors import CheckpointError, DamagedCheckpoint, LoadError, NotACheckpoint

PICKLES = ["iteration_state", "pkl", "log", "data_stream"]
LARGE = "arrays/0.npy"
SMALL_BYTES = 3000


class Sample:
    """A file, and which member each of its bytes belongs to.

    What lies before the data of a member, belongs to it; what lies behind the
    last, to the directory.
    """

    def __init__(self, content):
        self.content = content
        with open_checkpoint(io.BytesIO(content)) as checkpoint:
            self.values = values_of(checkpoint)
            self.members = checkpoint.archive.members
        #: Where each begins.
        self.regions = {name: member.header_offset for name, member in self.members.items()}
        last = list(self.members.values())[-1]
        self.regions["directory"] = last.data_offset + last.stored_size

    def owner(self, offset):
        """Name the member that a byte belongs to."""
        return [name for name, begin in self.regions.items() if begin <= offset][-1]

    def range_of(self, name):
        """Return where the bytes of a member are, or those of the directory."""
        begins = [*self.regions.values(), len(self.content)]
        index = list(self.regions).index(name)
        return range(begins[index], begins[index + 1])

    def flipped(self, offset, bit):
        """Return the content with one bit changed."""
        changed = bytearray(self.content)
        changed[offset] ^= 1 << bit
        return bytes(changed)


def values_of(checkpoint):
    """Read all there is, without running anything."""
    values = {name: checkpoint.archive.read(name) for name in checkpoint.archive.members}
    values["manifest"] = checkpoint.manifest
    for name in checkpoint.arrays:
        array = checkpoint.arrays[name]
        values["array", name] = (array.dtype, array.shape, array.tobytes())
    if "log" in values:
        values["the log"] = dict(checkpoint.log())
    return values


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """Save a checkpoint with a member of every kind."""
    path = tmp_path_factory.mktemp("sample") / "run.zip"
    saving = Checkpoint(path, save_separately=["log", "iteration_state", "data_stream"])
    main_loop = make_main_loop(saving, epochs=1)
    main_loop.algorithm.large = numpy.random.RandomState(1).rand(1 << 13)
    main_loop.run()
    made = Sample(path.read_bytes())
    assert {*PICKLES, LARGE, "random_state", "checkpoint.json"} < set(made.members)
    assert any(name.startswith("mlp/") for name in made.members)
    return made


@pytest.fixture(scope="module")
def small_sample():
    """Save parameters alone, in a file of which every bit can be tried in seconds."""
    file = io.BytesIO()
    save_parameters({"/mlp/linear_0.W": numpy.eye(2), "/mlp/linear_0.b": numpy.ones(2, "f4")}, file)
    return Sample(file.getvalue())


def damaged_by(content, member):
    """Say which member of a damaged file is found to be so on opening it or reading that one."""
    try:
        checkpoint = open_checkpoint(io.BytesIO(content))
    except CheckpointError as error:
        return error.member
    with checkpoint:
        try:
            checkpoint.archive.read(member)
        except CheckpointError as error:
            return error.member
    return None


def found_by_verifying(content):
    """Say which members of a damaged file are found to be so on opening or verifying it."""
    try:
        checkpoint = open_checkpoint(io.BytesIO(content))
    except NotACheckpoint:
        return ["nothing of ours"]
    except CheckpointError as error:
        return [error.member]
    with checkpoint:
        return [damage.member for damage in checkpoint.verify()]


# One bit


def test_any_bit_of_a_small_checkpoint_is_found_and_its_member_named(small_sample):
    for offset in range(len(small_sample.content)):
        owner = small_sample.owner(offset)
        for bit in range(8):
            flipped = small_sample.flipped(offset, bit)
            assert found_by_verifying(flipped) == [owner], (offset, bit)
            assert damaged_by(flipped, owner) == owner, (offset, bit)


def test_any_bit_of_headers_directory_and_manifest_is_found_and_its_member_named(sample):
    for owner in sample.regions:
        for offset in structure_of(sample, owner):
            for bit in range(8):
                assert damaged_by(sample.flipped(offset, bit), owner) == owner, (owner, offset, bit)


def structure_of(sample, owner):
    """Return the bytes of a member that are all tried: those of a large one's header only."""
    bytes_of_owner = sample.range_of(owner)
    is_large = owner != "directory" and sample.members[owner].size > SMALL_BYTES
    return bytes_of_owner[:256] if is_large else bytes_of_owner


def test_bits_all_over_a_checkpoint_are_found_by_verifying_and_nothing_else_is_changed(sample):
    bits = 8 * len(sample.content)
    # A prime, so that every bit of a byte and every place in a word has its turn.
    for position in range(0, bits, 2003):
        offset, bit = divmod(position, 8)
        owner = sample.owner(offset)
        flipped = sample.flipped(offset, bit)
        assert found_by_verifying(flipped) == [owner], (offset, bit)
        if owner in ("directory", "checkpoint.json"):
            continue
        with open_checkpoint(io.BytesIO(flipped)) as checkpoint:
            for name in sample.members:
                if name != owner:
                    assert checkpoint.archive.read(name) == sample.values[name]


@pytest.mark.slow
def test_any_bit_of_a_large_checkpoint_is_found_and_its_member_named(sample):
    for owner in sample.regions:
        for offset in sample.range_of(owner):
            for bit in range(8):
                assert damaged_by(sample.flipped(offset, bit), owner) == owner, (owner, offset, bit)


# A file that another program packed again has no checksum of its directory: flags
# and dates in it, which have no influence on any value, may change unnoticed.

every_method = pytest.mark.parametrize(
    "method",
    [
        pytest.param(zipfile.ZIP_STORED, id="stored"),
        pytest.param(zipfile.ZIP_DEFLATED, id="deflated"),
    ],
)


def packed_again(sample, method):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as packed:
        for name in sample.members:
            packed.writestr(name, sample.values[name])
    return file.getvalue()


def assert_found_or_of_no_matter(sample, content, position):
    offset, bit = divmod(position, 8)
    changed = bytearray(content)
    changed[offset] ^= 1 << bit
    found = found_by_verifying(changed)
    if found == []:
        with open_checkpoint(io.BytesIO(changed)) as checkpoint:
            assert isinstance(checkpoint, CheckpointFile), (offset, bit)
            assert values_of(checkpoint) == sample.values, (offset, bit)
    else:
        assert all(found), (offset, bit)


@every_method
def test_any_bit_of_a_small_file_that_was_packed_again_is_found_or_of_no_matter(
    small_sample, method
):
    content = packed_again(small_sample, method)
    for position in range(8 * len(content)):
        assert_found_or_of_no_matter(small_sample, content, position)


@every_method
def test_bits_of_a_file_that_was_packed_again_are_found_or_of_no_matter(sample, method):
    content = packed_again(sample, method)
    directory = content.rindex(b"iteration_state") - 46
    assert content[directory:].startswith(b"PK\x01\x02")
    for position in [*range(0, 8 * directory, 4001), *range(8 * directory, 8 * len(content), 7)]:
        assert_found_or_of_no_matter(sample, content, position)


# More than a bit


def test_file_that_is_cut_off_anywhere_is_no_checkpoint(sample):
    size = len(sample.content)
    for length in [*range(1, size - 5000, 251), *range(size - 5000, size)]:
        with pytest.raises(DamagedCheckpoint, match="cut off|damaged") as caught:
            open_checkpoint(io.BytesIO(sample.content[:length]))
        assert caught.value.member == "directory"


def test_small_file_that_is_cut_off_anywhere_is_no_checkpoint(small_sample):
    for length in range(1, len(small_sample.content)):
        assert found_by_verifying(small_sample.content[:length]) == ["directory"]


@pytest.mark.parametrize("size", [1, 16, 512, 4096])
@pytest.mark.parametrize("filling", [b"\0", b"\xff"], ids=["zeros", "ones"])
def test_page_that_is_overwritten_anywhere_is_found(sample, size, filling):
    step = max(size, len(sample.content) // 300)
    for offset in range(0, len(sample.content) - size + 1, step):
        page = slice(offset, offset + size)
        if sample.content[page] == filling * size:
            continue
        content = bytearray(sample.content)
        content[page] = filling * size
        owners = {
            sample.owner(place)
            for place in range(offset, offset + size)
            if sample.content[place] != filling[0]
        }
        found = found_by_verifying(bytes(content))
        assert found, offset
        # What makes it impossible to open hides the rest.
        assert set(found) == owners or found in (["directory"], ["checkpoint.json"])
        assert set(found) <= owners


def test_pages_that_changed_places_are_found(sample):
    size = 4096
    pages = [sample.content[at : at + size] for at in range(0, len(sample.content), size)]
    for number in range(len(pages) - 2):
        swapped = [*pages]
        swapped[number : number + 2] = reversed(pages[number : number + 2])
        assert found_by_verifying(b"".join(swapped)), number


def test_file_that_is_partly_of_another_save_is_found(sample, tmp_path):
    path = tmp_path / "run.zip"
    path.write_bytes(sample.content)
    continue_training(path)
    saving = Checkpoint(path, save_separately=["log", "iteration_state", "data_stream"])
    main_loop = make_main_loop(saving, epochs=2)
    main_loop.algorithm.large = numpy.random.RandomState(1).rand(1 << 13)
    main_loop.run()
    other = path.read_bytes()
    assert other != sample.content
    for boundary in range(512, min(len(other), len(sample.content)), 512):
        for first, second in ((sample.content, other), (other, sample.content)):
            torn = first[:boundary] + second[boundary:]
            assert torn in (sample.content, other) or found_by_verifying(torn), boundary


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda content: content + b"x", id="a-byte-behind"),
        pytest.param(lambda content: content + bytes(4096), id="a-page-of-zeros-behind"),
        pytest.param(lambda content: b"x" + content, id="a-byte-before"),
        pytest.param(lambda content: content + content, id="twice"),
        pytest.param(lambda content: content[1:], id="without-the-first-byte"),
        pytest.param(lambda content: content[:5000] + content[5001:], id="without-one-within"),
        pytest.param(lambda content: content[:5000] + b"x" + content[5000:], id="one-more-within"),
        pytest.param(lambda content: content.replace(b"\n", b"\r\n"), id="lines-end-as-on-windows"),
        pytest.param(
            lambda content: content.decode("latin-1").encode("utf-8"), id="taken-for-text"
        ),
    ],
)
def test_bytes_too_many_or_too_few_are_found(sample, change):
    with pytest.raises(CheckpointError) as caught:
        open_checkpoint(io.BytesIO(change(sample.content)))
    assert caught.value.member == "directory" or isinstance(caught.value, NotACheckpoint)


# What a damaged member keeps from being loaded

LOADERS = {
    "log": load_log,
    "iteration_state": load_iteration_state,
    "pkl": load_main_loop,
    "parameters": load_parameters,
    "everything": continue_training,
}


@pytest.mark.parametrize(
    ("member", "spoiled"),
    [
        ("log", {"log", "pkl", "everything"}),
        ("iteration_state", {"iteration_state", "pkl", "everything"}),
        ("pkl", {"pkl", "everything"}),
        ("random_state", {"everything"}),
        ("data_stream", set()),
        (LARGE, {"pkl", "everything"}),
        ("mlp/linear_0/W.npy", {"parameters", "pkl", "everything"}),
        ("checkpoint.json", set(LOADERS)),
    ],
)
def test_damaged_member_spoils_what_needs_it_and_nothing_else(sample, tmp_path, member, spoiled):
    path = tmp_path / "run.zip"
    begin = sample.members[member].data_offset
    path.write_bytes(sample.flipped(begin + sample.members[member].size - 3, 4))
    before = path.read_bytes()
    for name, load in LOADERS.items():
        if name not in spoiled:
            load(path)
            continue
        with pytest.raises(DamagedCheckpoint) as caught:
            load(path)
        assert (caught.value.path, caught.value.member) == (str(path), member)
        assert str(caught.value).startswith(f"{path}, member {member!r}: ")
        assert path.read_bytes() == before


# What is no checkpoint at all


def _tar():
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        info = tarfile.TarInfo("notes.txt")
        info.size = 5
        archive.addfile(info, io.BytesIO(b"hello"))
    return file.getvalue()


def _zip():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("notes.txt", "hello")
    return file.getvalue()


def _npy():
    file = io.BytesIO()
    numpy.save(file, numpy.eye(2))
    return file.getvalue()


def _hdf5():
    file = io.BytesIO()
    with h5py.File(file, "w") as data:
        data["features"] = numpy.eye(2)
    return file.getvalue()


OTHERS = [
    pytest.param(b"", "an empty file", id="empty"),
    pytest.param(bytes(10_000), "a file of zeros", id="zeros"),
    pytest.param(b"epoch 1: cost 0.5\n" * 100, "text", id="text"),
    pytest.param(json.dumps({"format": "blocks_checkpoint"}).encode(), "text", id="json"),
    pytest.param(_zip(), "a zip archive of 'notes.txt'", id="zip"),
    pytest.param(_tar(), "a tar archive, though none of those that Blocks wrote", id="tar"),
    pytest.param(_hdf5(), "an HDF5 file", id="hdf5"),
    pytest.param(_npy(), "a single NumPy array", id="npy"),
    pytest.param(gzip.compress(_zip()), "a gzip file", id="gzip"),
    pytest.param(bz2.compress(_tar()), "a bzip2 file", id="bzip2"),
    pytest.param(lzma.compress(_tar()), "an xz file", id="xz"),
    pytest.param(pickle.dumps({"W": 1}), "a plain pickle", id="pickle"),
    pytest.param(os.urandom(16) * 100, "another kind of file", id="noise"),
]


def resume_in_a_loop(path):
    make_main_loop(Resume(path)).run()


def load_in_a_loop(path):
    make_main_loop(LoadParameters(path)).run()


@pytest.mark.parametrize(("content", "words"), OTHERS)
def test_what_is_no_checkpoint_is_said_to_be_what_it_seems(tmp_path, content, words):
    path = tmp_path / "run.zip"
    if words == "another kind of file":
        content = b"\x01\x9f" + content
    path.write_bytes(content)
    for load in (open_checkpoint, *LOADERS.values(), resume_in_a_loop, load_in_a_loop):
        with pytest.raises(LoadError) as caught:
            load(path)
        assert isinstance(caught.value, NotACheckpoint)
        assert caught.value.path == str(path)
        assert words in str(caught.value)
    assert path.read_bytes() == content


def test_folder_and_pipe_are_said_to_be_so_and_nobody_waits(tmp_path):
    os.mkdir(tmp_path / "folder")
    os.mkfifo(tmp_path / "pipe")
    for name, words in (("folder", "this is a folder"), ("pipe", "this is a named pipe")):
        for load in (open_checkpoint, load_parameters, load_log, load_main_loop):
            with pytest.raises(NotACheckpoint, match=words):
                load(tmp_path / name)
