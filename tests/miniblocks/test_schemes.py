"""Which examples make a batch, in which order."""

import pickle

import numpy
import pytest

from blocks_checkpoint.miniblocks.schemes import (
    ConcatenatedScheme,
    ConstantScheme,
    SequentialExampleScheme,
    SequentialScheme,
    ShuffledExampleScheme,
    ShuffledScheme,
)

SHUFFLED = [
    pytest.param(lambda **kwargs: ShuffledScheme(10, 3, **kwargs), id="batches"),
    pytest.param(lambda **kwargs: ShuffledExampleScheme(10, **kwargs), id="examples"),
]


def requests(scheme):
    return list(scheme.get_request_iterator())


def flat(values):
    return [index for value in values for index in (value if isinstance(value, list) else [value])]


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        (SequentialScheme(5, 2), [[0, 1], [2, 3], [4]]),
        (SequentialScheme([7, 3, 5], 2), [[7, 3], [5]]),
        (SequentialScheme(numpy.array([7, 3, 5]), 2), [[7, 3], [5]]),
        (SequentialScheme(0, 2), []),
        (SequentialExampleScheme(3), [0, 1, 2]),
        (SequentialExampleScheme((9, 4)), [9, 4]),
        (ConstantScheme(3, num_examples=7), [3, 3, 1]),
        (ConstantScheme(3, times=2), [3, 3]),
        (
            ConcatenatedScheme([SequentialScheme(3, 2), SequentialScheme([8], 2)]),
            [[0, 1], [2], [8]],
        ),
    ],
)
def test_requests_of_an_epoch(scheme, expected):
    assert requests(scheme) == expected
    assert requests(scheme) == expected


def test_constant_scheme_may_have_no_end():
    iterator = ConstantScheme(4).get_request_iterator()
    assert [next(iterator) for _ in range(5)] == [4] * 5


@pytest.mark.parametrize("make", SHUFFLED)
def test_shuffled_epochs_hold_each_example_once_in_new_orders(make):
    scheme = make()
    first, second = flat(requests(scheme)), flat(requests(scheme))
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second


@pytest.mark.parametrize("make", SHUFFLED)
def test_order_depends_on_the_seed_alone(make):
    assert requests(make()) == requests(make())
    one, other = (make(rng=numpy.random.default_rng(seed)) for seed in (1, 2))
    assert requests(one) != requests(other)


@pytest.mark.parametrize("make", SHUFFLED)
def test_order_of_later_epochs_travels_with_the_scheme(make):
    scheme = make()
    iterator = scheme.get_request_iterator()
    next(iterator)
    loaded_scheme, loaded_iterator = pickle.loads(pickle.dumps((scheme, iterator)))
    assert list(loaded_iterator) == list(iterator)
    assert [requests(loaded_scheme) for _ in range(3)] == [requests(scheme) for _ in range(3)]


@pytest.mark.parametrize("make", SHUFFLED)
def test_global_generator_is_left_alone(make):
    before = numpy.random.get_state()[1].tolist()
    requests(make())
    assert numpy.random.get_state()[1].tolist() == before


def test_indices_can_be_sorted_within_each_batch():
    batches = requests(ShuffledScheme(10, 5, sorted_indices=True))
    assert all(batch == sorted(batch) for batch in batches)
    assert batches[0] != [0, 1, 2, 3, 4]


def test_indices_are_plain_integers():
    for scheme in (ShuffledScheme(4, 2), SequentialScheme(numpy.arange(4), 2)):
        assert {type(index) for index in flat(requests(scheme))} == {int}


def test_requests_are_of_one_kind():
    assert SequentialExampleScheme(3).requests_examples
    assert not SequentialScheme(3, 1).requests_examples
    with pytest.raises(ValueError, match="all request"):
        ConcatenatedScheme([SequentialExampleScheme(3), SequentialScheme(3, 1)])


@pytest.mark.parametrize(
    "make", [lambda: SequentialScheme(3, 0), lambda: ConstantScheme(2, num_examples=3, times=1)]
)
def test_impossible_settings_are_refused(make):
    with pytest.raises(ValueError, match=r"batch_size|not both"):
        make()
