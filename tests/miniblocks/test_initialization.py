"""First values of parameters."""

import pickle

import numpy
import pytest

from blocks_checkpoint.engines import current
from blocks_checkpoint.miniblocks.initialization import (
    Constant,
    Identity,
    IsotropicGaussian,
    Orthogonal,
    Uniform,
)
from blocks_checkpoint.miniblocks.utils import shared_floatx_nans

KINDS = [
    Constant(2),
    IsotropicGaussian(),
    Uniform(width=1),
    Identity(),
    Orthogonal(),
]


def generate(initialization, shape=(60, 50), seed=1):
    return initialization.generate(numpy.random.RandomState(seed), shape)


@pytest.mark.parametrize("initialization", KINDS, ids=lambda kind: type(kind).__name__)
def test_variable_gets_values_of_its_shape_and_type(initialization):
    variable = shared_floatx_nans((3, 2))
    initialization.initialize(variable, numpy.random.RandomState(1))
    value = variable.get_value()
    assert (value.shape, value.dtype) == ((3, 2), current().floatX)
    assert numpy.isfinite(value).all()


@pytest.mark.parametrize("initialization", KINDS, ids=lambda kind: type(kind).__name__)
def test_values_depend_on_the_generator_alone(initialization):
    loaded = pickle.loads(pickle.dumps(initialization))
    numpy.testing.assert_equal(generate(loaded), generate(initialization))


def test_gaussian_has_its_mean_and_deviation():
    values = generate(IsotropicGaussian(std=0.5, mean=3))
    assert values.mean() == pytest.approx(3, abs=0.05)
    assert values.std() == pytest.approx(0.5, rel=0.05)


@pytest.mark.parametrize("kwargs", [{"width": 2}, {"std": 2 / 12**0.5}])
def test_uniform_has_its_width(kwargs):
    values = generate(Uniform(mean=5, **kwargs))
    assert 4 <= values.min() < 4.01
    assert 5.99 < values.max() <= 6


@pytest.mark.parametrize("kwargs", [{}, {"width": 1, "std": 1}])
def test_uniform_wants_width_or_deviation(kwargs):
    with pytest.raises(ValueError, match="either"):
        Uniform(**kwargs)


@pytest.mark.parametrize("shape", [(4, 4), (6, 4), (4, 6)])
def test_orthogonal_is_orthogonal_along_its_shorter_side(shape):
    matrix = generate(Orthogonal(scale=2), shape)
    product = matrix.T @ matrix if shape[0] >= shape[1] else matrix @ matrix.T
    numpy.testing.assert_allclose(product, 4 * numpy.eye(min(shape)), atol=1e-6)


def test_constant_is_broadcast():
    numpy.testing.assert_equal(generate(Constant([1, 2]), (2, 2)), [[1, 2], [1, 2]])


def test_identity_is_cut_to_the_shape():
    numpy.testing.assert_equal(generate(Identity(3), (2, 3)), [[3, 0, 0], [0, 3, 0]])
