"""Arrays that are not in main memory: stored as arrays, and back on their device."""

import io
import zipfile

import numpy as np
import pytest
from drifting import make_main_loop, make_model, values_of

from blocks_checkpoint import (
    LoadParameters,
    dump,
    load,
    load_log,
    load_parameters,
    open_checkpoint,
    register_array_type,
)
from blocks_checkpoint.engines import current
from blocks_checkpoint.errors import LoadError, UnpicklableError
from blocks_checkpoint.pickling import devices


class DeviceArray:
    """Stands in for an array on a device: it has its values elsewhere."""

    def __init__(self, values):
        self._elsewhere = np.array(values)

    def fetch(self):
        return self._elsewhere.copy()

    def __reduce__(self):
        raise TypeError("what is on a device cannot be pickled")


class OnOtherDevice(DeviceArray):
    """Another class; that its base is registered does not count."""


@pytest.fixture(autouse=True)
def _only_for_this_test(monkeypatch):
    monkeypatch.setattr(devices, "_conversions", {})


@pytest.fixture
def registered():
    register_array_type(DeviceArray, to_numpy=DeviceArray.fetch, from_numpy=DeviceArray)


def saved(thing, **options):
    file = io.BytesIO()
    dump(thing, file, **options)
    return file


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("size", [3, 20_000])
def test_one_array_is_one_array_after_loading(size):
    array, other = DeviceArray(np.arange(size)), DeviceArray(np.arange(size))
    again = load(saved({"a": array, "b": [array], "other": other}))
    assert again["a"] is again["b"][0]
    assert again["other"] is not again["a"]
    assert type(again["a"]) is DeviceArray
    assert np.array_equal(again["a"].fetch(), np.arange(size))


@pytest.mark.usefixtures("registered")
def test_one_array_is_one_across_members():
    main_loop = make_main_loop(epochs=1)
    array = DeviceArray([1.0, 2.0])
    main_loop.data_stream.held = main_loop.extensions[0].held = array
    main_loop.log[1]["held"] = array
    file = saved(main_loop)
    again = load(file)
    assert again.data_stream.held is again.extensions[0].held
    assert again.log[1]["held"] is again.data_stream.held
    # The log by itself needs no device.
    devices._conversions.clear()
    assert load_log(file)[1]["held"].tolist() == [1, 2]


def on_device(name="W", values=(1.0, 2.0, 3.0)):
    """Return a shared variable whose value is on a device."""
    variable = current().shared(np.zeros(len(values)), name=name)
    variable.container.storage[0] = DeviceArray(values)
    return variable


@pytest.mark.usefixtures("registered")
def test_the_value_of_a_variable_is_a_member_that_needs_no_device():
    variable = on_device()
    file = saved([variable, variable.container.storage[0]], parameters=[variable])
    with zipfile.ZipFile(file) as archive:
        assert "W.npy" in archive.namelist()
        assert np.array([1.0, 2.0, 3.0]).tobytes() not in archive.read("pkl")
    again, value = load(file)
    assert again.container.storage[0] is value
    assert type(value) is DeviceArray
    devices._conversions.clear()
    assert load_parameters(file)["W"].tolist() == [1, 2, 3]


@pytest.mark.usefixtures("registered")
def test_parameters_are_loaded_where_there_is_no_device(tmp_path):
    main_loop = make_main_loop(epochs=1)
    main_loop.run()
    expected = values_of(main_loop)
    for parameter in main_loop.model.parameters:
        parameter.container.storage[0] = DeviceArray(parameter.get_value())
    dump(main_loop, tmp_path / "made.zip")
    devices._conversions.clear()
    model = make_model()
    loader = LoadParameters(tmp_path / "made.zip")
    loader.main_loop = make_main_loop(loader, model=model)
    loader.do("before_training")
    for name, parameter in model.get_parameter_dict().items():
        assert np.array_equal(parameter.get_value(), expected[name])


@pytest.mark.usefixtures("registered")
def test_loading_without_the_class_says_which_device_is_missing(tmp_path):
    dump([DeviceArray([1])], tmp_path / "made.zip")
    devices._conversions.clear()
    with pytest.raises(LoadError, match=r"DeviceArray, which nobody has registered") as caught:
        load(tmp_path / "made.zip")
    assert "register_array_type" in str(caught.value)
    assert caught.value.path == str(tmp_path / "made.zip")
    assert caught.value.member == "pkl"


def test_an_array_of_a_class_that_nobody_registered_is_refused_by_name():
    with pytest.raises(UnpicklableError, match=r"object\[0\] is a .*DeviceArray: what is on a dev"):
        saved([DeviceArray([1])])


@pytest.mark.usefixtures("registered")
def test_a_subclass_has_to_be_registered_itself():
    with pytest.raises(UnpicklableError, match="OnOtherDevice"):
        saved([OnOtherDevice([1])])


def test_a_variable_on_an_unknown_device_is_stored_as_what_it_shows(monkeypatch):
    monkeypatch.setattr(DeviceArray, "__reduce__", lambda self: (DeviceArray, (self.fetch(),)))
    variable = on_device()
    cls = type(variable)
    monkeypatch.setattr(
        cls, "get_value", lambda self, borrow=False: self.container.storage[0].fetch()
    )
    file = saved([variable], parameters=[variable])
    assert load_parameters(file)["W"].tolist() == [1, 2, 3]
    assert load(file)[0].container.storage[0].fetch().tolist() == [1, 2, 3]


@pytest.mark.usefixtures("registered")
def test_the_name_of_a_class_may_have_dots():
    class Outer:
        class Inner(DeviceArray):
            pass

    register_array_type(Outer.Inner, to_numpy=DeviceArray.fetch, from_numpy=Outer.Inner)
    again = load(saved([Outer.Inner([4])]))[0]
    assert type(again) is Outer.Inner
    with open_checkpoint(saved([Outer.Inner([4])])) as checkpoint:
        assert checkpoint.verify() == []
