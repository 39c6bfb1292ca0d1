"""What is done for many members at once is what would be done for each of them."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocks_checkpoint.archive import ArchiveReader, ArchiveWriter, columns, directory
from blocks_checkpoint.archive import zip_structures as zs
from blocks_checkpoint.errors import CheckpointError, SaveError

ARRAYS = {
    "matrix": np.arange(12.0).reshape(3, 4),
    "fortran": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "strided": np.arange(24).reshape(4, 6)[::2, ::3],
    "scalar": np.array(7, ">i2"),
    "empty": np.zeros((3, 0), "f4"),
    "dates": np.array(["2020-01-01", "NaT"], "M8[D]"),
    "text": np.array(["a", "bc"]),
    "records": np.zeros(3, [("x", "<f4"), ("y", "u1", (2,))]),
    "void": np.zeros(2, "V3"),
    "complex": np.ones(5, "c16"),
    "read_only": np.broadcast_to(np.float32(1), (4,)),
}
PLAIN_NAMES = st.from_regex(r"[A-Za-z0-9_]{1,3}(/[A-Za-z0-9_.\-]{1,9}){0,2}\.npy", fullmatch=True)


def written(add, file=None):
    file = io.BytesIO() if file is None else file
    with ArchiveWriter(file) as writer:
        writer.add_bytes("log", b"a log")
        add(writer)
        writer.add_bytes("checkpoint.json", b"{}")
    return file.getvalue()


def one_by_one(pairs):
    def add(writer):
        for name, array in pairs:
            writer.add_array(name, array)

    return written(add)


def together(pairs):
    return written(lambda writer: writer.add_arrays(pairs))


@settings(max_examples=50, deadline=None)
@given(names=st.lists(PLAIN_NAMES, unique_by=str.lower, max_size=40), data=st.data())
def test_arrays_added_together_make_the_archive_that_they_make_one_by_one(names, data):
    kinds = st.sampled_from(list(ARRAYS.values()))
    pairs = [(name, data.draw(kinds)) for name in names if "/." not in name and "/-" not in name]
    assert together(pairs) == one_by_one(pairs)


@pytest.mark.parametrize("odd", ["é.npy", "a b.npy", ".W.npy", "folder/-W.npy"])
def test_array_of_another_kind_among_them_changes_nothing(odd):
    pairs = [(f"{name}.npy", array) for name, array in ARRAYS.items()]
    pairs.insert(3, (odd, np.arange(5)))
    pairs.insert(5, ("large.npy", np.arange(200_000)))
    pairs.insert(7, ("subclass.npy", np.arange(3).view(np.recarray)))
    assert together(pairs) == one_by_one(pairs)


@pytest.mark.parametrize(
    ("name", "array", "words"),
    [
        ("W0.npy", np.arange(3), "of this name already"),
        ("w1.npy", np.arange(3), "of this name already"),
        ("Log", np.arange(3), "of this name already"),
        ("../W.npy", np.arange(3), "not allowed"),
        ("a\nb.npy", np.arange(3), "not allowed"),
        ("W.npz", np.arange(3), "must end in .npy"),
        ("W.npy", np.array([None]), "Python objects"),
        ("W.npy", np.ma.masked_array([1], [True]), "mask"),
    ],
)
def test_one_that_is_refused_is_named_and_those_before_it_are_there(name, array, words):
    pairs = [(f"W{number}.npy", np.full(3, number)) for number in range(5)]
    file = io.BytesIO()
    with ArchiveWriter(file) as writer:
        writer.add_bytes("log", b"a log")
        with pytest.raises(SaveError, match=words) as caught:
            writer.add_arrays([*pairs, (name, array)])
        assert caught.value.member == name
        writer.add_array("after.npy", np.arange(2))
    with ArchiveReader(file) as reader:
        assert list(reader.members) == ["log", *dict(pairs), "after.npy"]
        assert reader.verify() == []


def test_arrays_that_change_right_after_are_those_of_the_call():
    array = np.zeros(100)

    def add(writer):
        writer.add_arrays([("W.npy", array)])
        array[:] = 1

    with ArchiveReader(io.BytesIO(written(add))) as reader:
        assert not reader.read_array("W.npy").any()
        assert reader.verify() == []


def test_small_arrays_are_read_as_they_are():
    pairs = {f"{name}.npy": array for name, array in ARRAYS.items()}
    with ArchiveReader(io.BytesIO(together(pairs.items()))) as reader:
        read = reader.read_arrays(pairs)
    for name, array in pairs.items():
        assert read[name].dtype == array.dtype
        assert read[name].shape == array.shape
        assert read[name].tobytes() == array.tobytes()
        assert read[name].flags.writeable
        assert read[name].base is None


def test_columns_are_found_in_an_archive_of_plain_members():
    """Without this, the tests of equality below would compare one way with itself."""
    content = together([(f"{name}.npy", array) for name, array in ARRAYS.items()])
    with ArchiveReader(io.BytesIO(content)) as reader:
        raw, end = directory_of(content)
        found = columns.plain_members(raw, end.entries, end.offset)
        assert found == reader.members
        assert len(found) == len(ARRAYS) + 2


def directory_of(content):
    with directory.ByteSource(io.BytesIO(content)) as source:
        end = directory.find_end(source)
        return source.read_at(end.offset, end.size), end


def what_is_listed(content):
    try:
        with ArchiveReader(io.BytesIO(content)) as reader:
            return reader.members
    except CheckpointError as error:
        return type(error), error.member, error.message


@settings(max_examples=300, deadline=None)
@given(
    position=st.integers(0, 10_000),
    replacement=st.one_of(st.binary(min_size=1, max_size=4), st.just(zs.CENTRAL_SIGNATURE)),
)
def test_directory_with_a_fault_is_judged_as_entry_by_entry(position, replacement):
    content = together([(f"layer/{name}.npy", array) for name, array in ARRAYS.items()])
    raw, end = directory_of(content)
    position %= len(raw) - len(replacement)
    raw = raw[:position] + replacement + raw[position + len(replacement) :]
    # A stranger can write the sum of the directory as well as we can.
    forged = content[: end.offset] + raw + zs.ending(raw, end.entries, end.offset)
    with pytest.MonkeyPatch.context() as patch:
        at_once = what_is_listed(forged)
        patch.setattr(directory, "plain_members", lambda *_: None)
        assert at_once == what_is_listed(forged)


@pytest.mark.parametrize("change", [-1, 1])
def test_number_of_entries_that_is_wrong_is_noticed(change):
    content = together([("a.npy", np.arange(3)), ("b.npy", np.arange(3))])
    raw, end = directory_of(content)
    assert columns.plain_members(raw, end.entries + change, end.offset) is None
    assert columns.plain_members(raw, end.entries, end.offset + change) is None
