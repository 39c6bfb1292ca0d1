"""Stored arrays into variables by name: all of them, or none."""

import numpy
import pytest
from drifting import make_main_loop, make_model

from blocks_checkpoint import (
    Checkpoint,
    LoadParameters,
    ParameterMismatch,
    ParameterWarning,
    Resume,
    load_parameters,
    open_checkpoint,
    save_parameters,
)
from blocks_checkpoint.engines import current
from blocks_checkpoint.miniblocks.bricks import MLP, BatchNormalization, Linear, Sequence, Tanh
from blocks_checkpoint.miniblocks.initialization import Constant
from blocks_checkpoint.miniblocks.model import Model
from blocks_checkpoint.naming import VariableNames
from blocks_checkpoint.parameters import PreparedAssignment, loop_variables, match, model_variables


def shared(value, name="x", dtype="float32"):
    return current().shared(numpy.asarray(value, dtype=dtype), name=name)


def names(*parameter_names, kind="parameter"):
    return [VariableNames(name, name, kind) for name in parameter_names]


def row(name, shape, kind="parameter", parameter_name=None):
    return {
        "name": name,
        "parameter_name": parameter_name or name,
        "shape": list(shape),
        "kind": kind,
        "dtype": "<f4",
        "member": f"{name}.npy",
    }


class Stored:
    """As much of a checkpoint as an assignment reads: arrays by row."""

    path = "run.zip"

    def __init__(self, **arrays):
        self.arrays = arrays

    def read_rows(self, rows):
        return [self.arrays[each["name"]] for each in rows]


# What fits


@pytest.mark.parametrize(
    ("wanted", "stored", "missing", "unexpected", "wrong_shape"),
    [
        pytest.param({"a": 2}, {"a": 2}, [], [], [], id="fits"),
        pytest.param({"a": 2, "b": 3}, {"a": 2}, ["b"], [], [], id="missing"),
        pytest.param({"a": 2}, {"a": 2, "b": 3}, [], ["b"], [], id="unexpected"),
        pytest.param({"a": 2}, {"a": 3}, [], [], [("a", (3,), (2,))], id="shape"),
        pytest.param(
            {"a": 2, "b": 2, "c": 2},
            {"b": 3, "c": 2, "d": 1},
            ["a"],
            ["d"],
            [("b", (3,), (2,))],
            id="all-at-once",
        ),
        pytest.param({"a": 2}, {"A": 2}, ["a"], ["A"], [], id="case-counts"),
    ],
)
def test_match_says_everything_that_does_not_fit(wanted, stored, missing, unexpected, wrong_shape):
    variables = [shared(numpy.zeros(length), name) for name, length in wanted.items()]
    rows = [row(name, (length,)) for name, length in stored.items()]
    assignment = match(variables, names(*wanted), rows)
    assert (assignment.missing, assignment.unexpected, assignment.wrong_shape) == (
        missing,
        unexpected,
        wrong_shape,
    )
    assert assignment.is_complete is (not missing and not unexpected and not wrong_shape)
    for name in [*missing, *unexpected, *(each[0] for each in wrong_shape)]:
        assert name in assignment.describe()


def test_scalars_and_empty_arrays_have_shapes_too():
    variables = [shared(1.0, "scalar"), shared(numpy.zeros((0, 3)), "empty")]
    assignment = match(
        variables, names("scalar", "empty"), [row("scalar", ()), row("empty", (0, 3))]
    )
    assert assignment.is_complete
    wrong = match(variables, names("scalar", "empty"), [row("scalar", (1,)), row("empty", (3, 0))])
    assert [each[0] for each in wrong.wrong_shape] == ["scalar", "empty"]


def test_optional_variables_stay_as_they_are_where_nothing_fits(caplog):
    variables = [shared([1, 2], "there"), shared([1, 2], "gone"), shared([1, 2], "other")]
    kinds = names("there", "gone", "other", kind="buffer")
    rows = [row("there", (2,), "buffer"), row("other", (3,), "buffer")]
    assignment = match(variables, kinds, rows, optional_kinds=("buffer",))
    assert assignment.is_complete
    assert [variable.name for variable, _ in assignment.pairs] == ["there"]
    assert "other stays as it is" in caplog.text


def test_arrays_that_are_no_parameters_may_be_left_over():
    rows = [row("a", (2,)), row("velocity", (2,), "buffer"), row("arrays/0", (9,), "array")]
    assert match([shared([1, 2], "a")], names("a"), rows).is_complete


def test_nothing_is_read_or_set_for_what_does_not_fit():
    variable = shared([1, 2], "a")
    assignment = match([variable, shared(0, "b")], names("a", "b"), [row("a", (2,))])
    for strict, error in ((True, ParameterMismatch), (False, None)):
        if error:
            with pytest.raises(error, match="missing in the file: b") as caught:
                assignment.require_complete("run.zip", strict=strict)
            assert caught.value.path == "run.zip"
            assert isinstance(caught.value, ValueError)
        else:
            with pytest.warns(ParameterWarning, match="missing in the file: b"):
                assignment.require_complete("run.zip", strict=strict)
    assert variable.get_value().tolist() == [1, 2]


# The values


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        ("float64", "float32"),
        ("float32", "float64"),
        ("int32", "int64"),
        ("int32", "float32"),
        (">f8", "float32"),
        ("bool", "float32"),
    ],
)
def test_values_are_given_the_dtype_of_the_variable(stored, wanted):
    variable = shared([0, 0], "a", wanted)
    prepared = match([variable], names("a"), [row("a", (2,))]).prepare(
        Stored(a=numpy.array([1, 0], dtype=stored))
    )
    assert variable.get_value().tolist() == [0, 0]
    prepared.carry_out()
    assert variable.get_value().tolist() == [1, 0]
    assert variable.get_value().dtype == wanted


@pytest.mark.parametrize(
    ("stored", "wanted"), [("float32", "int64"), ("complex64", "float32"), ("float64", "bool")]
)
def test_values_that_would_lose_their_meaning_are_refused_all_at_once(stored, wanted):
    variables = [shared([0, 0], name, wanted) for name in ("a", "b")]
    assignment = match(variables, names("a", "b"), [row("a", (2,)), row("b", (2,))])
    array = numpy.array([1.5, 2.5], dtype=stored)
    with pytest.raises(ParameterMismatch) as caught:
        assignment.prepare(Stored(a=array, b=array))
    for line in (f"a is {stored} in the file, {wanted} here", f"b is {stored}"):
        assert line in str(caught.value)


def test_variable_that_refuses_its_value_leaves_all_of_them_as_they_were():
    good, bad = shared([1, 2], "good"), shared([1, 2], "bad")
    prepared = PreparedAssignment(
        [(good, numpy.array([3, 4], "float32")), (bad, numpy.zeros((2, 2, 2), "float32"))]
    )
    with pytest.raises(Exception):  # noqa: B017, PT011 - each engine has its own
        prepared.carry_out()
    assert good.get_value().tolist() == bad.get_value().tolist() == [1, 2]


def test_values_that_were_loaded_are_the_variables_own():
    """Training in place does not reach the array that was read, nor another variable."""
    one, other = shared([0, 0], "a"), shared([0, 0], "b")
    array = numpy.array([1, 2], "float32")
    match([one], names("a"), [row("a", (2,))]).prepare(Stored(a=array)).carry_out()
    match([other], names("a"), [row("a", (2,))]).prepare(Stored(a=array.copy())).carry_out()
    one.get_value(borrow=True, return_internal_type=True)[:] = 9
    assert other.get_value().tolist() == [1, 2]


# Models


def test_names_are_those_of_the_model_also_where_bricks_share_them(tmp_path):
    """Two bricks of one name: both are saved, both come back."""
    path = tmp_path / "run.zip"

    def build(values):
        layers = [
            Linear(2, 2, name="same", use_bias=False, weights_init=Constant(v)) for v in values
        ]
        top = Sequence([layer.apply for layer in layers], name="top")
        top.initialize()
        return Model(top.apply(current().tensor.matrix("x")).sum()), layers

    model, _ = build([1, 2])
    make_main_loop(Checkpoint(path), model=model, epochs=1).run()
    saved = [each.get_value() for each in model.parameters]
    fresh, _ = build([5, 6])
    main_loop = make_main_loop(first=[LoadParameters(path)], model=fresh)
    main_loop.extensions[0].main_loop = main_loop
    main_loop.extensions[0].do()
    assert len(load_parameters(path)) == 2
    for values, variable in zip(saved, fresh.parameters):
        assert numpy.array_equal(values, variable.get_value())


def make_normalised():
    normalisation = BatchNormalization(input_dim=3, name="norm")
    mlp = MLP([Tanh()], [3, 3], weights_init=Constant(1), biases_init=Constant(0), name="mlp")
    top = Sequence([mlp.apply, normalisation.apply], name="top")
    top.initialize()
    return Model(top.apply(current().tensor.matrix("features")).sum()), normalisation


def test_population_statistics_are_part_of_a_model(tmp_path):
    path = tmp_path / "run.zip"
    model, normalisation = make_normalised()
    main_loop = make_main_loop(Checkpoint(path), model=model, epochs=1)
    normalisation.population_mean.set_value(numpy.arange(3).astype(current().floatX))
    main_loop.run()
    for extension in (LoadParameters(path), Resume(path)):
        fresh, normalisation = make_normalised()
        target = make_main_loop(first=[extension], model=fresh)
        extension.main_loop = target
        extension.do()
        assert normalisation.population_mean.get_value().tolist() == [0, 1, 2]
    variables, _ = model_variables(target)
    assert normalisation.population_stdev in variables


def test_missing_statistics_are_an_error_for_parameters_and_said_on_resuming(tmp_path, caplog):
    """A file of parameters has none, and the model would compute something else."""
    path = tmp_path / "values.zip"
    model, _ = make_normalised()
    save_parameters(model.get_parameter_values(), path)
    with pytest.raises(ParameterMismatch) as caught:
        make_main_loop(first=[LoadParameters(path)], model=model).run()
    assert sorted(caught.value.missing) == [
        "/top/norm.population_mean",
        "/top/norm.population_stdev",
    ]
    make_main_loop(first=[Resume(path)], model=model, epochs=1).run()
    assert "population_mean stays as it is: it is not in the file" in caplog.text


def test_loop_has_every_variable_that_a_save_has_under_the_same_names(tmp_path):
    path = tmp_path / "run.zip"
    main_loop = make_main_loop(Checkpoint(path), epochs=1)
    main_loop.run()
    with open_checkpoint(path) as saved:
        stored = {r["name"]: r["kind"] for r in saved.manifest["arrays"] if r["kind"] != "array"}
    for loop in (main_loop, make_main_loop(), unpicklable(make_main_loop())):
        _, found = loop_variables(loop)
        assert {each.name: each.kind for each in found} == stored


def unpicklable(main_loop):
    main_loop.first = lambda: None
    main_loop.algorithm.last = lambda: None
    return main_loop


def test_model_that_is_not_a_blocks_model_is_enough(tmp_path):
    """It needs ``parameters``, and no more."""

    class Bare:
        parameters = [shared([1, 2], "w")]

    path = tmp_path / "values.zip"
    save_parameters({"w": numpy.array([3, 4])}, path)
    main_loop = make_main_loop(first=[LoadParameters(path)], epochs=1)
    main_loop._model = Bare()
    main_loop.extensions[0].main_loop = main_loop
    main_loop.extensions[0].do()
    assert Bare.parameters[0].get_value().tolist() == [3, 4]


def test_transposed_parameter_in_the_file_is_named_with_both_shapes(tmp_path):
    path = tmp_path / "values.zip"
    model = make_model()
    values = model.get_parameter_values()
    values["/mlp/linear_0.W"] = values["/mlp/linear_0.W"].T
    save_parameters(values, path)
    with pytest.raises(ParameterMismatch, match=r"linear_0\.W has shape \(4, 3\).*\(3, 4\)"):
        make_main_loop(first=[LoadParameters(path)], model=model).run()
