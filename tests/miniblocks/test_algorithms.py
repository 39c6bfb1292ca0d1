"""Gradient descent: steps, updates, buffers."""

import numpy
import pytest

from blocks_checkpoint.engines import current
from blocks_checkpoint.miniblocks.algorithms import (
    Adam,
    BasicMomentum,
    CompositeRule,
    GradientDescent,
    Momentum,
    Scale,
    UpdatesAlgorithm,
)
from blocks_checkpoint.miniblocks.roles import (
    ALGORITHM_BUFFER,
    ALGORITHM_HYPERPARAMETER,
    has_roles,
)
from blocks_checkpoint.miniblocks.utils import shared_floatx

START = numpy.array([3.0, 4.0])


def descent(step_rule=None, **kwargs):
    """Descent on half the square of a vector: its gradient is the vector."""
    weights = shared_floatx(START, name="W")
    x = current().tensor.scalar("x")
    cost = x * (weights**2).sum() / 2
    return weights, GradientDescent(cost, [weights], step_rule, **kwargs)


def numpy_momentum(learning_rate, momentum, steps):
    weights, velocity = START, 0
    for _ in range(steps):
        velocity = momentum * velocity + learning_rate * weights
        weights = weights - velocity
    return weights


def numpy_adam(steps, learning_rate=0.002, beta1=0.9, beta2=0.999, decay_factor=1.0):
    weights, mean, variance = START, 0, 0
    for step in range(1, steps + 1):
        decayed = beta1 * decay_factor ** (step - 1)
        mean = decayed * mean + (1 - decayed) * weights
        variance = beta2 * variance + (1 - beta2) * weights**2
        rate = learning_rate * numpy.sqrt(1 - beta2**step) / (1 - decayed**step)
        weights = weights - rate * mean / (numpy.sqrt(variance) + 1e-8)
    return weights


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        pytest.param(lambda: None, START * 0, id="default"),
        pytest.param(lambda: Scale(0.1), START * 0.9**3, id="scale"),
        pytest.param(lambda: Momentum(0.1, 0.5), numpy_momentum(0.1, 0.5, 3), id="momentum"),
        pytest.param(
            lambda: CompositeRule([BasicMomentum(0.5), Scale(0.1)]),
            numpy_momentum(0.1, 0.5, 3),
            id="composite",
        ),
        pytest.param(lambda: Adam(0.1), numpy_adam(3, 0.1), id="adam"),
        pytest.param(
            lambda: Adam(0.1, decay_factor=0.9), numpy_adam(3, 0.1, decay_factor=0.9), id="decay"
        ),
    ],
)
def test_three_steps(rule, expected):
    weights, algorithm = descent(rule())
    algorithm.initialize()
    for _ in range(3):
        algorithm.process_batch({"x": 1.0})
    numpy.testing.assert_allclose(weights.get_value(), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        (Scale, []),
        (Momentum, ["velocity"]),
        (Adam, ["mean", "variance", "time"]),
    ],
)
def test_buffers_say_which_parameter_they_are_for(rule, names):
    weights, algorithm = descent(rule())
    buffers = [variable for variable, _ in algorithm.updates if variable is not weights]
    assert [buffer.name for buffer in buffers] == names
    assert all(buffer.tag.for_parameter is weights for buffer in buffers)
    assert all(has_roles(buffer, [ALGORITHM_BUFFER]) for buffer in buffers)


def test_hyperparameters_are_shared_variables_that_can_be_changed():
    weights, algorithm = descent(Momentum(0.1, 0.0))
    assert has_roles(algorithm.step_rule.momentum, [ALGORITHM_HYPERPARAMETER])
    algorithm.initialize()
    algorithm.step_rule.learning_rate.set_value(1.0)
    algorithm.process_batch({"x": 1.0})
    assert weights.get_value().tolist() == [0, 0]


def test_added_updates_see_the_values_from_before():
    weights, algorithm = descent(Scale(0.5))
    seen = shared_floatx(numpy.zeros(2), name="seen")
    norms = shared_floatx(numpy.zeros(2), name="norms")
    both = current().tensor.stack([algorithm.total_gradient_norm, algorithm.total_step_norm])
    algorithm.add_updates({seen: weights})
    algorithm.add_updates([(norms, both)])
    algorithm.initialize()
    algorithm.process_batch({"x": 1.0})
    assert seen.get_value().tolist() == [3, 4]
    assert norms.get_value().tolist() == [5, 2.5]


def test_gradients_can_be_given():
    weights = shared_floatx(START, name="W")
    algorithm = GradientDescent(gradients={weights: weights * 0 + 1}, step_rule=Scale(1.0))
    assert algorithm.parameters == [weights]
    algorithm.initialize()
    algorithm.process_batch({})
    assert weights.get_value().tolist() == [2, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "needs a cost"),
        ({"gradients": {"W": 1}, "parameters": ["V"]}, "different shared variables"),
        ({"on_unused_sources": "shrug"}, "shrug"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        (UpdatesAlgorithm if "on_unused_sources" in arguments else GradientDescent)(**arguments)


@pytest.mark.parametrize(
    ("choice", "batch", "error"),
    [
        ("raise", {"x": 1.0, "y": 2.0}, "does not use"),
        ("raise", {"y": 2.0}, "lacks x"),
        ("ignore", {"y": 2.0}, "lacks x"),
        ("ignore", {"x": 1.0, "y": 2.0}, None),
        ("warn", {"x": 1.0, "y": 2.0}, None),
    ],
)
def test_sources_and_inputs_must_fit(choice, batch, error, caplog):
    _, algorithm = descent(Scale(0.1), on_unused_sources=choice)
    algorithm.initialize()
    if error:
        with pytest.raises(ValueError, match=error):
            algorithm.process_batch(batch)
        return
    algorithm.process_batch(batch)
    algorithm.process_batch(batch)
    assert caplog.text.count("provides y") == (choice == "warn")
