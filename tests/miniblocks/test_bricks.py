"""Bricks: hierarchy, allocation, initialisation, application."""

import pickle

import numpy
import pytest

from blocks_checkpoint.engines import current
from blocks_checkpoint.miniblocks.bricks import (
    MLP,
    BatchNormalization,
    BatchNormalizedMLP,
    Bias,
    Brick,
    FeedforwardSequence,
    Identity,
    Linear,
    Logistic,
    Rectifier,
    Sequence,
    Softmax,
    Tanh,
    application,
    lazy,
)
from blocks_checkpoint.miniblocks.bricks.base import NoneAllocation
from blocks_checkpoint.miniblocks.bricks.cost import (
    CategoricalCrossEntropy,
    MisclassificationRate,
    SquaredError,
)
from blocks_checkpoint.miniblocks.filter import get_application_call, get_brick
from blocks_checkpoint.miniblocks.initialization import Constant, IsotropicGaussian
from blocks_checkpoint.miniblocks.roles import BIAS, INPUT, OUTPUT, PARAMETER, WEIGHT, has_roles
from blocks_checkpoint.miniblocks.utils import shared_floatx

DATA = numpy.random.RandomState(0).normal(size=(5, 4))


@pytest.fixture
def x():
    return current().tensor.matrix("x")


def small_mlp(**kwargs):
    kwargs.setdefault("weights_init", IsotropicGaussian(0.5))
    kwargs.setdefault("biases_init", Constant(0.25))
    return MLP([Tanh(), None], [4, 3, 2], **kwargs)


def names(bricks):
    return [brick.name for brick in bricks]


class Doubler(Brick):
    """Returns the input, doubled, and its mean beside."""

    @application(inputs=["x"], outputs=["doubled", "mean"])
    def apply(self, x, application_call):
        application_call.metadata["is_called"] = True
        application_call.add_auxiliary_variable(x.sum(), name="total")
        return 2 * x, x.mean()


class LazyBrick(Brick):
    """Needs a width to be allocated."""

    @lazy(allocation=["width"])
    def __init__(self, width, **kwargs):
        super().__init__(**kwargs)
        self.width = width

    def _allocate(self):
        self.parameters.append(shared_floatx(numpy.zeros(self.width), name="z"))


def test_mlp_is_made_of_layers_and_activations():
    mlp = small_mlp()
    assert names(mlp.children) == ["linear_0", "tanh", "linear_1"]
    assert [child.parents for child in mlp.children] == [[mlp]] * 3
    assert (mlp.input_dim, mlp.output_dim) == (4, 2)


def test_path_leads_from_the_top_to_the_parameter():
    mlp = small_mlp(name="net")
    top = Sequence([mlp], name="top")
    mlp.allocate()
    weights = mlp.linear_transformations[1].W
    assert names(mlp.linear_transformations[1].get_unique_path()) == ["top", "net", "linear_1"]
    assert mlp.linear_transformations[1].get_hierarchical_name(weights) == "/top/net/linear_1.W"
    assert top.children == [mlp]


def test_brick_with_two_parents_has_one_path():
    linear = Linear(2, 2)
    Sequence([linear], name="b")
    Sequence([linear], name="a")
    assert names(linear.get_unique_path()) == ["a", "linear"]


def test_child_that_is_replaced_loses_its_parent():
    first, second = Tanh(name="first"), Tanh(name="second")
    parent = Brick(children=[first])
    parent.children[0] = second
    assert (first.parents, second.parents) == ([], [parent])
    del parent.children[0]
    assert second.parents == []


def test_allocation_is_pushed_down_and_makes_parameters_with_roles():
    mlp = small_mlp()
    assert not mlp.allocated
    mlp.allocate()
    first = mlp.linear_transformations[0]
    assert [parameter.name for parameter in first.parameters] == ["W", "b"]
    assert first.W.get_value().shape == (4, 3)
    assert numpy.isnan(first.W.get_value()).all()
    assert has_roles(first.W, [WEIGHT])
    assert has_roles(first.b, [BIAS])
    assert has_roles(first.b, [PARAMETER])
    assert get_brick(first.W) is first


def test_allocation_makes_new_parameters_but_keeps_those_of_a_shared_child():
    shared = Linear(2, 2)
    one, other = Sequence([shared], name="one"), Sequence([shared], name="other")
    one.allocate()
    first = shared.W
    other.allocate()
    assert shared.W is first
    other.allocate()
    assert shared.W is not first


def test_initialisation_is_pushed_down_and_reproducible():
    one, other = small_mlp(seed=3), small_mlp(seed=3)
    for mlp in (one, other):
        mlp.initialize()
    weights, others = (
        [layer.W.get_value() for layer in mlp.linear_transformations] for mlp in (one, other)
    )
    numpy.testing.assert_equal(weights, others)
    assert not numpy.isnan(weights[1]).any()
    assert (one.linear_transformations[0].b.get_value() == 0.25).all()


def test_initialisation_pushed_by_hand_can_be_changed_for_one_layer():
    mlp = small_mlp()
    mlp.push_initialization_config()
    mlp.linear_transformations[1].weights_init = Constant(7)
    mlp.initialize()
    assert (mlp.linear_transformations[1].W.get_value() == 7).all()
    assert not (mlp.linear_transformations[0].W.get_value() == 7).any()


def test_layers_without_bias():
    mlp = small_mlp(use_bias=False)
    mlp.allocate()
    assert [len(layer.parameters) for layer in mlp.linear_transformations] == [1, 1]
    assert not hasattr(mlp.linear_transformations[0], "b")


@pytest.mark.parametrize(
    ("act", "missing"),
    [
        (lambda: Linear(output_dim=3).allocate(), "input_dim"),
        (lambda: LazyBrick().allocate(), "width"),
        (lambda: MLP([Tanh()]).allocate(), "linear_0: input_dim, output_dim"),
        (lambda: MLP([Tanh()], [1, 2, 3]).allocate(), "one dimension more"),
        (lambda: Linear(2, 2).initialize(), "biases_init"),
        (lambda: Linear(2, 2).get_dim("width"), "no dimension of width"),
    ],
)
def test_what_is_not_set_is_named(act, missing):
    with pytest.raises(ValueError, match=missing):
        act()


def test_lazy_argument_can_be_set_later():
    brick = LazyBrick(name="later")
    assert brick.width is NoneAllocation
    assert pickle.loads(pickle.dumps(brick)).width is NoneAllocation
    brick.width = 3
    brick.allocate()
    assert brick.parameters[0].get_value().shape == (3,)
    assert LazyBrick(4).width == 4


def test_dimensions_are_known_by_name():
    linear, bias = Linear(2, 3), Bias(5)
    assert linear.get_dims(["input_", "output"]) == [2, 3]
    assert (bias.get_dim("output"), bias.input_dim, bias.output_dim) == (5, 5, 5)
    sequence = FeedforwardSequence([linear, Tanh(), Linear(3, 4)])
    assert (sequence.input_dim, sequence.output_dim) == (2, 4)


def test_application_tags_inputs_and_outputs(x):
    brick = Doubler(name="twice")
    doubled, mean = brick.apply(x)
    call = get_application_call(doubled)
    assert (doubled.name, doubled.tag.name) == ("twice_apply_doubled", "doubled")
    assert has_roles(doubled, [OUTPUT])
    assert has_roles(mean, [OUTPUT])
    assert get_brick(mean) is brick
    assert call.application == brick.apply
    assert call.metadata == {"call_id": None, "is_called": True}
    (total,) = call.auxiliary_variables
    assert total.name == "twice_apply_total"
    (copied,) = (v for v in current().ancestors([doubled]) if has_roles(v, [INPUT]))
    assert copied.name == "twice_apply_x"
    assert not has_roles(x, [INPUT])


def test_application_returns_what_is_asked_for(x):
    brick = Doubler()
    assert list(brick.apply(x, as_dict=True)) == ["doubled", "mean"]
    assert len(Identity().apply(x, as_list=True)) == 1
    named = brick.apply(x, call_id="second", as_list=True)
    assert get_application_call(named[0]).metadata["call_id"] == "second"


def test_application_knows_its_names():
    assert Linear.apply.inputs == ["input_"]
    assert Linear(1, 1).apply.outputs == ["output"]
    assert Sequence([Softmax(), Tanh()]).apply.outputs == ["output"]


def test_application_outside_the_hierarchy_is_warned_of(x, caplog):
    stranger = Tanh(name="stranger")

    class Parent(Brick):
        @application
        def apply(self, x):
            return stranger.apply(x)

    Parent(name="parent").apply(x)
    assert "parent applies stranger" in caplog.text


def test_applications_are_equal_after_a_pickle():
    mlp = small_mlp()
    loaded, bound, unbound = pickle.loads(pickle.dumps((mlp, mlp.apply, Linear.apply)))
    assert bound == loaded.apply
    assert hash(bound) == hash(loaded.apply)
    assert bound != mlp.apply
    assert unbound is Linear.apply


def test_hierarchy_survives_a_pickle():
    mlp = small_mlp()
    mlp.initialize()
    loaded = pickle.loads(pickle.dumps(mlp))
    assert names(loaded.children) == names(mlp.children)
    assert all(child.parents == [loaded] for child in loaded.children)
    first = loaded.linear_transformations[0]
    assert first is loaded.children[0]
    assert get_brick(first.W) is first
    numpy.testing.assert_equal(first.W.get_value(), mlp.linear_transformations[0].W.get_value())


def test_parameter_shared_by_two_bricks_belongs_to_the_first():
    one, other = Linear(2, 2, name="one"), Linear(2, 2, name="other")
    one.allocate()
    other.allocate()
    other.parameters[0] = one.W
    assert other.W is one.W
    assert get_brick(one.W) is one


def test_values_of_simple_bricks(x):
    """One function computes them all: compiling costs more than computing."""
    labels = current().tensor.lvector("labels")
    bias = Bias(4, biases_init=Constant(2))
    bias.initialize()
    softmax = Softmax()
    outputs = [
        bias.apply(x),
        Identity().apply(x),
        Tanh().apply(x),
        Logistic().apply(x),
        Rectifier().apply(x),
        softmax.apply(x),
        softmax.categorical_cross_entropy(labels, 1000 * x),
        softmax.categorical_cross_entropy(softmax.apply(x), x).sum(),
        CategoricalCrossEntropy().apply(labels, softmax.apply(x)),
        SquaredError().apply(x, 0 * x),
        MisclassificationRate().apply(labels, x),
        MisclassificationRate(top_k=2).apply(labels, x),
    ]
    truth = numpy.array([0, 1, 2, 3, 0])
    values = current().function([x, labels], outputs)(DATA, truth)

    exponentials = numpy.exp(DATA)
    probabilities = exponentials / exponentials.sum(axis=1, keepdims=True)
    rows = numpy.arange(5)
    ranks = (DATA[rows, truth][:, None] < DATA).sum(axis=1)
    expected = [
        DATA + 2,
        DATA,
        numpy.tanh(DATA),
        1 / (1 + numpy.exp(-DATA)),
        numpy.maximum(DATA, 0),
        probabilities,
        1000 * (DATA.max(axis=1) - DATA[rows, truth]),
        -(probabilities * numpy.log(probabilities)).sum(),
        -numpy.log(probabilities[rows, truth]).mean(),
        (DATA**2).sum(axis=1).mean(),
        (ranks > 0).mean(),
        (ranks > 1).mean(),
    ]
    for value, wanted in zip(values, expected):
        numpy.testing.assert_allclose(value, wanted, rtol=1e-7, atol=1e-12)


def test_mlp_computes_layer_by_layer(x):
    mlp = small_mlp()
    mlp.initialize()
    (w0, b0), (w1, b1) = (
        [parameter.get_value() for parameter in layer.parameters]
        for layer in mlp.linear_transformations
    )
    computed = current().function([x], mlp.apply(x))(DATA)
    numpy.testing.assert_allclose(computed, numpy.tanh(DATA @ w0 + b0) @ w1 + b1)


def test_batch_normalisation_keeps_population_statistics_that_are_no_parameters():
    brick = BatchNormalization(3)
    brick.initialize()
    assert [parameter.name for parameter in brick.parameters] == [
        "batch_norm_shift",
        "batch_norm_scale",
    ]
    assert brick.population_mean.get_value().tolist() == [0, 0, 0]
    assert brick.population_stdev.get_value().tolist() == [1, 1, 1]
    assert get_brick(brick.population_mean) is brick
    assert not has_roles(brick.population_mean, [PARAMETER])


def test_batch_normalised_mlp_normalises_every_layer():
    mlp = BatchNormalizedMLP([Tanh(), None], [4, 3, 2], weights_init=Constant(1))
    mlp.initialize()
    assert [layer.children[0].input_dim for layer in mlp.activations] == [3, 2]
    assert [len(layer.parameters) for layer in mlp.linear_transformations] == [1, 1]
