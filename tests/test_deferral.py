"""A save waits until the last extension has seen the event."""

import pytest
from drifting import At, make_main_loop
from event_counting import EVENTS, ORDERS, CountsEvents, around, has_notice, notice_second_epoch

from blocks_checkpoint import Checkpoint, load_log, load_main_loop
from blocks_checkpoint.extensions.base import SimpleExtension
from blocks_checkpoint.extensions.deferral import AfterAllExtensions, after_all_extensions
from blocks_checkpoint.miniblocks.extensions import CompositeExtension, TrainingExtension
from blocks_checkpoint.resumption import all_extensions


class Counter(CountsEvents, TrainingExtension):
    pass


class Waiting(SimpleExtension):
    """Has something carried out after all extensions at its events, and notes it."""

    def __init__(self, notes, **triggers):
        super().__init__(**triggers)
        self.notes = notes

    def do(self, which_callback, *args):
        main_loop, event = self.main_loop, str(which_callback)
        self.notes.append(f"asked at {event}")
        after_all_extensions(main_loop, self, event, lambda: self.notes.append(f"done at {event}"))


def noting(notes, text, **triggers):
    return At(lambda main_loop: notes.append(text), **triggers)


def counters_of(main_loop):
    return [each for each in all_extensions(main_loop) if isinstance(each, Counter)]


# The wait


def test_action_is_carried_out_at_once_where_nobody_stands_behind():
    notes = []
    main_loop = make_main_loop(noting(notes, "other", after_epoch=True), epochs=1)
    main_loop.extensions.append(Waiting(notes, after_epoch=True))
    main_loop.run()
    assert notes == ["other", "asked at after_epoch", "done at after_epoch"]


def test_action_is_carried_out_when_those_behind_have_seen_the_event():
    notes = []
    main_loop = make_main_loop(
        Waiting(notes, after_epoch=True),
        noting(notes, "first", after_epoch=True),
        noting(notes, "second", after_epoch=True),
        epochs=1,
    )
    main_loop.run()
    assert notes == ["asked at after_epoch", "first", "second", "done at after_epoch"]


def test_several_that_wait_are_carried_out_in_their_order():
    notes = []
    main_loop = make_main_loop(
        Waiting(notes, after_epoch=True),
        noting(notes, "between", after_epoch=True),
        Waiting(notes, after_epoch=True),
        noting(notes, "behind", after_epoch=True),
        epochs=1,
    )
    main_loop.run()
    asked, done = "asked at after_epoch", "done at after_epoch"
    assert notes == [asked, "between", asked, "behind", done, done]


def test_action_waits_for_the_rest_of_a_composite_and_for_what_is_behind_it():
    notes = []
    inner = CompositeExtension(
        [Waiting(notes, after_epoch=True), noting(notes, "sister", after_epoch=True)]
    )
    behind = noting(notes, "behind", after_epoch=True)
    main_loop = make_main_loop(CompositeExtension([inner]), behind, epochs=1)
    main_loop.run()
    assert notes == ["asked at after_epoch", "sister", "behind", "done at after_epoch"]


def test_last_of_a_composite_that_is_last_does_not_wait():
    notes = []
    main_loop = make_main_loop(CompositeExtension([Waiting(notes, after_epoch=True)]), epochs=1)
    extensions = main_loop.extensions
    extensions.append(At(lambda loop: notes.append(len(loop.extensions)), after_batch=True))
    extensions.pop()
    main_loop.run()
    assert notes == ["asked at after_epoch", "done at after_epoch"]


def test_extensions_are_the_same_list_of_the_same_ones_when_it_is_done():
    notes = []
    main_loop = make_main_loop(epochs=2)
    during = []

    def look(main_loop):
        during.append(list(main_loop.extensions))

    class Looking(Waiting):
        def do(self, which_callback, *args):
            after_all_extensions(self.main_loop, self, which_callback, lambda: look(self.main_loop))

    main_loop.extensions += [Looking(notes, after_batch=True, after_epoch=True), Counter()]
    extensions, before = main_loop.extensions, list(main_loop.extensions)
    main_loop.run()
    assert during
    assert all(each == before for each in during)
    assert main_loop.extensions is extensions
    assert extensions == before


def test_extension_that_joins_at_the_end_is_called_at_the_same_event():
    notes = []
    main_loop = make_main_loop(Waiting(notes, after_epoch=True), epochs=1)

    def join(main_loop):
        if not any(getattr(each, "is_late", False) for each in main_loop.extensions):
            late = noting(notes, "late", after_epoch=True)
            late.is_late = True
            late.main_loop = main_loop
            main_loop.extensions.append(late)

    main_loop.extensions.append(At(join, after_epoch=True))
    main_loop.run()
    assert notes == ["asked at after_epoch", "done at after_epoch", "late"]
    assert not any(isinstance(each, AfterAllExtensions) for each in main_loop.extensions)


def test_extensions_in_a_tuple_cannot_grow_and_nothing_waits():
    notes = []
    main_loop = make_main_loop(Waiting(notes, after_epoch=True), Counter(), epochs=1)
    main_loop.extensions = tuple(main_loop.extensions)
    main_loop.run()
    assert notes == ["asked at after_epoch", "done at after_epoch"]


@pytest.mark.parametrize("event", ["on_interrupt", "on_error"])
def test_nothing_waits_at_the_end_of_a_run_that_did_not_come_to_its_end(event):
    notes = []
    main_loop = make_main_loop(epochs=1)
    first, last = Waiting(notes), noting(notes, "behind", **{event: True})
    main_loop.extensions = [first, last]
    after_all_extensions(main_loop, first, event, lambda: notes.append("done"))
    assert notes == ["done"]


def test_what_waited_for_an_event_that_failed_is_not_done_later(caplog):
    notes = []

    def fail(main_loop):
        raise ZeroDivisionError

    main_loop = make_main_loop(
        Waiting(notes, after_batch=True), At(fail, after_batch=True), epochs=1
    )
    before = list(main_loop.extensions)
    with pytest.raises(ZeroDivisionError):
        main_loop.run()
    assert notes == ["asked at after_batch"]
    assert main_loop.extensions == before
    assert "failed at after_batch" in caplog.text


# Checkpoint, before and behind an extension that counts

NOTES = []


def note_what_is_seen(main_loop):
    NOTES.append([each.seen for each in counters_of(main_loop)])


def ask_for_the_end(main_loop):
    if main_loop.status["iterations_done"] == 6:
        raise KeyboardInterrupt


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("order", ORDERS)
def test_saved_state_is_that_after_the_event_whatever_the_order(tmp_path, event, order):
    path = str(tmp_path / "run.zip")
    saving = Checkpoint(path, **{"after_training": False, "after_epoch": False, event: True})
    extensions = around(saving, order, Counter, CompositeExtension)
    # After everything else: what the counters have seen by the end of an event.
    look = At(note_what_is_seen, **{event: True})
    NOTES.clear()
    main_loop = make_main_loop(*extensions, look, epochs=1)
    main_loop.run()
    loaded = load_main_loop(path)
    assert [each.seen for each in counters_of(loaded)] == NOTES[-1]
    assert loaded.log.current_row["seen_events"] == NOTES[-1][-1]
    assert counters_of(main_loop)[0].seen >= NOTES[-1][0]


@pytest.mark.parametrize("is_last", [True, False], ids=["last", "first"])
def test_extension_counts_on_where_it_was(tmp_path, is_last):
    def make(path, *first):
        saving = Checkpoint(path, every_n_batches=1)
        extensions = [Counter(), saving] if is_last else [saving, Counter()]
        return make_main_loop(*extensions, epochs=3, first=first)

    straight = make(tmp_path / "straight.zip")
    straight.run()
    path = tmp_path / "killed.zip"
    with pytest.raises(KeyboardInterrupt):
        make(path, At(ask_for_the_end, before_batch=True)).run()
    loaded = load_main_loop(path)
    # Before training, before the first epoch; two for each of four batches,
    # after the epoch; before the second one, and two batches of it.
    assert [each.seen for each in counters_of(loaded)] == [1 + 1 + 2 * 4 + 1 + 1 + 2 * 2]
    loaded.extensions = loaded.extensions[1:]
    loaded.run()
    # Going on is an event, too.
    seen = [each.seen for each in counters_of(straight)]
    assert [each.seen - 1 for each in counters_of(loaded)] == seen


def test_condition_is_judged_when_everybody_has_written_the_log(tmp_path):
    best = tmp_path / "best.zip"
    saving = Checkpoint(None)
    saving.add_condition(["after_epoch"], has_notice, (str(best),))
    make_main_loop(saving, At(notice_second_epoch, after_epoch=True)).run()
    assert load_log(best).status["epochs_done"] == 2


def test_extension_that_fails_behind_it_costs_the_save_of_that_event_only(tmp_path):
    path = tmp_path / "run.zip"
    main_loop = make_main_loop(
        Checkpoint(path, every_n_batches=1), At(ask_for_the_end, after_batch=True)
    )
    with pytest.raises(KeyboardInterrupt):
        main_loop.run()
    assert load_log(path).status["iterations_done"] == 5


@pytest.mark.parametrize("error_at", ["on_interrupt", "after_training"])
def test_interrupted_run_is_saved_although_an_extension_fails_at_its_end(tmp_path, error_at):
    path = tmp_path / "run.zip"

    main_loop = make_main_loop(
        Checkpoint(path, every_n_epochs=100, after_training=False),
        At(stop_after_batch, after_batch=True),
        At(fail_badly, **{error_at: True}),
    )
    with pytest.raises(ZeroDivisionError):
        main_loop.run()
    assert load_log(path).status["iterations_done"] == 1


def stop_after_batch(main_loop):
    main_loop.status["batch_interrupt_received"] = True


def fail_badly(main_loop):
    raise ZeroDivisionError
