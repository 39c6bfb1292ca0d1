"""Runs on torchdata's StatefulDataLoader, killed and continued in other processes, are exact."""

import json
import warnings
from functools import partial

import pytest
from drifting import At, make_main_loop, make_stream
from stream_runs import (
    check_going_on_in_a_fresh_interpreter,
    check_killed_again_and_again,
    needs,
)

from blocks_checkpoint import (
    Checkpoint,
    DamagedCheckpoint,
    UnpicklableError,
    load_main_loop,
    open_checkpoint,
)
from blocks_checkpoint.miniblocks.loaders import LoaderStream
from blocks_checkpoint.pickling import random_state
from blocks_checkpoint.pickling.generator_places import describe_generators, put_generators
from blocks_checkpoint.pickling.stateful import find_stateful, methods_of
from blocks_checkpoint.read_ahead import streams_that_read_ahead

pytestmark = needs("torchdata")

STREAMS = "torch_streams"
KINDS = [
    "own-class",
    "own-class-seeded",
    "own-class-workers",
    "own-class-noisy",
    "own-state",
    "own-state-apart",
    "stream",
    "stream-seeded",
    "stream-workers",
    "stream-noisy",
    "stream-of-function",
    "stream-endless",
    "stream-iterable",
]


@pytest.mark.parametrize("how", ["continue", "resume"])
@pytest.mark.parametrize("kind", KINDS)
def test_run_that_is_killed_again_and_again_equals_one_that_is_not(server, tmp_path, kind, how):
    check_killed_again_and_again(server, kind, how, tmp_path / "run.zip")


@pytest.mark.parametrize("how", ["continue", "resume"])
def test_loader_of_nodes_goes_on_exactly_in_mid_epoch(server, tmp_path, how):
    """Resumed between two epochs, that of torchdata 0.11 tells an old state ever after."""
    kills = [["before_batch", 2], ["before_batch", 6], ["before_batch", 7]]
    check_killed_again_and_again(server, "stream-nodes", how, tmp_path / "run.zip", kills)


@pytest.mark.parametrize("kind", ["own-class-unpicklable", "stream-unpicklable"])
def test_loader_that_cannot_be_pickled_is_resumed_in_a_new_main_loop(server, tmp_path, kind):
    check_killed_again_and_again(server, kind, "resume", tmp_path / "run.zip")


@pytest.mark.parametrize("how", ["continue", "resume"])
def test_run_goes_on_in_a_fresh_interpreter(server, tmp_path, how):
    check_going_on_in_a_fresh_interpreter(
        server, "own-class-seeded", how, tmp_path / "run.zip", ["before_batch", 6]
    )


@pytest.mark.parametrize("kind", ["own-class-noisy", "stream-workers"])
def test_saving_changes_nothing(server, tmp_path, kind):
    assert server.run("start", kind, tmp_path / "run.zip") == (
        0,
        server.straight(kind),
    )


@pytest.fixture
def torch():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("torch")


@pytest.fixture
def streams(torch):
    """What the server imports, in this process."""
    import torch_streams

    return torch_streams


def test_global_generator_of_pytorch_is_put_back(torch):
    captured = random_state.capture()
    expected = torch.rand(3).tolist()
    random_state.restore(captured)
    assert torch.rand(3).tolist() == expected


def test_damaged_state_of_the_generator_of_pytorch_is_refused(torch):
    state = json.loads(random_state.capture())
    before = torch.get_rng_state().tolist()
    for damaged in ("", "AAAA", "!", 7, state["torch"][:-8]):
        with pytest.raises(DamagedCheckpoint, match="random generators"):
            random_state.restore(json.dumps({**state, "torch": damaged}).encode())
    assert torch.get_rng_state().tolist() == before


def test_generator_of_pytorch_in_an_extension_goes_on_in_a_new_main_loop(torch):
    def make(seed):
        generator = torch.Generator().manual_seed(seed)
        return make_main_loop(At(partial(torch.rand, (2,), generator=generator)))

    main_loop, other = make(1), make(2)
    generator = main_loop.extensions[-1].function.keywords["generator"]
    torch.rand(5, generator=generator)
    described = json.loads(json.dumps(describe_generators(main_loop)))
    put_generators(other, described)
    expected = main_loop.extensions[-1].function().tolist()
    assert other.extensions[-1].function().tolist() == expected


def test_global_generator_of_pytorch_stays_one(torch, tmp_path):
    """Whoever holds it draws, after loading, from the one that all others draw from."""
    path = str(tmp_path / "run.zip")
    stream = make_stream()
    stream.of_torch = torch.default_generator
    make_main_loop(Checkpoint(path), stream=stream, epochs=1).run()
    assert load_main_loop(path).data_stream.of_torch is torch.default_generator


def test_file_says_which_pytorch_it_needs(torch, tmp_path):
    path = str(tmp_path / "run.zip")
    make_main_loop(Checkpoint(path), stream=make_stream(), epochs=1).run()
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.manifest["versions"]["torch"] == torch.__version__


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
def test_loader_that_has_not_begun_does_not_begin_by_being_saved(torch, streams):
    stream = streams.make_stream("own-class")
    before = torch.get_rng_state().tolist()
    find_stateful((stream, None)).take_states()
    assert stream.loader._iterator is None
    assert torch.get_rng_state().tolist() == before


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
def test_loader_that_reads_ahead_is_not_announced_as_inexact(streams):
    main_loop = make_main_loop(stream=streams.make_stream("stream-workers"))
    main_loop.epoch_iterator = main_loop.data_stream.get_epoch_iterator(as_dict=True)
    assert streams_that_read_ahead(main_loop) == []


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
def test_loader_for_validation_does_not_keep_a_main_loop_from_being_saved(streams, tmp_path):
    """It keeps the iterator of the last epoch, of which nothing is needed."""
    path = str(tmp_path / "run.zip")
    validating = At(Validate(streams.make_loader()), before_epoch=True)
    make_main_loop(validating, Checkpoint(path), stream=make_stream(), epochs=1).run()
    loader = load_main_loop(path).extensions[2].function.loader
    assert len(list(loader)) == 4


class Validate:
    def __init__(self, loader):
        self.loader = loader

    def __call__(self, main_loop):
        assert len(list(self.loader)) == 4


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
def test_iterator_apart_from_its_loader_is_refused_with_its_place_and_the_cure(streams, tmp_path):
    stream = make_stream()
    stream.iterator = iter(streams.make_loader())
    main_loop = make_main_loop(Checkpoint(str(tmp_path / "run.zip")), stream=stream)
    with pytest.raises(UnpicklableError, match=r"data_stream\.iterator.*beside the loader"):
        main_loop.run()


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
def test_network_and_optimizer_are_pickled_as_they_are(torch):
    layers = torch.nn.Sequential(torch.nn.Linear(1, 1))
    assert methods_of(layers) is None
    assert methods_of(torch.optim.SGD(layers.parameters(), lr=0.1)) is None


def test_dataloader_of_pytorch_itself_is_refused_by_loader_stream(torch):
    stream = LoaderStream(torch.utils.data.DataLoader([1, 2, 3]), ["number"])
    with pytest.raises(TypeError, match="a DataLoader cannot say .*StatefulDataLoader"):
        stream.get_epoch_iterator()
