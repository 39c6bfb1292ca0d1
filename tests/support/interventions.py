"""An extension that does to a run what only the test knows, and does not travel with it."""

from drifting import At


def do_nothing(main_loop):
    """Stand in a checkpoint for what a test does."""


class Do(At):
    """Calls a function, any function, with the main loop at the times its triggers say."""

    def __getstate__(self):
        return {**self.__dict__, "function": do_nothing}
