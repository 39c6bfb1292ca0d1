"""What goes wrong while unpickling is said: where, what, and what to do about it."""

import io
import json
import sys
import types
import zipfile

import numpy as np
import pytest
from drifting import make_main_loop

from blocks_checkpoint import dump, load, load_log, load_main_loop, load_parameters, open_checkpoint
from blocks_checkpoint.archive import ArchiveWriter
from blocks_checkpoint.errors import DamagedCheckpoint, LoadError
from blocks_checkpoint.loading import LoadingSession


@pytest.fixture
def library(monkeypatch):
    """Return a module that tests put classes into and take them out of again."""
    module = types.ModuleType("library_of_tests")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def define(library, name, **members):
    cls = type(name, (), {"__module__": library.__name__, "__qualname__": name, **members})
    setattr(library, name, cls)
    return cls


def saved(path, library, **members):
    thing = define(library, "Thing", **members)()
    thing.value = 1
    main_loop = make_main_loop(epochs=1)
    main_loop.extensions[0].held = thing
    main_loop.run()
    dump(main_loop, path)
    return path


def refuse(self, state):
    raise ValueError("this is not how I am made nowadays")


def remove_class(library):
    del library.Thing


def remove_module(library):
    del sys.modules[library.__name__]


def make_function_of_class(library):
    library.Thing = 3


def make_class_refuse(library):
    define(library, "Thing", __setstate__=refuse)


def give_class_slots(library):
    define(library, "Thing", __slots__=())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (remove_class, "Can't get attribute 'Thing'|has no attribute 'Thing'"),
        (remove_module, "No module named 'library_of_tests'"),
        (make_function_of_class, "TypeError|UnpicklingError"),
        (make_class_refuse, "ValueError: this is not how I am made nowadays"),
        (give_class_slots, "'Thing' object has no attribute '__dict__'"),
    ],
)
def test_a_class_that_has_changed_is_an_error_with_file_member_and_advice(
    change, reason, library, tmp_path
):
    path = saved(tmp_path / "made.zip", library)
    change(library)
    with pytest.raises(LoadError, match=reason) as caught:
        load_main_loop(path)
    assert (caught.value.path, caught.value.member) == (str(path), "pkl")
    assert str(caught.value).startswith(f"{path}, member 'pkl': unpickling failed with ")
    assert "LoadParameters(path)" in str(caught.value)
    assert caught.value.__cause__ is not None
    # What else is in the file does not need the class.
    assert len(load_parameters(path)) == 4
    assert load_log(path).status["epochs_done"] == 1


def edited(path, **changes):
    """Return the checkpoint as a file, its manifest changed."""
    file = io.BytesIO()
    with zipfile.ZipFile(path) as archive, ArchiveWriter(file) as writer:
        for name in archive.namelist():
            content = archive.read(name)
            if name == "checkpoint.json":
                manifest = json.loads(content)
                for key, value in changes.items():
                    manifest[key].update(value)
                content = json.dumps(manifest).encode()
            writer.add_bytes(name, content)
    return file


def test_what_has_changed_since_the_save_is_named_and_nothing_else(library, tmp_path):
    path = saved(tmp_path / "made.zip", library)
    remove_class(library)
    with pytest.raises(LoadError) as caught:
        load_main_loop(path)
    assert "Since it was saved" not in str(caught.value)
    old = {"python": "2.7.18", "numpy": "1.8.0", "blocks": "0.0.1", "no_such_library": "3"}
    with pytest.raises(LoadError) as caught:
        load_main_loop(edited(path, versions=old))
    message = str(caught.value)
    assert "Since it was saved, python was 2.7.18 and is 3." in message
    assert f"numpy was 1.8.0 and is {np.__version__}" in message
    assert "no_such_library was 3 and is not here" in message
    assert "blocks_checkpoint was" not in message


def test_a_library_that_fails_to_be_imported_does_not_hide_the_error(
    library, tmp_path, monkeypatch
):
    path = saved(tmp_path / "made.zip", library)
    remove_class(library)
    (tmp_path / "broken_of_tests.py").write_text("raise RuntimeError('broken')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(LoadError, match="broken_of_tests was 1 and is not here"):
        load_main_loop(edited(path, versions={"broken_of_tests": "1"}))


def test_a_pickle_that_says_it_is_longer_than_its_member_is_damaged(tmp_path):
    dump([1], tmp_path / "made.zip")
    length = 1 << 40
    with pytest.raises(DamagedCheckpoint, match=f"the pickle has {length} bytes, the member has"):
        load(edited(tmp_path / "made.zip", pickles={"pkl": {"bytes": length}}))


def test_an_array_that_is_not_in_the_file_is_named(tmp_path):
    dump([np.zeros(20_000)], tmp_path / "made.zip")
    with pytest.raises(DamagedCheckpoint, match="array 0, which is not in the file"):
        load(without_arrays(tmp_path / "made.zip"))


def without_arrays(path):
    file = io.BytesIO()
    with zipfile.ZipFile(path) as archive, ArchiveWriter(file) as writer:
        for name in archive.namelist():
            content = archive.read(name)
            if name == "checkpoint.json":
                content = json.dumps({**json.loads(content), "arrays": []}).encode()
            if not name.endswith(".npy"):
                writer.add_bytes(name, content)
    return file


HOSTILE_POOLS = {
    "view-of-itself": {0: (0, 0, np.dtype("f8"), (1,), (8,), True)},
    "views-of-each-other": {
        0: (1, 0, np.dtype("f8"), (1,), (8,), True),
        1: (0, 0, np.dtype("f8"), (1,), (8,), True),
    },
    "view-of-nothing": {0: (9, 0, np.dtype("f8"), (1,), (8,), True)},
    "view-beyond-the-memory": {
        0: (1, 4, np.dtype("f8"), (2,), (8,), True),
        1: np.zeros(2),
    },
    "view-before-the-memory": {
        0: (1, 0, np.dtype("f8"), (2,), (-8,), True),
        1: np.zeros(2),
    },
    "view-with-a-large-stride": {
        0: (1, 0, np.dtype("f8"), (2,), (1 << 40,), True),
        1: np.zeros(2),
    },
    "view-of-another-shape": {0: (1, 0, "f8", [[]], {}, True), 1: np.zeros(2)},
    "too-few-fields": {0: (1, 2, 3)},
    "no-fields": {0: ()},
    "memory-without-end": {0: (1 << 60, [])},
    "memory-of-less-than-nothing": {0: (-5, [])},
    "pieces-of-nothing": {0: (8, [((0, 0, np.dtype("f8"), (1,), (8,), True), 9)])},
    "pieces-that-do-not-fit": {
        0: (8, [((0, 0, np.dtype("f8"), (1,), (8,), True), 1)]),
        1: np.zeros(5),
    },
    "memory-of-itself": {0: (8, [((0, 0, np.dtype("f8"), (1,), (8,), True), 0)])},
}


@pytest.mark.parametrize("pool", HOSTILE_POOLS.values(), ids=HOSTILE_POOLS)
def test_arrays_that_are_described_wrongly_are_damage_and_nothing_worse(pool, tmp_path):
    dump([1], tmp_path / "made.zip")
    with open_checkpoint(tmp_path / "made.zip") as checkpoint:
        session = LoadingSession(checkpoint)
        session._pools.update(pool)
        with pytest.raises(DamagedCheckpoint) as caught:
            session.load_array(0)
    assert caught.value.path == str(tmp_path / "made.zip")


def test_what_was_loaded_before_an_error_is_not_half_there(library, tmp_path):
    """A second attempt, with the class back in its place, succeeds."""
    path = saved(tmp_path / "made.zip", library)
    cls = library.Thing
    with open_checkpoint(path) as checkpoint:
        remove_class(library)
        with pytest.raises(LoadError):
            checkpoint.main_loop()
        library.Thing = cls
        assert checkpoint.main_loop().extensions[0].held.value == 1


def test_two_loadings_give_two_main_loops_that_share_nothing(tmp_path):
    main_loop = make_main_loop(epochs=1)
    main_loop.run()
    dump(main_loop, tmp_path / "made.zip")
    with open_checkpoint(tmp_path / "made.zip") as checkpoint:
        one, other = checkpoint.main_loop(), checkpoint.main_loop()
    for first, second in zip(one.model.parameters, other.model.parameters):
        assert not np.shares_memory(first.get_value(borrow=True), second.get_value(borrow=True))


def test_memory_maps_of_the_file_give_the_same_arrays(tmp_path):
    value = np.arange(20_000.0)
    fixed = value.copy()
    fixed.flags.writeable = False
    dump([value, value[3:7], fixed, np.arange(3)], tmp_path / "made.zip")
    with open_checkpoint(tmp_path / "made.zip", mmap=True) as checkpoint:
        whole, view, locked, small = checkpoint.load("pkl")
    assert np.array_equal(whole, value)
    assert np.array_equal(locked, fixed)
    assert not locked.flags.writeable
    view[0] = -1
    assert whole[3] == -1
    assert small.tolist() == [0, 1, 2]
    assert load(tmp_path / "made.zip")[0][3] == 3
