"""The names of shared variables: by place, by owner, by number."""

import itertools
import json
import subprocess
import sys
import textwrap

import named_models
import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from named_models import variable

from blocks_checkpoint import dump, open_checkpoint
from blocks_checkpoint.engines import current
from blocks_checkpoint.miniblocks.bricks import MLP, BatchNormalization, Linear, Tanh
from blocks_checkpoint.naming import brick_of, name_variables, numbered, true_name


def names_of(variables, **options):
    return [each.name for each in name_variables(variables, **options)]


def parameter_names_of(variables, **options):
    return [each.parameter_name for each in name_variables(variables, **options)]


def kinds_of(variables, **options):
    return [each.kind for each in name_variables(variables, **options)]


@pytest.mark.parametrize(
    ("names", "distinct"),
    [
        pytest.param([], [], id="none"),
        pytest.param(["b", "W"], ["b", "W"], id="once"),
        pytest.param(["W", "b", "W"], ["W_0", "b", "W_1"], id="twice"),
        pytest.param(["W", "W", "W_1"], ["W_0", "W_2", "W_1"], id="a-number-that-exists"),
        pytest.param(["W_0", "W", "W"], ["W_0", "W_1", "W_2"], id="one-that-exists-before"),
        pytest.param(
            ["foo", "foo", "foo_2", "foo_2"], ["foo_0", "foo_1", "foo_2_0", "foo_2_1"], id="both"
        ),
        pytest.param(["W", "W", "W_0", "W_0"], ["W_1", "W_2", "W_0_0", "W_0_1"], id="both-run-in"),
        pytest.param(["", ""], ["_0", "_1"], id="without-letters"),
    ],
)
def test_names_that_occur_more_than_once_are_numbered_from_0(names, distinct):
    assert numbered(names) == distinct


@given(st.lists(st.text(st.sampled_from("ab_01"), max_size=4), max_size=12))
def test_numbered_names_are_distinct_and_those_that_occur_once_are_kept(names):
    result = numbered(names)
    assert len(set(result)) == len(names)
    for name, new in zip(names, result):
        assert new == name if names.count(name) == 1 else new.startswith(f"{name}_")


@pytest.mark.parametrize(
    ("parameter_name", "name"),
    [
        ("/mlp/linear_0.W", "mlp/linear_0/W"),
        ("/linear.W", "linear/W"),
        ("/net.v2/linear.W", "net.v2/linear/W"),
        ("W", "W"),
        ("W.mean", "W.mean"),
        ("/", "/"),
        ("/.W", "/.W"),
        ("/mlp", "/mlp"),
    ],
)
def test_a_name_follows_from_a_parameter_name(parameter_name, name):
    assert true_name(parameter_name) == name


@pytest.mark.parametrize(
    ("given_names", "name"),
    [
        pytest.param({"name": "V"}, "V", id="name"),
        pytest.param({"name": "V", "tag_name": "W"}, "W", id="the-tag's-first"),
        pytest.param({"tag_name": "W"}, "W", id="the-tag's-alone"),
        pytest.param({}, "shared", id="none"),
        pytest.param({"name": ""}, "shared", id="empty"),
        pytest.param({"parameter": True}, "parameter", id="none-of-a-parameter"),
    ],
)
def test_a_variable_outside_of_bricks_has_its_own_name_or_a_default(given_names, name):
    assert names_of([variable(**given_names)]) == [name]


def test_a_buffer_hangs_under_its_parameter():
    parameter, other = variable("W"), variable("V")
    buffers = [variable("mean", parameter), variable("mean", other), variable(None, parameter)]
    assert names_of([*buffers, parameter, other], parameters=[parameter, other]) == [
        *("W.mean", "V.mean", "W.buffer", "W", "V")
    ]
    assert kinds_of([*buffers, parameter]) == ["buffer", "buffer", "buffer", "shared"]


def test_a_buffer_takes_over_the_number_of_its_parameter():
    first, second = variable("W"), variable("W")
    variables = [variable("mean", second), variable("mean", first), second, first]
    assert names_of(variables, parameters=[first, second]) == ["W_1.mean", "W_0.mean", "W_1", "W_0"]


def test_a_buffer_of_a_buffer_hangs_under_it():
    parameter = variable("W")
    buffer = variable("mean", parameter)
    assert names_of([variable("error", buffer), buffer, parameter]) == [
        "W.mean.error",
        "W.mean",
        "W",
    ]


def test_two_buffers_of_one_name_are_numbered():
    parameter = variable("W")
    buffers = [variable("mean", parameter), variable("mean", parameter)]
    assert names_of([parameter, *buffers]) == ["W", "W.mean_0", "W.mean_1"]


def test_a_buffer_of_itself_and_buffers_of_each_other_have_names():
    own, one, other = variable("own"), variable("one"), variable("other")
    own.tag.for_parameter, one.tag.for_parameter, other.tag.for_parameter = own, other, one
    assert names_of([own, one, other]) == ["own", "one", "other"]


def test_a_buffer_of_a_parameter_that_is_not_there_has_its_own_name():
    assert names_of([variable("mean", variable("W"))]) == ["mean"]


def test_a_variable_in_a_brick_is_named_by_the_path():
    mlp = MLP([Tanh(), Tanh()], [2, 2, 2], name="mlp")
    mlp.allocate()
    weights = mlp.linear_transformations[1].parameters[0]
    assert brick_of(weights) is mlp.linear_transformations[1]
    assert names_of([weights]) == ["mlp/linear_1/W"]
    assert parameter_names_of([weights]) == ["/mlp/linear_1.W"]


def test_a_brick_without_parents_is_the_whole_path():
    linear = Linear(2, 2)
    linear.allocate()
    assert names_of(linear.parameters) == ["linear/W", "linear/b"]


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_numbers_follow_the_order_of_the_model_s_parameters(order):
    parameters = [variable(name) for name in ("foo", "foo", "foo_2", "foo_2")]
    variables = [parameters[index] for index in order]
    named = dict(zip(map(id, variables), names_of(variables, parameters=parameters)))
    assert [named[id(each)] for each in parameters] == ["foo_0", "foo_1", "foo_2_0", "foo_2_1"]


def test_variable_of_a_run_that_goes_on_comes_after_those_of_the_run_before(tmp_path):
    path = str(tmp_path / "made.zip")
    for _ in range(50):
        made = current().shared(numpy.zeros(1), name="v")
    dump({"all": [made]}, path)
    script = textwrap.dedent(
        f"""
        import numpy
        from blocks_checkpoint import dump, load
        loaded = load({path!r})
        from blocks_checkpoint.engines import current
        loaded["all"].insert(0, current().shared(numpy.ones(1), name="v"))
        dump(loaded, {path!r})
        """
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.arrays["v_0"].tolist() == [0]
        assert checkpoint.arrays["v_1"].tolist() == [1]


def test_numbers_follow_the_order_of_creation_where_the_model_gives_none():
    made = [variable("W") for _ in range(4)]
    met = [made[2], made[0], made[3], made[1]]
    assert names_of(met) == ["W_2", "W_0", "W_3", "W_1"]
    assert names_of(met, first=[made[3]]) == ["W_3", "W_1", "W_0", "W_2"]


def test_parameters_are_numbered_before_all_others():
    other, parameter = variable("W"), variable("W")
    assert names_of([other, parameter], parameters=[parameter]) == ["W_1", "W_0"]


def test_the_names_that_the_model_gives_are_kept_whatever_else_has_that_name():
    other, parameter, buffer = variable("W"), variable("W"), variable("mean")
    buffer.tag.for_parameter = parameter
    named = parameter_names_of(
        [other, buffer, parameter], parameters=[parameter], given={"W": parameter}
    )
    assert named[2] == "W"
    assert named[1] == "W.mean"
    assert len(set(named)) == 3


def test_parameters_that_the_model_has_merged_into_one_name_are_told_apart():
    first, second, third = variable("W"), variable("W"), variable("b")
    named = parameter_names_of(
        [first, second, third],
        parameters=[first, second, third],
        given={"W": second, "b": third},
    )
    assert named == ["W_0", "W_1", "b"]


def test_a_parameter_without_a_name_has_one_though_the_model_knows_none():
    parameter = variable()
    names = name_variables([parameter], parameters=[parameter], given={None: parameter})
    assert [(each.name, each.parameter_name) for each in names] == [("parameter", "parameter")]


def test_only_the_model_s_parameters_are_parameters():
    mine, of_another_model = variable("W", parameter=True), variable("V", parameter=True)
    assert kinds_of([mine, of_another_model], parameters=[mine]) == ["parameter", "shared"]
    assert kinds_of([mine, of_another_model]) == ["parameter", "parameter"]


def test_statistics_of_batch_normalisation_are_buffers():
    brick = BatchNormalization(2, name="bn")
    brick.allocate()
    named = name_variables([brick.population_mean, brick.population_stdev])
    assert [(each.name, each.kind) for each in named] == [
        ("bn/population_mean", "buffer"),
        ("bn/population_stdev", "buffer"),
    ]


@given(
    st.lists(
        st.tuples(st.sampled_from(["W", "W_0", "b", "", "ü|/.."]), st.integers(-1, 5)), max_size=7
    )
)
def test_every_variable_has_two_names_of_its_own(described):
    variables = [variable(name) for name, _ in described]
    for each, (_, owner) in zip(variables, described):
        if 0 <= owner < len(variables):
            each.tag.for_parameter = variables[owner]
    named = name_variables(variables, parameters=variables[1::2])
    assert len({each.name for each in named}) == len(variables)
    assert len({each.parameter_name for each in named}) == len(variables)


@pytest.mark.parametrize(
    "make",
    [
        named_models.two_of_one_name_in_one_brick,
        named_models.two_top_bricks_of_one_name,
        named_models.one_brick_with_two_parents,
        named_models.variables_beside_bricks,
        named_models.one_parameter_in_two_bricks,
    ],
)
def test_parameter_names_are_those_of_the_model(make):
    model = make()
    parameters = list(model.parameters)
    expected = {id(each): name for name, each in model.get_parameter_dict().items()}
    for given_names in (model.get_parameter_dict(), None):
        named = parameter_names_of(parameters[::-1], parameters=parameters, given=given_names)
        assert named == [expected[id(each)] for each in parameters[::-1]]


SCRIPT = """
import json
import sys

import named_models
from blocks_checkpoint import dump, open_checkpoint

models = [
    named_models.two_of_one_name_in_one_brick(),
    named_models.one_brick_with_two_parents(),
    named_models.variables_beside_bricks(),
]
unnamed = [named_models.variable() for _ in range(5)]
dump([set(unnamed), {each: str(each) for each in unnamed}, models], sys.argv[1])
with open_checkpoint(sys.argv[1]) as checkpoint:
    rows = checkpoint.manifest["arrays"]
    print(json.dumps(sorted((row["name"], row["member"]) for row in rows)))
"""


def test_names_are_the_same_when_the_script_runs_again(tmp_path, run_program, monkeypatch):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    outputs = []
    for seed in ("0", "1", "2"):
        monkeypatch.setenv("PYTHONHASHSEED", seed)
        done = run_program(script, tmp_path / "made.zip", cwd=tmp_path)
        outputs.append(json.loads(done.stdout))
    assert outputs[0] == outputs[1] == outputs[2]
    assert ["pair/linear/W_0", "pair/linear/W_0.npy"] in outputs[0]
    assert len({name for name, _ in outputs[0]}) == len(outputs[0])
