"""Generators and graphs of other libraries lose nothing in the pickle."""

import io
import json
import pickle
import random
import zipfile
from pathlib import Path

import numpy as np
import pytest
import things_of_numpy

from blocks_checkpoint import dump, load
from blocks_checkpoint.engines import current
from blocks_checkpoint.errors import LoadError
from blocks_checkpoint.pickling.foreign_objects import (
    foreign_reducers,
    fortran_function,
    global_generator,
)

SOURCES = [
    name
    for name in ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
    if hasattr(np.random, name)
]


def loaded(thing, **options):
    file = io.BytesIO()
    dump(thing, file, **options)
    return load(file)


def source(name, seed=3):
    return getattr(np.random, name)(np.random.SeedSequence(seed))


@pytest.mark.parametrize("protocol", [5, 2, 0])
@pytest.mark.parametrize("name", SOURCES)
def test_a_generator_goes_on_where_it_was(name, protocol):
    generator = np.random.Generator(source(name))
    generator.integers(3, size=5)
    generator.integers(3, dtype=np.uint32)
    again = loaded([generator], protocol=protocol)[0]
    assert type(again.bit_generator) is getattr(np.random, name)
    for draw in (
        lambda g: g.integers(1 << 20, size=700).tolist(),
        lambda g: g.integers(3, dtype=np.uint32),
        lambda g: g.normal(size=3).tolist(),
    ):
        assert draw(again) == draw(generator)


@pytest.mark.parametrize("name", SOURCES)
def test_generators_share_their_source(name):
    made = source(name)
    one, other, old = np.random.Generator(made), np.random.Generator(made), None
    old = np.random.RandomState(made) if name == "MT19937" else None
    again = loaded([one, other, old, made])
    assert again[0].bit_generator is again[1].bit_generator is again[3]
    assert old is None or again[2]._bit_generator is again[3]
    assert again[0].random() == one.random()
    assert again[1].random() == other.random()


@pytest.mark.parametrize("drawn", [0, 1, 2, 700])
def test_an_old_generator_keeps_the_second_of_two_normal_deviates(drawn):
    generator = np.random.RandomState(3)
    generator.normal(size=drawn)
    again = loaded([generator])[0]
    assert again.normal(size=5).tolist() == generator.normal(size=5).tolist()


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(lambda: np.random.SeedSequence(3), id="number"),
        pytest.param(lambda: np.random.SeedSequence([1, 2, 3]), id="numbers"),
        pytest.param(lambda: np.random.SeedSequence(), id="from-the-system"),
        pytest.param(lambda: np.random.SeedSequence(1 << 200, pool_size=8), id="large-pool"),
        pytest.param(lambda: np.random.SeedSequence(3).spawn(2)[1], id="child"),
    ],
)
@pytest.mark.parametrize("spawned", [0, 2])
def test_a_seed_sequence_spawns_what_it_would_have_spawned(seeds, spawned):
    made = seeds()
    made.spawn(spawned)
    again = loaded([made])[0]
    assert again.generate_state(4).tolist() == made.generate_state(4).tolist()
    for one, other in zip(again.spawn(2), made.spawn(2)):
        assert one.spawn_key == other.spawn_key
        assert one.generate_state(4).tolist() == other.generate_state(4).tolist()


def test_a_generator_remembers_the_seeds_it_was_made_of():
    seeds = np.random.SeedSequence(3)
    generator = np.random.default_rng(seeds)
    again, same = loaded([generator, seeds])
    assert again.bit_generator._seed_seq is same
    if hasattr(generator, "spawn"):
        assert again.spawn(1)[0].random() == generator.spawn(1)[0].random()


def test_generators_of_python_are_copied():
    made = random.Random(3)
    made.gauss(0, 1)
    again = loaded([made])[0]
    assert again.gauss(0, 1) == made.gauss(0, 1)


@pytest.mark.parametrize("name", ["random", "numpy.random", "numpy.random.bit_generator"])
def test_a_global_generator_is_found_by_its_name(name):
    thing = global_generator(name)
    reduce = dict(foreign_reducers(5, by_reference=True))[type(thing)]
    function, args = reduce(thing)
    assert function(*args) is thing


def test_there_is_no_other_global_generator():
    with pytest.raises(LoadError, match="no global generator 'os'"):
        global_generator("os")


RELEASES = Path(__file__).parent / "releases"


@pytest.mark.parametrize("path", sorted(RELEASES.glob("*.zip")), ids=lambda path: path.stem)
def test_what_any_release_of_numpy_saved_is_loaded(path):
    expected = json.loads((RELEASES / "expected.json").read_text())
    assert things_of_numpy.drawn(load(path)) == expected
    assert things_of_numpy.drawn(loaded(things_of_numpy.made())) == expected


def test_functions_in_fortran_are_pickled_by_their_names():
    blas = pytest.importorskip("scipy.linalg.blas")
    lapack = pytest.importorskip("scipy.linalg.lapack")
    functions = [blas.dgemm, lapack.dgetrf, blas.dgemm]
    again = loaded(functions)
    assert all(one is other for one, other in zip(again, functions))
    with pytest.raises(LoadError, match="os is not a module of Fortran"):
        fortran_function("os", "system")


@pytest.mark.skipif(current().name != "theano", reason="only Theano keeps first elements")
def test_theano_s_first_elements_of_variables_are_not_saved():
    theano = current().module
    rate = theano.shared(0.12345678, name="rate")
    weights = theano.shared(np.random.rand(3), name="weights")
    function = theano.function([], weights * rate + rate, updates=[(rate, rate * 0.5)])
    file = io.BytesIO()
    dump([function, rate, weights], file)
    with zipfile.ZipFile(file) as archive:
        assert rate.get_value().tobytes() not in archive.read("pkl")
    again = load(file)[0]
    assert again().tolist() == function().tolist()
    assert pickle.loads(pickle.dumps(function))().tolist() == function().tolist()
