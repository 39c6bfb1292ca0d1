"""A batch that Blocks has taken, and not trained on, is the next one of whoever goes on."""

import itertools

import needs_blocks
import pytest
from blocks.extensions import SimpleExtension, TrainingExtension
from blocks_loop import assert_same_run, make_main_loop

from blocks_checkpoint import Checkpoint, Resume, continue_training, load_main_loop
from blocks_checkpoint.mid_batch import Announced

pytestmark = needs_blocks.MARKS


class Witness(TrainingExtension):
    """Writes into the log which events it has been told of."""

    def dispatch(self, callback_name, *args):
        if str(callback_name) in ("before_epoch", "before_batch", "after_batch", "after_epoch"):
            row = self.main_loop.log.current_row
            row["events"] = [*row.get("events", ()), str(callback_name)]


FAILURES = itertools.count()


def fail_once():
    """Fail at one moment of the process's life."""
    if next(FAILURES) == 0:
        raise ZeroDivisionError


class FailOnce(SimpleExtension):
    """Fails at the seventh batch, once."""

    def do(self, which_callback, *args):
        if self.main_loop.status["iterations_done"] == 6:
            fail_once()


class FailInBatch(FailOnce):
    """Lets the algorithm fail on the seventh batch, once, before it changes anything."""

    def do(self, which_callback, *args):
        if self.main_loop.status["iterations_done"] == 6:
            self.main_loop.algorithm._function = Failing(self.main_loop.algorithm._function)


class Failing:
    """Calls a function, if it does not fail."""

    def __init__(self, function):
        self.function = function

    def __call__(self, *args):
        fail_once()
        return self.function(*args)


class FailingIterator:
    """An epoch that does not go on."""

    def __next__(self):
        raise ZeroDivisionError


class FailInStream(SimpleExtension):
    """Has the stream fail after a batch."""

    def do(self, which_callback, *args):
        self.main_loop.epoch_iterator = FailingIterator()


@pytest.fixture
def path(tmp_path):
    global FAILURES
    FAILURES = itertools.count()
    return str(tmp_path / "run.zip")


@pytest.fixture(scope="module")
def straight():
    main_loop = make_main_loop(Witness())
    main_loop.run()
    return main_loop


def go_on(how, path, *extensions):
    if how == "continue":
        return continue_training(path)
    resume = Resume(path, load_log=True, load_iteration_state=True)
    main_loop = make_main_loop(*extensions, first=[resume])
    main_loop.run()
    return main_loop


def assert_same_events(one, other):
    for time in range(13):
        assert one.log[time].get("events") == other.log[time].get("events"), time


@pytest.mark.parametrize("how", ["continue", "resume"])
@pytest.mark.parametrize("batch", [0, 3, 4, 6])
@pytest.mark.parametrize("is_last", [True, False], ids=["last", "first"])
def test_state_saved_before_a_batch_goes_on_with_that_batch(path, straight, how, batch, is_last):
    saving = Checkpoint(path, after_training=False, before_batch=True)
    saving.set_conditions()
    saving.add_condition(["before_batch"], _Once(batch))
    extensions = [Witness(), saving] if is_last else [saving, Witness()]
    running = make_main_loop(*extensions)
    running.run()
    assert_same_run(running, straight)
    for _ in range(2):
        again = Checkpoint(path, after_training=False, after_epoch=False, on_interrupt=False)
        main_loop = go_on(how, path, Witness(), again)
        assert_same_run(main_loop, straight)
        assert_same_events(main_loop, straight)
        assert not isinstance(main_loop.epoch_iterator, Announced)
        assert len(main_loop.extensions) == len(running.extensions) + (how == "resume")


class _Once:
    """Holds before one batch."""

    def __init__(self, batch):
        self.batch = batch

    def __call__(self, log):
        return log.status["iterations_done"] == self.batch


@pytest.mark.parametrize("how", ["continue", "resume"])
@pytest.mark.parametrize(
    "failing",
    [
        pytest.param((FailOnce, "before_batch"), id="before-batch"),
        pytest.param((FailInBatch, "before_batch"), id="in-batch"),
        pytest.param((FailOnce, "after_batch"), id="after-batch"),
    ],
)
@pytest.mark.parametrize("is_last", [True, False], ids=["last", "first"])
def test_state_saved_on_an_error_goes_on_with_the_batch_that_failed(
    path, straight, how, failing, is_last
):
    cls, event = failing
    saving = Checkpoint(path, every_n_epochs=100, on_error=True)
    extensions = [cls(**{event: True}), Witness()]
    extensions.insert(2 if is_last else 0, saving)
    with pytest.raises(ZeroDivisionError):
        make_main_loop(*extensions).run()
    assert load_main_loop(path).status["iterations_done"] == 6
    assert_same_run(go_on(how, path, Witness()), straight, but=("events", "got_exception"))


def test_error_of_the_stream_gives_no_batch_back(path):
    main_loop = make_main_loop(
        Checkpoint(path, every_n_epochs=100, on_error=True), FailInStream(after_n_batches=2)
    )
    with pytest.raises(ZeroDivisionError):
        main_loop.run()
    assert type(load_main_loop(path).epoch_iterator) is FailingIterator
