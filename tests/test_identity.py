"""What was one object in the running loop is one object after loading, across members."""

import io
import random

import numpy as np
import pytest
from drifting import NoteSeen, make_main_loop

from blocks_checkpoint import (
    dump,
    load,
    load_iteration_state,
    load_log,
    load_main_loop,
    open_checkpoint,
)


class Holder(NoteSeen):
    """An extension that holds what a test gives it."""


def saved(main_loop, **options):
    file = io.BytesIO()
    dump(main_loop, file, **options)
    return file


def holding(**held):
    """Return a main loop in the middle of a run, and an extension of it."""
    holder = Holder()
    main_loop = make_main_loop(holder, epochs=1)
    main_loop.run()
    main_loop.epoch_iterator = main_loop.data_stream.get_epoch_iterator(as_dict=True)
    next(main_loop.epoch_iterator)
    for name, get in held.items():
        setattr(holder, name, get(main_loop))
    return main_loop, holder


def held_after_loading(**held):
    main_loop, _ = holding(**held)
    again = load(saved(main_loop))
    return again, next(each for each in again.extensions if type(each) is Holder)


PLACES = {
    "main-loop": lambda loop: loop,
    "log": lambda loop: loop.log,
    "status": lambda loop: loop.status,
    "status-of-the-log": lambda loop: loop.log.status,
    "list-in-the-status": lambda loop: loop.status["_epoch_ends"],
    "current-row": lambda loop: loop.log.current_row,
    "first-row": lambda loop: loop.log[1],
    "list-in-a-row": lambda loop: loop.log[2]["seen"],
    "data-stream": lambda loop: loop.data_stream,
    "epoch-iterator": lambda loop: loop.epoch_iterator,
    "data-set": lambda loop: loop.data_stream.dataset,
    "scheme": lambda loop: loop.data_stream.iteration_scheme,
    "generator-of-the-scheme": lambda loop: loop.data_stream.iteration_scheme.rng,
    "array-of-the-data": lambda loop: loop.data_stream.dataset.indexables[0],
    "model": lambda loop: loop.model,
    "brick": lambda loop: loop.model.get_top_bricks()[0],
    "parameter": lambda loop: loop.model.parameters[0],
    "value-of-a-parameter": lambda loop: loop.model.parameters[0].container.storage[0],
    "algorithm": lambda loop: loop.algorithm,
    "buffer": lambda loop: loop.algorithm.velocities[0],
    "other-extension": lambda loop: loop.extensions[0],
    "list-of-extensions": lambda loop: loop.extensions,
    "class": lambda loop: NoteSeen,
    "global-generator-of-numpy": lambda loop: np.random.mtrand._rand,
    "global-generator-of-python": lambda loop: random._inst,
}


@pytest.mark.parametrize("get", PLACES.values(), ids=PLACES)
def test_what_an_extension_holds_is_what_the_loop_has(get):
    again, holder = held_after_loading(held=get)
    assert holder.held is get(again)


def test_every_extension_knows_its_main_loop():
    again, _ = held_after_loading()
    assert all(each.main_loop is again for each in again.extensions if hasattr(each, "main_loop"))


def test_an_array_in_the_log_is_the_one_that_an_extension_holds():
    main_loop, holder = holding()
    for time, size in ((1, 3), (2, 20_000)):
        main_loop.log[time]["array"] = np.arange(float(size))
    holder.small, holder.large = main_loop.log[1]["array"], main_loop.log[2]["array"]
    holder.view = main_loop.log[2]["array"][5:9]
    main_loop.log[3]["view"] = holder.small[::-1]
    file = saved(main_loop)
    again = load(file)
    holder = next(each for each in again.extensions if type(each) is Holder)
    assert holder.small is again.log[1]["array"]
    assert holder.large is again.log[2]["array"]
    assert holder.view.base is again.log[2]["array"]
    assert np.shares_memory(again.log[3]["view"], holder.small)
    log = load_log(file)
    assert np.array_equal(log[2]["array"], np.arange(20_000.0))
    assert np.shares_memory(log[3]["view"], log[1]["array"])


def test_log_and_iteration_state_load_on_their_own():
    main_loop, _ = holding(row=lambda loop: loop.log[1], status=lambda loop: loop.status)
    file = saved(main_loop)
    log = load_log(file)
    assert log.status == main_loop.log.status
    assert dict(log) == dict(main_loop.log)
    stream, iterator = load_iteration_state(file)
    assert iterator.data_stream is stream
    assert np.array_equal(next(iterator)["number"], next(main_loop.epoch_iterator)["number"])


def test_log_and_iteration_state_are_not_stored_a_second_time():
    main_loop, _ = holding(
        log=lambda loop: loop.log,
        stream=lambda loop: loop.data_stream,
        row=lambda loop: loop.log[1],
    )
    main_loop.log[1]["mark"] = "only in the log"
    main_loop.data_stream.mark = "only in the state"
    with open_checkpoint(saved(main_loop)) as checkpoint:
        pickles = {name: checkpoint.archive.read(name) for name in checkpoint.manifest["pickles"]}
    assert [name for name in pickles if b"only in the log" in pickles[name]] == ["log"]
    assert [name for name in pickles if b"only in the state" in pickles[name]] == [
        "iteration_state"
    ]


@pytest.mark.parametrize("get", [lambda loop: loop.status, lambda loop: loop.log[1]["seen"]])
def test_a_data_stream_may_hold_a_part_of_the_log(get):
    main_loop, holder = holding(held=get)
    main_loop.data_stream.held = get(main_loop)
    file = saved(main_loop)
    again = load(file)
    holder = next(each for each in again.extensions if type(each) is Holder)
    assert again.data_stream.held is get(again)
    assert holder.held is get(again)
    assert load_iteration_state(file)[0].held == get(main_loop)


def test_members_that_are_saved_separately_load_on_their_own():
    main_loop, _ = holding()
    file = saved(main_loop, to_add={"stream": main_loop.data_stream})
    assert np.array_equal(
        load(file, "stream").dataset.indexables[0], main_loop.data_stream.dataset.indexables[0]
    )


def generators():
    source = np.random.PCG64(np.random.SeedSequence(3))
    seeds = np.random.SeedSequence(4)
    first_child = seeds.spawn(1)[0]
    return {
        "generator": np.random.Generator(source),
        "source": source,
        "old": np.random.RandomState(np.random.MT19937(5)),
        "method": np.random.Generator(source).normal,
        "seeds": seeds,
        "child": np.random.default_rng(first_child),
        "python": random.Random(7),
    }


def draws(made):
    """Return what is drawn next from each of the generators."""
    old = made["old"]
    return [
        *(made["generator"].normal(), made["method"](), made["source"].random_raw()),
        *(old.normal(), old._bit_generator.random_raw(), old.normal()),
        *made["seeds"].spawn(1)[0].generate_state(2),
        *(made["child"].normal(), made["python"].gauss(0, 1)),
    ]


def test_generators_that_draw_from_one_source_still_do():
    made = generators()
    main_loop, holder = holding()
    holder.made, main_loop.data_stream.made = made, dict(made)
    made["old"].normal()
    again = load(saved(main_loop))
    holder = next(each for each in again.extensions if type(each) is Holder)
    assert all(holder.made[name] is again.data_stream.made[name] for name in made)
    assert holder.made["generator"].bit_generator is holder.made["source"]
    assert holder.made["method"].__self__.bit_generator is holder.made["source"]
    assert [draws(holder.made) for _ in range(3)] == [draws(made) for _ in range(3)]


def test_saving_draws_from_no_generator():
    made, untouched = generators(), generators()
    dump(made, io.BytesIO())
    assert draws(made) == draws(untouched)


def test_functions_of_the_global_generators_draw_from_these_again(tmp_path):
    main_loop, holder = holding()
    holder.shuffle, holder.draw = np.random.shuffle, random.random
    holder.source = np.random.mtrand._rand._bit_generator
    dump(main_loop, tmp_path / "made.zip")
    holder = load_main_loop(tmp_path / "made.zip").extensions[-1]
    assert holder.shuffle.__self__ is np.random.mtrand._rand
    assert holder.draw.__self__ is random._inst
    assert holder.source is np.random.mtrand._rand._bit_generator


def test_an_object_that_is_no_main_loop_has_a_copy_of_a_global_generator():
    """Nothing else in its file has the state."""
    state = np.random.get_state(legacy=False)["state"]["key"]
    again = load(saved({"generator": np.random.mtrand._rand}))["generator"]
    assert again is not np.random.mtrand._rand
    assert np.array_equal(again.get_state(legacy=False)["state"]["key"], state)
