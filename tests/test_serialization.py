"""Saving and loading as functions, with the reach that Blocks gave them."""

import io
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import numpy
import pytest
from drifting import At, assert_same_values, interrupt, make_main_loop, make_model

from blocks_checkpoint import (
    LoadError,
    MainModuleWarning,
    NameConflict,
    SaveError,
    UnpicklableError,
    add_to_dump,
    continue_training,
    dump,
    dump_and_add_to_dump,
    load,
    load_iteration_state,
    load_log,
    load_main_loop,
    load_parameters,
    open_checkpoint,
    save_parameters,
    secure_dump,
    serialization,
)
from blocks_checkpoint.engines import current
from blocks_checkpoint.miniblocks.bricks import MLP, Linear
from blocks_checkpoint.miniblocks.initialization import Constant


@pytest.fixture
def path(tmp_path):
    return tmp_path / "dump.zip"


def shared(value, name=None):
    return current().shared(numpy.asarray(value, dtype="float32"), name=name)


def make_mlp(name="mlp"):
    mlp = MLP([None, None], [3, 3, 3], weights_init=Constant(1), biases_init=Constant(0), name=name)
    mlp.initialize()
    return mlp


def weights(mlp):
    return [each.W for each in mlp.linear_transformations]


def test_functions_of_blocks_are_all_there():
    for name in (
        "add_to_dump",
        "continue_training",
        "dump",
        "dump_and_add_to_dump",
        "load",
        "load_parameters",
        "secure_dump",
    ):
        assert name in serialization.__all__
        assert callable(getattr(serialization, name))
    assert serialization.continue_training is continue_training


# dump and load


@pytest.mark.parametrize("thing", [3, "text", [1, {"a": (2, None)}], None, numpy.arange(3)])
def test_any_object_comes_back(path, thing):
    dump({"thing": thing}, path)
    assert numpy.array_equal(load(path)["thing"], thing)


def test_every_shared_variable_of_the_graph_is_a_named_array(path):
    dump({"deep": [shared([1, 2], "w"), {"er": shared(3.0, "b")}]}, path)
    with numpy.load(path) as arrays:
        assert (arrays["w"].tolist(), arrays["b"].shape) == ([1, 2], ())
    loaded = load(path)
    assert loaded["deep"][0].get_value().tolist() == [1, 2]


def test_brick_is_dumped_under_its_path(path):
    mlp = make_mlp()
    dump(mlp, path, parameters=weights(mlp))
    assert set(load_parameters(path)) == {"/mlp/linear_0.W", "/mlp/linear_1.W"}
    assert load(path).linear_transformations[1].W.get_value().tolist() == [[1] * 3] * 3


def test_equal_names_are_numbered_from_zero_in_the_order_given(path):
    """Two bricks of one name, and two plain variables of one name, all survive."""
    mlp = make_mlp()
    for number, child in enumerate(mlp.linear_transformations):
        child.name = "linear"
        child.W.set_value(child.W.get_value() * (number + 5))
    plain = [shared([1], "same"), shared([2], "same")]
    dump(mlp, path, parameters=[*weights(mlp), *plain])
    values = load_parameters(path)
    assert set(values) == {"/mlp/linear.W_0", "/mlp/linear.W_1", "same_0", "same_1"}
    assert values["/mlp/linear.W_0"][0, 0] == 5
    assert values["/mlp/linear.W_1"][0, 0] == 6
    assert [values["same_0"][0], values["same_1"][0]] == [1, 2]


def test_model_and_main_loop_are_dumped_under_the_names_of_the_model(path):
    model = make_model()
    dump(model, path)
    assert set(load_parameters(path)) == set(model.get_parameter_dict())
    main_loop = make_main_loop(epochs=1)
    main_loop.run()
    dump(main_loop, path)
    with open_checkpoint(path) as saved:
        assert set(saved.manifest["pickles"]) == {"pkl", "log", "iteration_state"}
    assert_same_values(load(path), main_loop)
    assert_same_values(load_main_loop(path), main_loop)
    assert load_log(path).status["epochs_done"] == 1
    assert load(path, "log").status["epochs_done"] == 1
    assert len(load_iteration_state(path)) == 2


def test_parameters_alone_are_dumped_with_none_for_an_object(path):
    dump(None, path, parameters=[shared([1], "w")])
    with open_checkpoint(path) as saved:
        assert saved.manifest["pickles"] == {}
    assert load_parameters(path)["w"].tolist() == [1]


def test_several_objects_go_into_one_file(path):
    dump_and_add_to_dump(3, path, None, {"y": 2, "z": [shared([7], "v")]})
    assert (load(path), load(path, "y")) == (3, 2)
    assert load(path, "z")[0].get_value().tolist() == [7]
    dump("x", path, to_add={"y": "Y"})
    assert (load(path), load(path, "y")) == ("x", "Y")


@pytest.mark.parametrize("use_cpickle", [True, False])
def test_use_cpickle_is_accepted_and_changes_nothing(path, use_cpickle):
    dump([1], path, use_cpickle=use_cpickle)
    add_to_dump([2], path, "two", use_cpickle=use_cpickle)
    dump_and_add_to_dump([1], path, use_cpickle=use_cpickle, to_add={"two": [2]})
    secure_dump([1], path, use_cpickle=use_cpickle)
    assert load(path, use_cpickle=use_cpickle) == [1]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol_can_be_asked_for(protocol):
    file = io.BytesIO()
    brick = Linear(5, 10, name="é \n|")
    brick.allocate()
    dump([brick, {1, 2}, b"bytes"], file, parameters=list(brick.parameters), protocol=protocol)
    loaded, numbers, data = load(file)
    assert (loaded.W.get_value().shape, numbers, data) == ((5, 10), {1, 2}, b"bytes")
    assert len(load_parameters(file)) == 2
    with open_checkpoint(file) as saved:
        assert saved.manifest["pickles"]["pkl"]["protocol"] == protocol


def test_own_persistent_id_is_honoured(path):
    lock = threading.Lock()
    dump(
        [lock, shared([1], "w"), lock],
        path,
        persistent_id=lambda thing: "lock" if thing is lock else None,
    )
    loaded = load(path, persistent_load={"lock": lock}.get)
    assert loaded[0] is loaded[2] is lock
    assert loaded[1].get_value().tolist() == [1]
    with pytest.raises(LoadError, match="persistent"):
        load(path)


def test_unpicklable_object_is_an_error_of_the_pickle_module_too(path):
    path.write_text("before")
    for save in (dump, secure_dump):
        with pytest.raises(pickle.PicklingError) as caught:
            save(lambda: None, path)
        assert isinstance(caught.value, UnpicklableError)
    assert path.read_text() == "before"
    assert os.listdir(path.parent) == [path.name]


# Files


@pytest.mark.parametrize("mode", ["wb", "r+b", "w+b"])
def test_open_file_ends_where_the_archive_ends(path, mode):
    """Of something longer that was there before, nothing is left."""
    dump(list(range(100_000)), path)
    longer = path.stat().st_size
    with open(path, mode) as file:
        dump("short", file)
        assert not file.closed
    assert path.stat().st_size < longer
    assert load(path) == "short"


def test_file_in_memory_is_written_again_from_its_beginning():
    file = io.BytesIO()
    dump(list(range(10_000)), file)
    file.seek(0)
    dump("short", file)
    assert load(file) == "short"


def test_file_that_cannot_seek_is_written_to():
    reading, writing = os.pipe()
    content = []

    def read():
        with open(reading, "rb") as file:
            content.append(file.read())

    thread = threading.Thread(target=read)
    thread.start()
    with open(writing, "wb") as file:
        dump([shared([1, 2], "w")], file)
    thread.join()
    assert load(io.BytesIO(content[0]))[0].get_value().tolist() == [1, 2]


def test_secure_dump_replaces_when_all_is_written(path):
    secure_dump({"a": 1}, path)
    inode = path.stat().st_ino
    secure_dump({"a": 2}, path, parameters=[shared([1], "w")])
    assert path.stat().st_ino != inode
    assert load(path) == {"a": 2}
    assert len(load_parameters(path)) == 1

    def half(thing, file, **kwargs):
        file.write(b"half of it")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        secure_dump(1, path, dump_function=half)
    assert load(path) == {"a": 2}
    assert os.listdir(path.parent) == [path.name]


def test_secure_dump_takes_any_dump_function(path):
    secure_dump([1, 2], path, dump_function=pickle.dump, protocol=2)
    assert pickle.loads(path.read_bytes()) == [1, 2]


# add_to_dump


def test_objects_are_added_to_a_path_and_to_an_open_file(path):
    mlp = make_mlp()
    dump(mlp, path, parameters=weights(mlp))
    add_to_dump(mlp.linear_transformations[0], path, "first", parameters=weights(mlp)[:1])
    with open(path, "rb+") as file:
        add_to_dump(mlp.linear_transformations[1], file, "second")
    first, second = load(path, "first"), load(path, "second")
    assert first.W.get_value().tolist() == second.W.get_value().tolist() == [[1] * 3] * 3
    assert set(load_parameters(path)) == {"/mlp/linear_0.W", "/mlp/linear_1.W"}
    assert load(path).linear_transformations[0].W.get_value().shape == (3, 3)
    with open_checkpoint(path) as saved:
        assert saved.verify() == []
        assert set(saved.manifest["pickles"]) == {"pkl", "first", "second"}
        # What was said to be there is not stored a second time; the other is.
        names = list(saved.arrays)
    assert "mlp/linear_0/W" in names
    assert "mlp/linear_1/W" in names


def test_value_that_is_there_already_is_shared_not_copied(path):
    big = shared(numpy.arange(10_000), "big")
    dump([big], path, parameters=[big])
    size = path.stat().st_size
    add_to_dump({"again": big}, path, "again", parameters=[big])
    assert path.stat().st_size < size + 5_000
    assert load(path, "again")["again"].get_value()[-1] == 9_999


def test_arrays_of_an_added_object_run_into_nobodys_name_or_number(path):
    dump([shared([1], "v"), numpy.arange(100.0)], path)
    add_to_dump([shared([2], "v"), numpy.arange(100.0) * 2], path, "second")
    add_to_dump([shared([3], "v"), numpy.arange(100.0) * 3], path, "third")
    found = [load(path, name) for name in ("pkl", "second", "third")]
    assert [each[0].get_value().tolist() for each in found] == [[1], [2], [3]]
    assert [each[1][1] for each in found] == [1, 2, 3]
    with open_checkpoint(path) as saved:
        assert saved.verify() == []
        assert saved.arrays["v"].tolist() == [1]


def test_adding_keeps_everything_that_was_there(path):
    main_loop = make_main_loop(At(interrupt, after_n_batches=4))
    main_loop.run()
    dump(main_loop, path)
    add_to_dump({"note": "added"}, path, "extra")
    assert_same_values(load_main_loop(path), main_loop)
    assert load_log(path).status["iterations_done"] == 4
    assert load(path, "extra") == {"note": "added"}
    assert continue_training(path).status["iterations_done"] == 12


@pytest.mark.parametrize(
    "name", ["pkl", "_pkl", "_parameters", "log", "checkpoint.json", "", "x.npy"]
)
def test_reserved_names_are_refused_as_values_are(path, name):
    dump(1, path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="name"):
        add_to_dump(2, path, name)
    with pytest.raises(NameConflict):
        dump(1, path, to_add={name: 2})
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["../x", "/x", "a\0b", "C:x", "a\\b", "con"])
def test_names_that_no_archive_should_have_are_refused(path, name):
    dump(1, path)
    with pytest.raises(SaveError):
        add_to_dump(2, path, name)
    assert load(path) == 1


def test_name_that_is_taken_is_refused(path):
    dump(1, path, to_add={"x": 2})
    with pytest.raises(NameConflict, match="'x' already"):
        add_to_dump(3, path, "x")
    dump([shared([1], "w")], path)
    for name in ("w", "W"):
        add_or_refuse(path, name)
    assert load_parameters(path) == {} or load(path)


def add_or_refuse(path, name):
    """A member beside an array of its name must leave both readable, or be refused."""
    try:
        add_to_dump(3, path, name)
    except SaveError:
        return
    assert load(path, name) == 3
    with numpy.load(path) as arrays:
        assert arrays["w.npy"].tolist() == [1]


def test_variables_that_are_not_in_the_file_are_refused(path):
    mlp, other = make_mlp(), make_mlp("other")
    for parameters in (weights(mlp), None):
        dump(mlp, path, parameters=parameters)
        with pytest.raises(ValueError, match="not in the file"):
            add_to_dump(other, path, "other", parameters=weights(other))


def test_object_is_not_added_to_what_blocks_wrote(path):
    old = Path(__file__).parent / "legacy" / "blocks-2018-09.tar"
    path.write_bytes(old.read_bytes())
    with pytest.raises(SaveError, match="convert"):
        add_to_dump(1, path, "one")
    assert path.read_bytes() == old.read_bytes()


# save_parameters and load_parameters


NAMES = ["/mlp/linear_0.W", "mlp/linear_0/W", "plain", "", "a b", "é", "../up", "pkl", "x|y-z.w"]


def test_parameters_of_any_name_come_back_under_it(path):
    values = {name: numpy.full((2, index), index) for index, name in enumerate(NAMES)}
    save_parameters(values, path)
    loaded = load_parameters(path)
    assert list(loaded) == NAMES
    for name, value in values.items():
        assert loaded[name].dtype == value.dtype
        assert numpy.array_equal(loaded[name], value)


def test_parameters_are_given_as_a_mapping_as_pairs_or_as_variables(path):
    for given in ({"w": [1, 2]}, [("w", numpy.array([1, 2]))], [shared([1, 2], "w")]):
        save_parameters(given, path)
        assert load_parameters(path)["w"].tolist() == [1, 2]


@pytest.mark.parametrize(
    "given", [[("w", 1), ("w", 2)], [("/a.W", 1), ("b", 2), ("/a.W", 3)]], ids=["plain", "brick"]
)
def test_names_that_are_not_unique_are_refused(path, given):
    with pytest.raises(ValueError, match="several arrays are called"):
        save_parameters(given, path)
    with pytest.raises(NameConflict):
        save_parameters([shared([1], "w"), shared([2], "w")], path)
    assert not path.exists()


def test_objects_are_no_parameters(path):
    with pytest.raises(SaveError):
        save_parameters({"w": numpy.array([object()])}, path)
    assert not path.exists()


def test_parameters_and_main_object_are_read_from_one_open_file(path):
    main_loop = make_main_loop(epochs=1)
    main_loop.run()
    dump(main_loop, path)
    with open(path, "rb") as file:
        assert len(load_parameters(file)) == 4
        assert_same_values(load(file), main_loop)
        assert load(file, "log").status["epochs_done"] == 1


# What is said of __main__


def test_warning_is_for_the_line_that_called(path, monkeypatch):
    def work():
        pass

    work.__module__, work.__qualname__ = "__main__", "work"
    monkeypatch.setattr(sys.modules["__main__"], "work", work, raising=False)
    with pytest.warns(
        MainModuleWarning, match=r"dump\.zip: the object.*\n  - work, at object$"
    ) as w:
        dump(work, path)
    assert w[0].filename == __file__
    with pytest.warns(MainModuleWarning, match=r"\n  - work, at extra\['f'\]$") as w:
        add_to_dump({"f": work}, path, "extra")
    assert w[0].filename == __file__
    assert load(path, "extra")["f"] is work
    with open_checkpoint(path) as saved:
        assert saved.manifest["main_module"]["names"] == ["work"]
    with pytest.warns(MainModuleWarning, match=r"\n  - work, at object\.y$"):
        dump(1, path, to_add={"y": work})


def test_dump_in_a_script_is_loaded_by_naming_it(tmp_path):
    (tmp_path / "make.py").write_text(
        "from blocks_checkpoint import dump\n"
        "class Thing:\n    value = 3\n"
        "if __name__ == '__main__':\n    dump(Thing(), 'thing.zip')\n"
    )
    subprocess.run(
        [sys.executable, "-W", "ignore", "make.py"], cwd=tmp_path, check=True, timeout=60
    )
    with pytest.raises(LoadError, match="needs Thing"):
        load(tmp_path / "thing.zip")
    assert load(tmp_path / "thing.zip", main=tmp_path / "make.py").value == 3
