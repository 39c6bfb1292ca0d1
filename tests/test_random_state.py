import json
import random

import numpy as np
import pytest

from blocks_checkpoint.errors import DamagedCheckpoint
from blocks_checkpoint.pickling import random_state


@pytest.fixture(autouse=True)
def _as_before():
    before = random_state.capture()
    yield
    random_state.restore(before)


def draws():
    return [random.random(), random.gauss(0, 1), *np.random.rand(3), *np.random.randn(3)]


@pytest.mark.parametrize("drawn", [0, 1, 700])
def test_both_generators_go_on_where_they_were(drawn):
    for _ in range(drawn):
        draws()
    np.random.randn()
    random.gauss(0, 1)
    state = random_state.capture()
    expected = draws()
    draws()
    random_state.restore(state)
    assert draws() == expected


@pytest.mark.skipif(not hasattr(np.random, "set_bit_generator"), reason="NumPy before 1.24")
@pytest.mark.parametrize("name", ["PCG64", "Philox", "SFC64"])
def test_numpy_goes_on_with_the_source_it_had(name):
    usual = np.random.get_bit_generator()
    try:
        np.random.set_bit_generator(getattr(np.random, name)(7))
        np.random.randn()
        state = random_state.capture()
        expected = draws()
        np.random.set_bit_generator(usual)
        random_state.restore(state)
        assert draws() == expected
        assert type(np.random.get_bit_generator()).__name__ == name
    finally:
        np.random.set_bit_generator(usual)


def test_capturing_draws_nothing():
    before = random_state.capture()
    assert random_state.capture() == before


def edited(*way, value):
    state = json.loads(random_state.capture())
    place = state
    for key in way[:-1]:
        place = place[key]
    place[way[-1]] = value
    return json.dumps(state).encode()


@pytest.mark.parametrize(
    "encoded",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{", id="cut-off"),
        pytest.param(b"[]", id="a-list"),
        pytest.param(b"[" * 100_000, id="nested-beyond-reason"),
        pytest.param(edited("random", value=[3, [0] * 5, None]), id="too-few-words"),
        pytest.param(edited("random", value=[3, [1 << 80] * 625, None]), id="words-too-large"),
        pytest.param(edited("numpy.random", value=None), id="nothing"),
        pytest.param(edited("numpy.random", "bit_generator", value="X"), id="unknown-generator"),
        pytest.param(
            edited("numpy.random", "state", "key", "values", value=[1]), id="too-few-of-numpy's"
        ),
        # These two would make numpy read beyond its state.
        pytest.param(edited("numpy.random", "state", "pos", value=1_000_000), id="beyond-the-end"),
        pytest.param(edited("numpy.random", "state", "pos", value=-1), id="before-the-beginning"),
        # This one would allocate two gigabytes a word, or make objects.
        pytest.param(
            edited("numpy.random", "state", "key", "dtype", value="S2000000000"), id="long-words"
        ),
        pytest.param(edited("numpy.random", "state", "key", "dtype", value="O"), id="objects"),
    ],
)
def test_what_is_no_state_is_refused(encoded):
    with pytest.raises(DamagedCheckpoint, match="not the state") as caught:
        random_state.restore(encoded)
    assert caught.value.member == "random_state"
