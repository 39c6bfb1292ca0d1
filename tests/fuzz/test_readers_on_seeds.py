"""What fuzzing begins with is read whole; and some of what it would make of it, without atheris."""

import random
import warnings

import make_corpus
import pytest
import readers

from blocks_checkpoint.errors import LoadError

SEEDS = make_corpus.seeds()
#: They have no log, and say so when all else is read.
WITHOUT_LOG = {"checkpoint", "parameters", "repacked", "npz"}
MUTANTS = 150


@pytest.mark.parametrize("name", sorted(set(SEEDS) - WITHOUT_LOG))
def test_seed_is_read_to_its_end(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        readers.TARGETS[SEEDS[name][:1]](SEEDS[name][1:])


@pytest.mark.parametrize("name", sorted(WITHOUT_LOG))
def test_seed_without_a_log_is_read_up_to_there(name):
    with pytest.raises(LoadError, match="there is no (pickle 'log'|log) in it"):
        readers.TARGETS[SEEDS[name][:1]](SEEDS[name][1:])


def test_every_reader_has_a_seed():
    assert {seed[:1] for seed in SEEDS.values()} == set(readers.TARGETS)


def mutated(content, draw):
    """Change a few bytes, cut some out, or put some in, as fuzzers do."""
    changed = bytearray(content)
    for _ in range(draw.randint(1, 4)):
        place = draw.randrange(1, len(changed))
        kind = draw.randrange(4)
        if kind == 0:
            changed[place] ^= 1 << draw.randrange(8)
        elif kind == 1:
            changed[place : place + draw.randint(1, 8)] = draw.choice(
                [b"\xff" * 4, b"\0" * 8, b"\x7f", b"9" * 30, b"PK\x05\x06", b"]", b"."]
            )
        elif kind == 2:
            del changed[place : place + draw.randint(1, 16)]
        else:
            source = draw.randrange(1, len(changed))
            changed[place:place] = changed[source : source + draw.randint(1, 40)]
        if len(changed) < 2:
            break
    return bytes(changed)


@pytest.mark.parametrize("name", sorted(SEEDS))
def test_what_mutation_makes_of_a_seed_is_read_or_refused(name):
    draw = random.Random(name)
    for _ in range(MUTANTS):
        readers.run(mutated(SEEDS[name], draw))


@pytest.mark.parametrize("head", [bytes([number]) for number in (0, 65, 67, 255)])
def test_input_that_is_for_no_reader_or_of_noise_is_no_finding(head):
    readers.run(head + random.Random(1).randbytes(500))
