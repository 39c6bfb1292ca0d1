"""Random generators of a newly built main loop go on where the saved ones were."""

import json
import random
from functools import partial

import numpy
import pytest
from drifting import At, make_main_loop
from numpy.random import PCG64, SFC64, Generator, Philox, RandomState, SeedSequence

from blocks_checkpoint import LoadError
from blocks_checkpoint.pickling.generator_places import (
    check_described,
    describe_generators,
    find_generators,
    put_generators,
)
from blocks_checkpoint.pickling.generator_states import (
    is_generator,
    is_global,
    new_generator,
    put_state,
    state_of,
)

KINDS = {
    "generator": lambda: Generator(PCG64(SeedSequence(1))),
    "counter-based": lambda: Generator(Philox(SeedSequence(1))),
    "chaotic": lambda: Generator(SFC64(SeedSequence(1))),
    "legacy": lambda: RandomState(1),
    "bits": lambda: PCG64(1),
    "seeds": lambda: SeedSequence(1),
    "python": lambda: random.Random(1),
}


def draw(generator):
    """Draw from a generator of whatever kind, so that its next draw is another."""
    if isinstance(generator, SeedSequence):
        return generator.spawn(1)[0].generate_state(2).tolist()
    if isinstance(generator, random.Random):
        return [generator.random(), generator.gauss(0, 1)]
    if isinstance(generator, PCG64):
        return Generator(generator).normal()
    return [generator.normal(), generator.standard_normal(3).tolist()]


def through_json(value):
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("kind", KINDS)
def test_generator_goes_on_in_place_and_as_a_new_one(kind):
    generator = KINDS[kind]()
    draw(generator)
    state = through_json(state_of(generator))
    assert state == through_json(state_of(generator))
    other = KINDS[kind]()
    put_state(other, state)
    new = new_generator(state)
    expected = [draw(generator) for _ in range(3)]
    assert [draw(other) for _ in range(3)] == expected
    assert [draw(new) for _ in range(3)] == expected


def test_generator_spawns_on_where_it_was():
    seeds = SeedSequence(1)
    generator = Generator(PCG64(seeds))
    seeds.spawn(5)
    other = Generator(PCG64(SeedSequence(1)))
    put_state(other, through_json(state_of(generator)))
    sources = (generator.bit_generator, other.bit_generator)
    one, another = (getattr(each, "seed_seq", None) or each._seed_seq for each in sources)
    assert draw(one) == draw(another)


@pytest.mark.parametrize(
    ("stored", "present"),
    [("generator", "counter-based"), ("generator", "legacy"), ("python", "legacy")],
)
def test_state_of_another_kind_is_refused(stored, present):
    with pytest.raises(LoadError, match="cannot be put back"):
        put_state(KINDS[present](), state_of(KINDS[stored]()))


def test_children_cannot_be_taken_back_and_a_new_one_is_made():
    young, old = SeedSequence(1), SeedSequence(1)
    old.spawn(3)
    with pytest.raises(LoadError):
        put_state(old, state_of(young))
    assert draw(new_generator(state_of(young))) == draw(young)


@pytest.mark.parametrize(
    "damage",
    [{"kind": "Dice"}, {"state": None}, {"state": {"bit_generator": "PCG64"}}, {"seeds": 5}],
    ids=str,
)
def test_damaged_state_is_refused(damage):
    with pytest.raises(LoadError):
        new_generator({**state_of(KINDS["generator"]()), **damage})


def test_what_has_no_state_is_no_generator():
    assert not is_generator(random.SystemRandom())
    assert not is_generator(numpy.random)
    assert is_global(numpy.random.mtrand._rand)
    assert is_global(random._inst)
    assert not is_global(RandomState(1))


class Holder(At):
    """Has generators in all sorts of places."""

    def __init__(self, generator):
        super().__init__(print, after_n_batches=1000)
        self.own = generator
        self.kept = {"list": [RandomState(2)], 5: RandomState(3)}
        self.function = partial(print, RandomState(4))
        self.globals = [random._inst, numpy.random.mtrand._rand]
        self.itself = self


def places(main_loop):
    return {path for path, _ in find_generators(main_loop) if path[0].startswith("extension")}


def test_generators_are_found_wherever_they_hang_but_for_the_global_ones():
    main_loop = make_main_loop(Holder(RandomState(1)), Holder(RandomState(1)))
    name = "extension Holder"
    expected = {
        (".own",),
        (".kept", ":list", 0),
        (".function", ".args", 0),
    }
    found = places(main_loop)
    assert {path[1:] for path in found if path[0] == name} == expected
    assert {path[1:] for path in found if path[0] == f"{name} 2"} == expected


def test_new_loop_gets_the_states_and_shares_what_was_shared():
    saved = make_main_loop()
    stream_generator = saved.data_stream.iteration_scheme.rng
    saved.extensions.append(Holder(stream_generator))
    for _, generator in find_generators(saved):
        draw(generator)
    described = through_json(describe_generators(saved))
    check_described(described, "run.zip")
    new = make_main_loop(Holder(RandomState(1)))
    new.data_stream = saved.data_stream
    put_generators(new, described)
    old_holder, new_holder = saved.extensions[-1], new.extensions[-1]
    assert new_holder.own is stream_generator
    assert draw(new_holder.kept["list"][0]) == draw(old_holder.kept["list"][0])
    assert draw(new_holder.function.args[0]) == draw(old_holder.function.args[0])


def test_generator_that_the_file_does_not_know_is_reported(caplog):
    described = describe_generators(make_main_loop(Holder(RandomState(1))))
    other = Holder(RandomState(9))
    other.name = "other"
    new = make_main_loop(Holder(RandomState(1)), other)
    put_generators(new, through_json(described))
    assert "no state for the random generator at extension other (Holder).own" in caplog.text


def test_generator_of_another_class_is_reported_and_left_alone(caplog):
    described = describe_generators(make_main_loop(Holder(RandomState(1))))
    new = make_main_loop(Holder(KINDS["generator"]()))
    expected = draw(KINDS["generator"]())
    put_generators(new, through_json(described))
    assert "extension Holder.own was a RandomState" in caplog.text
    assert draw(new.extensions[-1].own) == expected


@pytest.mark.parametrize(
    "described",
    [[5], [{}], [{"at": [], "state": None}], [{"at": 5, "state": state_of(RandomState(1))}]],
    ids=str,
)
def test_damaged_descriptions_are_refused(described):
    with pytest.raises(LoadError):
        check_described(described, "run.zip")


def test_legacy_generator_that_was_made_anew_is_put_back_in_place():
    """It has a seed sequence that means nothing, and one seeded by a number has none."""
    saved = new_generator(state_of(RandomState(1)))
    draw(saved)
    present = RandomState(1)
    choose = present.normal
    put_state(present, through_json(state_of(saved)))
    assert choose() == saved.normal()
