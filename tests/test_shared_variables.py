"""Every shared variable is one NPY member, exactly once, and its data is in no pickle."""

import io
import sys
import zipfile

import numpy as np
import pytest
from drifting import make_main_loop, make_model

from blocks_checkpoint import (
    Checkpoint,
    LoadParameters,
    dump,
    load,
    load_main_loop,
    load_parameters,
    open_checkpoint,
)
from blocks_checkpoint.engines import current
from blocks_checkpoint.errors import CheckpointWarning, SaveError
from blocks_checkpoint.miniblocks.bricks import BatchNormalization
from blocks_checkpoint.miniblocks.model import Model

ENGINE = current()


def shared(value, name=None, **options):
    return ENGINE.shared(np.asarray(value), name=name, **options)


def random_value(shape, seed):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.fixture(scope="module")
def trained():
    """Return variables of all sizes, and a compiled function that updates them."""
    shapes = {"W": (3, 4), "b": 4, "rate": (), "one": (1,), "large": (200, 100)}
    variables = {
        name: shared(random_value(shape, seed), name)
        for seed, (name, shape) in enumerate(shapes.items())
    }
    mean = shared(random_value((3, 4), 9), "mean")
    mean.tag.for_parameter = variables["W"]
    total = sum(each.sum() for each in variables.values())
    updates = [(each, each * 0.5 + 1) for each in [*variables.values(), mean]]
    mode = ENGINE.module.compile.mode.Mode(linker="py", optimizer=None)
    function = ENGINE.function([], total, updates=updates, mode=mode)
    return function, [*variables.values(), mean]


def contents(file):
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def assert_each_is_stored_once(file, variables):
    members = contents(file)
    for variable in variables:
        value = np.ascontiguousarray(variable.get_value(borrow=True)).tobytes()
        homes = [name for name, content in members.items() if value in content]
        assert len(homes) == 1, (variable.name, homes)
        assert homes[0].endswith(".npy")
    with open_checkpoint(file) as checkpoint:
        assert sorted(row["name"] for row in checkpoint.manifest["arrays"]) == sorted(
            "W.mean" if each.name == "mean" else each.name for each in variables
        )


ORDERS = {
    "variables-first": lambda function, variables: [variables, function],
    "function-first": lambda function, variables: [function, variables],
    "values-first": lambda function, variables: [
        [each.get_value(borrow=True) for each in variables],
        function,
        variables,
    ],
    "function-alone": lambda function, variables: [function],
    "in-a-set": lambda function, variables: [set(variables), function],
}


@pytest.mark.parametrize("calls", [0, 2])
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_a_variable_is_stored_once_however_it_is_reached(order, calls, trained):
    function, variables = trained
    for _ in range(calls):
        function()
    file = io.BytesIO()
    dump(order(function, variables), file)
    assert_each_is_stored_once(file, variables)


def test_a_variable_that_a_function_updates_is_the_one_that_others_hold(trained):
    function, variables = trained
    file = io.BytesIO()
    dump({"function": function, "variables": variables, "value": variables[0].get_value()}, file)
    again = load(file)
    assert again["function"]() == function()
    for variable, other in zip(variables, again["variables"]):
        assert np.array_equal(variable.get_value(), other.get_value())
    for each in (variables, again["variables"]):
        each[0].set_value(each[0].get_value() * 3)
    assert again["function"]() == function()


def test_a_value_that_was_replaced_after_a_save_is_saved_anew():
    variable = shared([1.0, 2.0], "W")
    for value in ([1.0, 2.0], [3.0, 4.0], [5.0, 6.0]):
        variable.set_value(np.array(value))
        file = io.BytesIO()
        dump([variable], file)
        assert load(file)[0].get_value().tolist() == value


VALUES = {
    "fortran-order": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "strided": np.arange(24.0).reshape(6, 4)[::2, ::2],
    "reversed": np.arange(4.0)[::-1],
    "broadcast": np.broadcast_to(np.arange(3.0), (4, 3)),
    "empty": np.zeros((0, 3)),
    "float32": np.float32(0.25),
    "int64": np.int64(3),
    "bool": np.array(True),
    "complex64": np.ones((2, 1), "complex64"),
    "uint8": np.arange(5, dtype="u1"),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_variable_comes_back_with_dtype_shape_order_and_broadcast_pattern(name):
    value = VALUES[name]
    variable = shared(value, "v", borrow=True)
    file = io.BytesIO()
    dump([variable], file)
    again = load(file)[0]
    assert again.type == variable.type
    stored = again.get_value(borrow=True)
    assert (stored.dtype, stored.shape) == (value.dtype, value.shape)
    assert np.array_equal(stored, value)
    if np.asarray(value).flags.f_contiguous:
        assert stored.flags.f_contiguous
    file.seek(0)
    with np.load(file, allow_pickle=False) as npz:
        assert (npz["v"].dtype, npz["v"].shape) == (value.dtype, value.shape)


def test_a_dimension_that_is_said_to_be_one_is_still_said_to_be():
    if ENGINE.name == "theano":
        variable = shared(np.ones((1, 3)), broadcastable=(True, False))
    else:
        variable = shared(np.ones((1, 3)), shape=(1, None))
    file = io.BytesIO()
    dump([variable], file)
    again = load(file)[0]
    assert again.type == variable.type
    assert again.type.broadcastable == (True, False)


def test_a_number_of_the_engine_s_scalar_types_is_a_member_too():
    scalars = sys.modules[f"{ENGINE.name}.scalar.sharedvar"]
    variable = scalars.shared(np.float64(2.5), name="scalar")
    file = io.BytesIO()
    dump([variable], file)
    again = load(file)[0].get_value()
    assert (type(again), again) == (np.float64, 2.5)
    with open_checkpoint(file) as checkpoint:
        assert checkpoint.arrays["scalar"].tolist() == 2.5


def test_sparse_values_and_generators_stay_in_the_pickle_and_one_object():
    scipy_sparse = pytest.importorskip("scipy.sparse")
    __import__(f"{ENGINE.name}.sparse")
    matrix = ENGINE.shared(scipy_sparse.csr_matrix(np.eye(3)), name="sparse")
    make = np.random.RandomState if ENGINE.name == "theano" else np.random.default_rng
    generator = ENGINE.shared(make(3), name="generator")
    file = io.BytesIO()
    dump([matrix, generator, {"again": [matrix, generator]}], file)
    again, drawn, others = load(file)
    assert others["again"][0] is again
    assert others["again"][1] is drawn
    assert (again.get_value() != matrix.get_value()).nnz == 0
    stored, expected = drawn.get_value(), generator.get_value()
    assert type(stored) is type(expected)
    assert stored.normal() == expected.normal()


def test_large_parts_of_a_sparse_value_are_members_without_a_name():
    scipy_sparse = pytest.importorskip("scipy.sparse")
    __import__(f"{ENGINE.name}.sparse")
    matrix = ENGINE.shared(scipy_sparse.eye(20_000, format="csr"), name="sparse")
    file = io.BytesIO()
    dump([matrix], file)
    assert len(contents(file)["pkl"]) < 5_000
    assert (load(file)[0].get_value() != matrix.get_value()).nnz == 0


def masked_parameter():
    parameter = shared([1.0, 2.0, 3.0], "W")
    parameter.container.storage[0] = np.ma.masked_equal([1.0, 2.0, 3.0], 2)
    return parameter


def test_a_parameter_whose_value_is_no_plain_array_is_named():
    parameter = masked_parameter()
    file = io.BytesIO()
    with pytest.warns(CheckpointWarning, match=r"no plain arrays: W \(MaskedArray\)"):
        dump({"W": parameter}, file, parameters=[parameter])
    value = load(file)["W"].container.storage[0]
    assert value.mask.tolist() == [False, True, False]
    assert load_parameters(file) == {}


def test_a_parameter_that_would_be_saved_nowhere_is_refused():
    with pytest.raises(SaveError, match=r"W \(MaskedArray\).*within a main loop only"):
        dump(None, io.BytesIO(), parameters=[masked_parameter()])


def test_everything_that_a_main_loop_trains_is_stored_once(tmp_path):
    main_loop = make_main_loop(Checkpoint(tmp_path / "made.zip", after_epoch=True))
    main_loop.run()
    names = {row["name"] for row in manifest_of(tmp_path / "made.zip")["arrays"]}
    parameters = {"mlp/linear_0/W", "mlp/linear_0/b", "mlp/linear_1/W", "mlp/linear_1/b"}
    assert names == {*parameters, *(f"{name}.velocity" for name in parameters), "rate"}
    pickles = [c for n, c in contents(tmp_path / "made.zip").items() if not n.endswith(".npy")]
    algorithm = main_loop.algorithm
    for variable in [*algorithm.parameters, *algorithm.velocities]:
        assert not any(variable.get_value().tobytes() in content for content in pickles)
    loaded = load_main_loop(tmp_path / "made.zip").algorithm
    for one, other in zip(algorithm.velocities, loaded.velocities):
        assert np.array_equal(one.get_value(), other.get_value())
    for parameter, velocity in zip(loaded.parameters, loaded.velocities):
        assert velocity.tag.for_parameter is parameter


def manifest_of(path):
    with open_checkpoint(path) as checkpoint:
        return checkpoint.manifest


def normalising_model():
    brick = BatchNormalization(3, name="bn")
    brick.initialize()
    cost = brick.apply(ENGINE.tensor.matrix("features")).sum()
    model = Model(cost)
    return model, brick


@pytest.mark.parametrize("with_main_loop", [True, False])
def test_statistics_of_batch_normalisation_are_saved_and_loaded(tmp_path, with_main_loop):
    model, brick = normalising_model()
    for statistic, seed in ((brick.population_mean, 1), (brick.population_stdev, 2)):
        statistic.set_value(random_value(3, seed).astype(statistic.dtype))
    path = tmp_path / "made.zip"
    checkpoint = Checkpoint(path, after_epoch=True, save_main_loop=with_main_loop)
    make_main_loop(checkpoint, model=model, epochs=1).run()
    fresh_model, fresh = normalising_model()
    make_main_loop(LoadParameters(path), model=fresh_model, epochs=1).run()
    for name in ("population_mean", "population_stdev"):
        stored, expected = getattr(fresh, name).get_value(), getattr(brick, name).get_value()
        assert np.array_equal(stored, expected), name


def test_small_arrays_by_the_ten_thousand_make_no_member_each():
    file = io.BytesIO()
    dump([make_model(), [np.arange(3.0) + number for number in range(10_000)]], file)
    members = contents(file)
    assert sum(name.endswith(".npy") for name in members) == 4
