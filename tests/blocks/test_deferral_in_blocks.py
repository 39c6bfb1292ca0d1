"""In the main loop of Blocks, too, a save waits until the last extension has seen the event."""

import needs_blocks
import pytest
from blocks.extensions import CompositeExtension, TrainingExtension
from blocks_loop import make_main_loop
from drifting import At, interrupt
from event_counting import EVENTS, ORDERS, CountsEvents, around, has_notice, notice_second_epoch

from blocks_checkpoint import Checkpoint, load_log, load_main_loop
from blocks_checkpoint.resumption import all_extensions

pytestmark = needs_blocks.MARKS

NOTES = []


class Counter(CountsEvents, TrainingExtension):
    pass


def counts_in(main_loop):
    return [each.seen for each in all_extensions(main_loop) if isinstance(each, Counter)]


def note_counts(main_loop):
    NOTES.append(counts_in(main_loop))


def fail_at_six(main_loop):
    if main_loop.status["iterations_done"] == 6:
        raise ZeroDivisionError


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("order", ORDERS)
def test_saved_state_is_that_after_the_event_whatever_the_order(tmp_path, event, order):
    path = str(tmp_path / "run.zip")
    saving = Checkpoint(path, **{"after_training": False, "after_epoch": False, event: True})
    extensions = around(saving, order, Counter, CompositeExtension)
    # After everything else: what the counters have seen by the end of an event.
    look = At(note_counts, **{event: True})
    NOTES.clear()
    main_loop = make_main_loop(*extensions, look, epochs=1)
    before = list(main_loop.extensions)
    main_loop.run()
    assert main_loop.extensions == before
    loaded = load_main_loop(path)
    assert counts_in(loaded) == NOTES[-1]
    assert loaded.log.current_row["seen_events"] == NOTES[-1][-1]


def test_extensions_may_be_given_in_a_tuple(tmp_path):
    """Blocks keeps them as they are."""
    path = str(tmp_path / "run.zip")
    main_loop = make_main_loop(Checkpoint(path), Counter(), epochs=1)
    main_loop.extensions = tuple(main_loop.extensions)
    main_loop.run()
    # After training everybody has seen that, too.
    assert counts_in(load_main_loop(path)) == counts_in(main_loop)


def test_condition_is_judged_when_everybody_has_written_the_log(tmp_path):
    best = str(tmp_path / "best.zip")
    saving = Checkpoint(None)
    saving.add_condition(["after_epoch"], has_notice, (best,))
    make_main_loop(saving, At(notice_second_epoch, after_epoch=True)).run()
    assert load_log(best).status["epochs_done"] == 2


def test_extension_that_fails_behind_it_costs_the_save_of_that_event_only(tmp_path):
    path = str(tmp_path / "run.zip")
    main_loop = make_main_loop(
        Checkpoint(path, every_n_batches=1), At(fail_at_six, after_batch=True)
    )
    with pytest.raises(ZeroDivisionError):
        main_loop.run()
    assert load_log(path).status["iterations_done"] == 5


def test_nothing_waits_at_the_end_of_an_interrupted_run(tmp_path):
    """Blocks knows of no other end than ``after_training``; who fails there costs nothing."""
    path = str(tmp_path / "run.zip")
    main_loop = make_main_loop(
        Checkpoint(path, every_n_epochs=100, after_training=False),
        At(interrupt, after_n_batches=3),
        At(fail_at_the_end, after_training=True),
    )
    with pytest.raises(ZeroDivisionError):
        main_loop.run()
    assert load_log(path).status["iterations_done"] == 3


def fail_at_the_end(main_loop):
    raise ZeroDivisionError
