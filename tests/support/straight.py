"""The states of a run that nothing happens to, to compare others with."""

from drifting import make_main_loop, make_stream, values_of
from interventions import Do

from blocks_checkpoint.miniblocks.extensions import FinishAfter

#: More than any test comes to.
EPOCHS = 1_000_000


def state_of(main_loop):
    """Return what one batch more changes, as something to compare."""
    values = {name: value.tobytes() for name, value in values_of(main_loop).items()}
    return values, main_loop.log.current_row["seen"]


class StraightRun:
    """A run that nobody kills, batch by batch.

    Parameters
    ----------
    seed : int
        Of its data stream.
    """

    def __init__(self, seed=1):
        self._seed = seed
        self._states = []

    def after(self, batches):
        """Return the state after so many batches."""
        if batches > len(self._states):
            self._run(batches + 100)
        return self._states[batches - 1]

    def _run(self, batches):
        self._states = []
        note = Do(lambda main_loop: self._states.append(state_of(main_loop)), after_batch=True)
        end = FinishAfter(after_n_batches=batches)
        make_main_loop(note, end, epochs=EPOCHS, stream=make_stream(self._seed)).run()
