"""Computation graphs: what is found in them, and how they are changed."""

import pickle

import numpy
import pytest

from blocks_checkpoint.engines import current
from blocks_checkpoint.miniblocks.bricks import (
    MLP,
    BatchNormalization,
    BatchNormalizedMLP,
    Linear,
    Tanh,
)
from blocks_checkpoint.miniblocks.filter import VariableFilter
from blocks_checkpoint.miniblocks.graph import (
    Annotation,
    ComputationGraph,
    add_annotation,
    apply_batch_normalization,
    apply_dropout,
    batch_normalization,
    get_batch_normalization_updates,
)
from blocks_checkpoint.miniblocks.initialization import Constant, IsotropicGaussian
from blocks_checkpoint.miniblocks.roles import BIAS, DROPOUT, OUTPUT, PARAMETER, WEIGHT
from blocks_checkpoint.miniblocks.utils import shared_floatx

DATA = numpy.random.RandomState(0).normal(size=(5, 4))

NAMES_IN_A_FRESH_PROCESS = """
from blocks_checkpoint.engines import current
from blocks_checkpoint.miniblocks.bricks import MLP, Tanh
from blocks_checkpoint.miniblocks.graph import ComputationGraph
mlp = MLP([Tanh(), Tanh(), Tanh()], [4, 3, 2, 1])
print([str(v.name) for v in ComputationGraph(mlp.apply(current().tensor.matrix("x")))])
"""


@pytest.fixture
def x():
    return current().tensor.matrix("x")


def small_mlp():
    mlp = MLP(
        [Tanh(), None],
        [4, 3, 2],
        weights_init=IsotropicGaussian(0.5),
        biases_init=Constant(0),
        seed=1,
    )
    mlp.initialize()
    return mlp


def test_graph_sorts_its_variables_by_what_they_are(x):
    engine = current()
    weights, mask = shared_floatx(numpy.zeros((4, 3)), name="W"), shared_floatx(1.0, name="mask")
    Linear(4, 3).parameters = [weights]
    hidden = engine.tensor.dot(x, weights)
    output = hidden * mask + 1
    graph = ComputationGraph(output)
    assert graph.inputs == [x]
    assert graph.shared_variables == [mask, weights]
    assert graph.parameters == [weights]
    assert graph.outputs == [output]
    assert hidden in graph.intermediary_variables
    assert x not in graph.intermediary_variables
    assert graph.dict_of_inputs() == {"x": x}
    assert graph.has_inputs(hidden)
    assert not graph.has_inputs(weights)


def test_shared_output_is_a_variable_too():
    weights = shared_floatx(1.0, name="W")
    assert ComputationGraph([weights]).variables == [weights]


def test_inputs_of_an_operation_come_before_its_result(x):
    graph = ComputationGraph(small_mlp().apply(x))
    place = {variable: number for number, variable in enumerate(graph.variables)}
    assert len(place) == len(graph.variables)
    for variable in graph.variables:
        for source in variable.owner.inputs if variable.owner else ():
            assert place[source] < place[variable]


def test_order_is_the_same_whatever_the_hash_seed(tmp_path, run_program, monkeypatch):
    script = tmp_path / "script.py"
    script.write_text(NAMES_IN_A_FRESH_PROCESS)
    printed = set()
    for seed in ("1", "2"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        printed.add(run_program(script, cwd=tmp_path).stdout)
    assert len(printed) == 1


def test_thousands_of_operations_are_no_problem():
    variable = current().tensor.scalar("x")
    for _ in range(3000):
        variable = -variable
    assert len(ComputationGraph(variable).variables) == 3001


def test_annotations_bring_variables_and_updates_along(x):
    counter = shared_floatx(0.0, name="counter")
    annotation = Annotation()
    annotation.add_auxiliary_variable(x.sum(), roles=[OUTPUT], name="total")
    annotation.updates[counter] = counter + 1
    y = x * 2
    add_annotation(y, annotation)
    graph = ComputationGraph(y + 1)
    assert [variable.name for variable in graph.auxiliary_variables] == ["total"]
    assert graph.updates == annotation.updates
    assert VariableFilter(roles=[OUTPUT])(graph) == graph.auxiliary_variables
    with pytest.raises(ValueError, match="already"):
        add_annotation(y, Annotation())


def test_replacement_may_be_computed_from_what_it_replaces(x):
    y = x + 1
    z = y * 10
    replaced = ComputationGraph([z, y]).replace({y: y * 2, z: z + y})
    new_z, new_y = current().function([x], replaced.outputs)([[3]])
    assert (new_y.item(), new_z.item()) == (8, 88)


def test_replacing_what_is_not_there_is_warned_of(x, caplog):
    ComputationGraph(x + 1).replace([(x * 2, x)])
    assert "not in the graph" in caplog.text


@pytest.mark.parametrize(
    ("criteria", "found"),
    [
        ({"roles": [WEIGHT]}, ["W", "W"]),
        ({"roles": [PARAMETER]}, ["b", "b", "W", "W"]),
        ({"roles": [WEIGHT, BIAS], "each_role": True}, []),
        ({"roles": [OUTPUT], "bricks": [Tanh]}, ["tanh_apply_output"]),
        ({"theano_name": "linear_1_apply_output"}, ["linear_1_apply_output"]),
        (
            {"theano_name_regex": "linear_.*_output"},
            ["linear_0_apply_output", "linear_1_apply_output"],
        ),
        ({"name": "output", "applications": [Tanh.apply]}, ["tanh_apply_output"]),
        ({"name_regex": "inp", "call_id": "tenth"}, []),
    ],
)
def test_filter_picks_what_fits_all_criteria(x, criteria, found):
    variables = ComputationGraph(small_mlp().apply(x)).variables
    assert [variable.name for variable in VariableFilter(**criteria)(variables)] == found


def test_filter_finds_the_same_after_a_pickle(x):
    mlp = small_mlp()
    graph = ComputationGraph(mlp.apply(x))
    mlp, graph = pickle.loads(pickle.dumps((mlp, graph)))
    layer = mlp.linear_transformations[0]
    assert len(VariableFilter(roles=[PARAMETER])(graph)) == 4
    assert VariableFilter(roles=[WEIGHT], bricks=[layer])(graph) == [layer.W]
    assert len(VariableFilter(roles=[OUTPUT], applications=[layer.apply])(graph)) == 1


@pytest.mark.parametrize("criteria", [{"bricks": ["mlp"]}, {"applications": ["apply"]}])
def test_filter_refuses_what_is_no_criterion(criteria):
    with pytest.raises(ValueError, match="what is no"):
        VariableFilter(**criteria)


# PyTensor 3 has announced another interface to its random variables.
@pytest.mark.filterwarnings("ignore::DeprecationWarning:pytensor")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:blocks_checkpoint")
def test_dropout_sets_some_to_zero_and_keeps_the_mean(x):
    y = x * 1
    graph = apply_dropout(ComputationGraph(y), [y], 0.25, seed=5)
    (dropped,) = VariableFilter(roles=[DROPOUT])(graph)
    assert dropped is graph.outputs[0]
    ones = numpy.ones((100, 100))
    function = current().function([x], graph.outputs[0])
    first, second = function(ones), function(ones)
    assert set(first.ravel()) == {0, 1 / 0.75}
    assert first.mean() == pytest.approx(1, abs=0.05)
    assert (first != second).any()


def test_batch_normalisation_uses_the_batch_in_training(x):
    """By the context manager, and by changing the graph: the same values."""
    mlp = BatchNormalizedMLP([Tanh(), None], [4, 3, 2], weights_init=IsotropicGaussian(0.5), seed=1)
    mlp.initialize()
    prediction = mlp.apply(x)
    with batch_normalization(mlp):
        training = mlp.apply(x)
    changed = apply_batch_normalization(ComputationGraph(prediction)).outputs[0]
    untouched = apply_batch_normalization(ComputationGraph(training)).outputs[0]
    updates = get_batch_normalization_updates(ComputationGraph(changed))
    function = current().function(
        [x], [prediction, training, changed, untouched, *[new for _, new in updates]]
    )
    values = function(DATA)
    assert not numpy.allclose(values[0], values[1])
    numpy.testing.assert_allclose(values[1], values[2])
    numpy.testing.assert_allclose(values[1], values[3])
    numpy.testing.assert_allclose(values[1].mean(axis=0), 0, atol=1e-12)

    first = mlp.activations[0].children[0]
    pairs = dict(zip([old for old, _ in updates], values[4:]))
    hidden = DATA @ mlp.linear_transformations[0].W.get_value()
    numpy.testing.assert_allclose(pairs[first.population_mean], hidden.mean(axis=0))
    numpy.testing.assert_allclose(
        pairs[first.population_stdev], numpy.sqrt(hidden.var(axis=0) + 1e-4)
    )


def test_updates_of_population_statistics_want_one_training_application(x):
    brick = BatchNormalization(4)
    with pytest.raises(ValueError, match="no batch normalisation"):
        get_batch_normalization_updates(ComputationGraph(brick.apply(x)))
    with brick:
        twice = ComputationGraph(brick.apply(brick.apply(x)))
    with pytest.raises(ValueError, match="applied twice"):
        get_batch_normalization_updates(twice)
    assert len(get_batch_normalization_updates(twice, allow_duplicates=True)) == 4
