"""Where runs end, and how they are taken up again, in every combination that users come to."""

import os
import random
import signal
from pathlib import Path

import numpy
import pytest
from drifting import (
    BATCHES_PER_EPOCH,
    At,
    assert_same_values,
    interrupt,
    make_main_loop,
    make_stream,
    seen_by,
)
from interventions import Do

from blocks_checkpoint import Checkpoint, Resume, continue_training, load_log, load_main_loop
from blocks_checkpoint.engines import current
from blocks_checkpoint.extensions.base import SimpleExtension
from blocks_checkpoint.miniblocks.extensions import FinishAfter, TrainingExtension
from blocks_checkpoint.miniblocks.extensions.stopping import FinishIfNoImprovementAfter
from blocks_checkpoint.miniblocks.extensions.training import TrackTheBest

WAYS = ["continue", "resume"]


def whole(path):
    return Resume(path, load_log=True, load_iteration_state=True)


def go_on(how, path, *extensions, **options):
    """Go on in either way; a resumed run saves to the same path."""
    if how == "continue":
        return continue_training(path)
    main_loop = make_main_loop(*extensions, first=[whole(path)], **options)
    main_loop.run()
    return main_loop


def assert_same_run(one, other):
    assert_same_values(one, other)
    assert seen_by(one.log) == seen_by(other.log)
    for key in ("iterations_done", "epochs_done", "_epoch_ends"):
        assert one.status[key] == other.status[key], key


@pytest.fixture(scope="module")
def straight():
    main_loop = make_main_loop()
    main_loop.run()
    return main_loop


# The end, and the end moved


class Score(SimpleExtension):
    """Records a value that gets better for one epoch and then no more."""

    def __init__(self, **triggers):
        triggers.setdefault("after_epoch", True)
        super().__init__(**triggers)

    def do(self, which_callback, *args):
        done = self.main_loop.status["epochs_done"]
        self.main_loop.log.current_row["score"] = 10 - min(done, 2) - 5 * (done >= 6)


def stopping_early(patience=2):
    return [
        Score(),
        TrackTheBest("score"),
        FinishIfNoImprovementAfter("score_best_so_far", epochs=patience),
    ]


def test_run_that_stopped_early_is_over_both_ways(path):
    make_main_loop(*stopping_early(), Checkpoint(path), epochs=20).run()
    assert load_log(path).status["epochs_done"] == 4
    content = Path(path).read_bytes()
    for how in WAYS:
        main_loop = go_on(how, path, *stopping_early(), Checkpoint(path), epochs=20)
        assert main_loop.status["epochs_done"] == 4
        assert Path(path).read_bytes() == content


@pytest.mark.parametrize("how", WAYS)
def test_limit_that_is_raised_after_an_early_stop_lets_patience_judge_again(path, how):
    """Patience is used up: with a limit ahead it is asked after the next epoch."""
    make_main_loop(*stopping_early(), Checkpoint(path), epochs=20).run()
    if how == "continue":
        limit = FinishAfter(after_n_epochs=30)
        main_loop = continue_training(path, extensions=[limit])
    else:
        main_loop = go_on(how, path, *stopping_early(), epochs=30)
    assert main_loop.status["epochs_done"] == 5


def test_more_patience_goes_on_from_where_it_was(path):
    make_main_loop(*stopping_early(), Checkpoint(path), epochs=20).run()
    main_loop = go_on("resume", path, *stopping_early(patience=4), epochs=20)
    straight = make_main_loop(*stopping_early(patience=4), epochs=20)
    straight.run()
    assert main_loop.status["epochs_done"] == straight.status["epochs_done"] == 10
    assert_same_run(main_loop, straight)


@pytest.mark.parametrize("how", WAYS)
def test_limit_is_raised_twice(path, how, straight):
    make_main_loop(Checkpoint(path), epochs=1).run()
    for epochs in (2, 3):
        if how == "continue":
            main_loop = continue_training(path, extensions=[FinishAfter(after_n_epochs=epochs)])
        else:
            main_loop = go_on(how, path, Checkpoint(path), epochs=epochs)
        assert main_loop.status["epochs_done"] == epochs
    assert_same_run(main_loop, straight)


# Interrupted again, and again


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("batch", [3, 5, 7])
def test_run_is_interrupted_twice_at_the_same_place(path, how, batch, straight):
    """Once with nothing saved at that place, so that the second run comes there anew."""

    def saver():
        return Checkpoint(path, every_n_batches=2, on_interrupt=False, after_training=False)

    def stop():
        return Do(interrupt, after_n_batches=batch)

    make_main_loop(saver(), stop()).run()
    if how == "continue":
        again = continue_training(path, extensions=[stop()])
    else:
        again = go_on(how, path, saver(), stop())
    assert again.status["iterations_done"] == batch
    assert_same_run(go_on(how, path), straight)


class InterruptOnce(SimpleExtension):
    """Interrupts before the first batch that this object sees."""

    def __init__(self):
        super().__init__(before_batch=True)
        self.has_interrupted = False

    def do(self, which_callback, *args):
        if not self.has_interrupted:
            self.has_interrupted = True
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("ways", [("resume",) * 4, ("resume", "continue") * 2], ids=str)
def test_resumed_run_is_resumed_again_after_every_batch(path, ways, straight):
    make_main_loop(Checkpoint(path), InterruptOnce()).run()
    for how in ways * 3:
        if how == "continue":
            main_loop = continue_training(path, extensions=[InterruptOnce()])
        else:
            main_loop = go_on(how, path, InterruptOnce(), Checkpoint(path))
        if main_loop.status["epochs_done"] == 3:
            break
    assert_same_run(go_on("resume", path), straight)


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize(
    "event",
    ["before_training", "before_first_epoch", "before_epoch", "on_resumption", "after_epoch"],
)
def test_signal_at_an_event_between_batches_loses_nothing(path, how, event, straight):
    make_main_loop(Checkpoint(path), At(interrupt, after_n_batches=BATCHES_PER_EPOCH)).run()
    signal_now = At(terminate, **{event: True})
    if how == "continue":
        main_loop = continue_training(path, extensions=[signal_now])
    else:
        main_loop = go_on(how, path, Checkpoint(path), signal_now)
    while main_loop.status["epochs_done"] < 3:
        before = main_loop.status["iterations_done"]
        main_loop = go_on("resume", path, Checkpoint(path))
        assert main_loop.status["iterations_done"] > before
    assert_same_run(main_loop, straight)


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("event", ["before_training", "before_first_epoch"])
def test_signal_before_the_first_batch_ends_training_after_it(path, how, event, straight):
    make_main_loop(Checkpoint(path), At(terminate, **{event: True})).run()
    assert load_log(path).status["iterations_done"] == 1
    assert_same_run(go_on(how, path), straight)


def test_signal_after_training_changes_nothing(path, straight):
    old = signal.signal(signal.SIGTERM, lambda *args: None)
    try:
        make_main_loop(At(terminate, after_training=True), Checkpoint(path)).run()
    finally:
        signal.signal(signal.SIGTERM, old)
    assert_same_run(load_main_loop(path), straight)
    assert go_on("continue", path).status["iterations_done"] == 12


def terminate(main_loop):
    os.kill(os.getpid(), signal.SIGTERM)


# Several files


@pytest.mark.parametrize("how", WAYS)
def test_every_file_of_several_checkpoints_leads_to_the_same_run(tmp_path, how, straight):
    paths = {name: str(tmp_path / f"{name}.zip") for name in ("often", "behind", "epochs")}

    def savers():
        return [
            Checkpoint(paths["often"], every_n_batches=2, after_training=False, on_interrupt=False),
            Checkpoint(paths["behind"], every_n_batches=3, background=True, after_training=False),
            Checkpoint(paths["epochs"], after_training=False, on_interrupt=False),
        ]

    make_main_loop(*savers(), Do(interrupt, after_n_batches=9)).run()
    done = {name: load_log(path).status["iterations_done"] for name, path in paths.items()}
    assert done == {"often": 8, "behind": 9, "epochs": 8}
    for path in paths.values():
        assert_same_run(go_on(how, path, *savers()), straight)


# Generators in all sorts of hands


class Sharing(SimpleExtension):
    """Draws from the generator of the scheme, and from children that its own spawns."""

    def __init__(self, shared, start=0):
        super().__init__(after_batch=True)
        self.shared = shared
        self.count = start
        self.generator = numpy.random.default_rng(numpy.random.SeedSequence(3))
        self.python = random.Random(4)

    def do(self, which_callback, *args):
        self.count += 1
        seeds = getattr(self.generator.bit_generator, "seed_seq", None)
        seeds = seeds or self.generator.bit_generator._seed_seq
        child = numpy.random.default_rng(seeds.spawn(1)[0])
        self.main_loop.log.current_row["drawn"] = (
            self.count,
            self.shared.uniform(),
            self.generator.uniform(),
            child.uniform(),
            self.python.random(),
        )

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state):
        self.count = state["count"]


class Other(TrainingExtension):
    """Is there, and has no state."""


def sharing_loop(*extensions, first=(), last=(), **options):
    stream = make_stream()
    return make_main_loop(
        *extensions,
        Sharing(stream.iteration_scheme.rng),
        *last,
        stream=stream,
        first=first,
        **options,
    )


def draws(main_loop):
    return [main_loop.log[time]["drawn"] for time in range(1, 13)]


@pytest.fixture(scope="module")
def straight_draws():
    main_loop = sharing_loop()
    main_loop.run()
    return draws(main_loop)


@pytest.mark.parametrize("batch", [2, 4, 7])
@pytest.mark.parametrize("place", ["same", "first", "behind", "gained"])
def test_extension_draws_and_counts_on_wherever_it_stands_in_the_new_script(
    path, batch, place, straight_draws
):
    saved = sharing_loop(Other(), Checkpoint(path), At(interrupt, after_n_batches=batch))
    saved.run()
    extensions = {
        "same": {"first": [whole(path)]},
        "first": {"last": [Other(), whole(path)]},
        "behind": {"first": [Other(), whole(path), Checkpoint(path)]},
        "gained": {"first": [whole(path), Other(), At(print, after_n_epochs=100)]},
    }[place]
    resumed = sharing_loop(**extensions)
    resumed.run()
    assert draws(resumed) == straight_draws
    sharing = next(each for each in resumed.extensions if isinstance(each, Sharing))
    assert sharing.shared is resumed.data_stream.iteration_scheme.rng


# A main loop that cannot be pickled


class EngineDraws(SimpleExtension):
    """Draws from a random stream of the engine, as dropout does."""

    def __init__(self):
        super().__init__(after_batch=True)
        draws = current().random_stream(21).uniform(size=(), low=0.0, high=1.0)
        self.draw = current().function([], draws)

    def do(self, which_callback, *args):
        self.main_loop.log.current_row["drawn"] = float(self.draw())


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_random_streams_of_the_engine_go_on_beside_what_cannot_be_pickled(path, caplog):
    """The main loop is not in the file then, and the streams are no arrays."""

    def parts():
        return EngineDraws(), At(lambda main_loop: None, after_epoch=True)

    def drawn(main_loop):
        done = main_loop.status["iterations_done"]
        return [main_loop.log[time]["drawn"] for time in range(1, done + 1)]

    straight = make_main_loop(*parts())
    straight.run()
    saving = Checkpoint(path, on_failure="warn", after_epoch=False)
    make_main_loop(*parts(), saving, At(interrupt, after_n_batches=6)).run()
    assert "What stands in the way" in caplog.text
    caplog.clear()
    resumed = make_main_loop(*parts(), first=[whole(path)])
    resumed.run()
    assert drawn(resumed) == drawn(straight)
    assert caplog.text.count("begins anew") == 0
