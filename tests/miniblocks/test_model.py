"""Names of parameters, and setting their values."""

import numpy
import pytest

from blocks_checkpoint.engines import current
from blocks_checkpoint.miniblocks.algorithms import GradientDescent
from blocks_checkpoint.miniblocks.bricks import MLP, Linear, Sequence, Tanh
from blocks_checkpoint.miniblocks.graph import PARAMETER, add_role
from blocks_checkpoint.miniblocks.initialization import Constant
from blocks_checkpoint.miniblocks.model import Model, numbered
from blocks_checkpoint.miniblocks.utils import shared_floatx


@pytest.fixture
def x():
    return current().tensor.matrix("x")


def mlp(*dims, name="mlp"):
    brick = MLP(
        [Tanh() for _ in dims[1:]],
        list(dims),
        name=name,
        weights_init=Constant(1),
        biases_init=Constant(0),
    )
    brick.initialize()
    return brick


def test_parameters_go_by_their_place_in_the_hierarchy(x):
    first, second = mlp(4, 3, 2, name="first"), mlp(2, 1, name="second")
    model = Model(second.apply(first.apply(x)))
    assert model.get_top_bricks() == [first, second]
    parameters = model.get_parameter_dict()
    assert list(parameters) == [
        "/second/linear_0.b",
        "/first/linear_1.b",
        "/first/linear_0.b",
        "/first/linear_0.W",
        "/first/linear_1.W",
        "/second/linear_0.W",
    ]
    assert parameters["/first/linear_1.W"] is first.linear_transformations[1].W


def test_parameter_outside_any_brick_goes_by_its_own_name(x):
    variables = [shared_floatx(numpy.eye(2), name=name) for name in ("V", None)]
    for variable in variables:
        add_role(variable, PARAMETER)
    model = Model(x.dot(variables[0]).dot(variables[1]))
    assert model.get_parameter_dict() == {"V": variables[0], "parameter": variables[1]}


def test_two_bricks_of_one_name_both_survive(x, caplog):
    one, other = mlp(2, 2), mlp(2, 2)
    parameters = Model(other.apply(one.apply(x))).get_parameter_dict()
    assert sorted(parameters) == [
        "/mlp/linear_0.W_0",
        "/mlp/linear_0.W_1",
        "/mlp/linear_0.b_0",
        "/mlp/linear_0.b_1",
    ]
    assert len(set(parameters.values())) == 4
    assert "named mlp" in caplog.text


def test_two_children_of_one_name_both_survive(x):
    children = [Linear(2, 2, use_bias=False) for _ in range(2)]
    model = Model(Sequence(children).apply(x))
    assert list(model.get_parameter_dict()) == ["/sequence/linear.W_0", "/sequence/linear.W_1"]
    assert list(model.get_parameter_dict().values()) == model.parameters


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a", "b"], ["a", "b"]),
        (["W", "b", "W"], ["W_0", "b", "W_1"]),
        (["W", "W", "W_1"], ["W_0", "W_2", "W_1"]),
        (["W_0", "W", "W"], ["W_0", "W_1", "W_2"]),
        (["W", "W", "W_0", "W_0"], ["W_1", "W_2", "W_0_0", "W_0_1"]),
    ],
)
def test_numbers_never_run_into_a_name_that_exists(names, expected):
    assert numbered(names) == expected


def test_parameter_of_a_brick_with_two_parents_has_one_name(x):
    linear = Linear(2, 2, use_bias=False)
    sequences = [Sequence([linear], name=name) for name in "ba"]
    model = Model(sequences[0].apply(x) + sequences[1].apply(x))
    assert list(model.get_parameter_dict()) == ["/a/linear.W"]


def test_values_are_set_by_name(x):
    model = Model(mlp(2, 3).apply(x))
    values = {name: value + 5 for name, value in model.get_parameter_values().items()}
    model.set_parameter_values(values)
    numpy.testing.assert_equal(model.get_parameter_values(), values)


def test_value_of_another_shape_changes_nothing(x):
    model = Model(mlp(2, 3).apply(x))
    before = model.get_parameter_values()
    values = {"/mlp/linear_0.b": numpy.ones(3), "/mlp/linear_0.W": numpy.ones((3, 2))}
    with pytest.raises(ValueError, match=r"linear_0.W has shape \(2, 3\), not \(3, 2\)"):
        model.set_parameter_values(values)
    numpy.testing.assert_equal(model.get_parameter_values(), before)


def test_names_of_one_side_only_are_said(x, caplog):
    model = Model(mlp(2, 3).apply(x))
    model.set_parameter_values({"/mlp/linear_0.b": numpy.full(3, 9), "/mlp/linear_9.W": 1})
    assert "/mlp/linear_9.W" in caplog.text
    assert "/mlp/linear_0.W" in caplog.text
    assert model.get_parameter_values()["/mlp/linear_0.b"].tolist() == [9, 9, 9]


@pytest.mark.parametrize(("left_out", "is_said"), [(0, False), (1, True)])
def test_algorithm_that_trains_other_parameters_is_said(x, caplog, left_out, is_said):
    cost = mlp(2, 3).apply(x).sum()
    model = Model(cost)
    algorithm = GradientDescent(cost, model.parameters[left_out:])
    model.check_sanity(algorithm)
    assert bool(caplog.text) is is_said
