"""Extensions that count events, for tests of what has been seen when a state is saved.

In the main loop of miniblocks and in that of Blocks: ``Counter`` is made of
``CountsEvents`` and the training extension of either.
"""

from blocks_checkpoint.extensions.base import SimpleExtension

EVENTS = ("before_training", "before_epoch", "before_batch", "after_batch", "after_epoch")
ORDERS = ("last", "first", "between", "in-a-composite")


class CountsEvents:
    """Counts the events that it has seen, and writes the number into the log."""

    def __init__(self):
        super().__init__()
        self.seen = 0

    def dispatch(self, callback_name, *args):
        self.seen += 1
        self.main_loop.log.current_row["seen_events"] = self.seen


class NoteEvents(SimpleExtension):
    """Writes into the log which events a row has seen, and moves a parameter at each."""

    def do(self, which_callback, *args):
        row = self.main_loop.log.current_row
        row["events"] = [*row.get("events", ()), str(which_callback)]
        parameter = self.main_loop.model.parameters[0]
        parameter.set_value(parameter.get_value() + 1)


def around(saving, order, counter_class, composite_class):
    """Return a list of a saver and of counters, in one of the orders."""
    return {
        "last": [counter_class(), saving],
        "first": [saving, counter_class()],
        "between": [counter_class(), saving, counter_class()],
        "in-a-composite": [composite_class([saving, counter_class()]), counter_class()],
    }[order]


def notice_second_epoch(main_loop):
    """Write into the log whether the second epoch is done."""
    main_loop.log.current_row["notice"] = main_loop.status["epochs_done"] == 2


def has_notice(log):
    """Tell whether the second epoch was noticed."""
    return log.current_row.get("notice")
