"""Streams that say what their state is, in Blocks' own main loop."""

import needs_blocks
import numpy
import pytest
from blocks_loop import assert_same_run, make_main_loop
from drifting import At, interrupt
from stateful_streams import Loader, StatefulEpoch

from blocks_checkpoint import Checkpoint, Resume, continue_training
from blocks_checkpoint.miniblocks.loaders import LoaderStream

pytestmark = needs_blocks.MARKS


class Epoch(StatefulEpoch):
    """Batches for the network of ``blocks_loop``."""

    def __next__(self):
        batch = super().__next__()
        features = numpy.hstack([batch["features"], batch["features"][:, :1]])
        return {"features": features, "targets": batch["number"] % 3}


class ForBlocks(Loader):
    epoch_class = Epoch


def make_loop(*extensions, first=()):
    main_loop = make_main_loop(*extensions, first=first)
    main_loop.data_stream = LoaderStream(ForBlocks(), ("features", "targets"))
    return main_loop


@pytest.mark.parametrize("batches", [2, 4, 7])
@pytest.mark.parametrize("how", ["continue", "resume"])
def test_loader_stream_goes_on_exactly(tmp_path, how, batches):
    path = str(tmp_path / "run.zip")
    make_loop(At(interrupt, after_n_batches=batches), Checkpoint(path)).run()
    if how == "continue":
        main_loop = continue_training(path)
    else:
        main_loop = make_loop(first=[Resume(path, load_log=True, load_iteration_state=True)])
        main_loop.run()
    straight = make_loop()
    straight.run()
    assert_same_run(main_loop, straight)
