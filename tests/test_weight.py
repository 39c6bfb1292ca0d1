"""Data sets that make up most of a checkpoint are pointed out, once."""

import warnings

import numpy
import pytest
from drifting import make_main_loop

from blocks_checkpoint import Checkpoint
from blocks_checkpoint.errors import HeavyDataWarning
from blocks_checkpoint.weight import LIGHT_BYTES, HeavyArray, heavy_arrays, weight_warning


@pytest.mark.parametrize(
    ("data", "total", "is_told"),
    [
        pytest.param(LIGHT_BYTES - 1, LIGHT_BYTES, False, id="light"),
        pytest.param(LIGHT_BYTES, 2 * LIGHT_BYTES, True, id="half"),
        pytest.param(LIGHT_BYTES, 3 * LIGHT_BYTES, False, id="a-third"),
        pytest.param(0, 0, False, id="nothing"),
    ],
)
def test_what_is_heavy_and_most_of_it_is_told(data, total, is_told):
    message = weight_warning([HeavyArray("main_loop.data_stream.dataset.x", data)], total)
    assert (message is not None) == is_told
    if is_told:
        assert "main_loop.data_stream.dataset.x (16 MiB)" in message
        assert "__getstate__" in message


def test_arrays_are_listed_once_with_their_places():
    main_loop = make_main_loop()
    dataset = main_loop.data_stream.dataset
    dataset.again = dataset.large = numpy.zeros(1000)
    dataset.part = dataset.large[10:]
    dataset.itself = dataset
    largest = heavy_arrays(main_loop)[0]
    assert largest == HeavyArray("main_loop.data_stream.dataset.again", 8000)
    assert sum(each.nbytes >= 7000 for each in heavy_arrays(main_loop)) == 1


class Lazy:
    def __init__(self):
        self.data = numpy.zeros(1000)

    def __getstate__(self):
        return {}


def test_data_that_is_not_saved_does_not_count():
    main_loop = make_main_loop()
    main_loop.data_stream.dataset.lazy = Lazy()
    assert all("lazy" not in each.path for each in heavy_arrays(main_loop))


@pytest.mark.parametrize("spoil", [None, lambda: None], ids=["saved", "failing"])
def test_checkpoint_tells_its_user_once(tmp_path, spoil):
    saving = Checkpoint(tmp_path / "run.zip", on_failure="warn")
    main_loop = make_main_loop(saving, epochs=2)
    main_loop.thing = spoil
    main_loop.data_stream.dataset.images = numpy.zeros(LIGHT_BYTES, dtype="u1")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        main_loop.run()
    told = [each for each in caught if each.category is HeavyDataWarning]
    assert len(told) == 1
    assert "main_loop.data_stream.dataset.images (16 MiB)" in str(told[0].message)


NUMBER = 100_000


@pytest.mark.parametrize(
    ("make", "nbytes"),
    [
        pytest.param(lambda: [numpy.zeros(5)] * NUMBER, 40 * NUMBER, id="list-of-arrays"),
        pytest.param(lambda: tuple(["x" * 50] * NUMBER), 50 * NUMBER, id="tuple-of-texts"),
        pytest.param(
            lambda: {number: bytes(50) for number in range(NUMBER)}, 50 * NUMBER, id="dictionary"
        ),
        pytest.param(lambda: {f"{number:050}" for number in range(NUMBER)}, 50 * NUMBER, id="set"),
        pytest.param(
            lambda: numpy.array([numpy.zeros(5), None] * NUMBER, dtype=object)[::2],
            40 * NUMBER,
            id="array-of-arrays",
        ),
        pytest.param(lambda: [["x" * 25, "y" * 25]] * NUMBER, 50 * NUMBER, id="list-of-lists"),
    ],
)
def test_many_small_things_weigh_what_they_weigh_together(make, nbytes):
    main_loop = make_main_loop()
    main_loop.data_stream.dataset.things = make()
    largest = heavy_arrays(main_loop)[0]
    assert largest.path == "main_loop.data_stream.dataset.things"
    assert nbytes <= largest.nbytes <= 3 * nbytes


class Refusing:
    """Cannot be pickled, as a queue between processes."""

    def __getstate__(self):
        raise RuntimeError("shared through inheritance only")


def test_what_cannot_be_pickled_weighs_nothing():
    main_loop = make_main_loop()
    main_loop.data_stream.queue = Refusing()
    assert all(".queue" not in each.path for each in heavy_arrays(main_loop))
