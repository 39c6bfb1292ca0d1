"""One more object in a checkpoint: what was there stays, what comes gets other names."""

import io

import numpy
import pytest

from blocks_checkpoint import NameConflict, dump, open_checkpoint
from blocks_checkpoint.engines import current
from blocks_checkpoint.extending import extended
from blocks_checkpoint.zip_pickler import PicklerSettings


def shared(value, name):
    return current().shared(numpy.asarray(value, dtype="float32"), name=name)


@pytest.fixture
def stored():
    """A file with two variables of one name, and the variables."""
    variables = [shared([1], "v"), shared([2], "v")]
    file = io.BytesIO()
    dump({"all": variables, "big": numpy.arange(200_000)}, file, parameters=variables)
    return file, variables


def extend(file, member, thing, variables=()):
    with open_checkpoint(file) as checkpoint:
        return extended(checkpoint, member, thing, list(variables), PicklerSettings())


def test_members_that_are_there_are_taken_over_byte_for_byte(stored):
    file, _ = stored
    whole, _ = extend(file, "more", [1])
    with open_checkpoint(file) as before:
        for name, pieces in whole.pickles.items():
            assert name == "more" or b"".join(pieces) == before.archive.read(name)
        for row, (member, array) in zip(before.manifest["arrays"], whole.arrays):
            assert member == row["member"]
            assert numpy.array_equal(array, before.read_row(row))
    assert whole.manifest["arrays"][: len(before.manifest["arrays"])] == before.manifest["arrays"]


def test_rows_of_the_new_object_have_names_members_and_numbers_of_their_own(stored):
    file, _ = stored
    whole, new = extend(file, "more", [shared([3], "v"), shared([4], "v_0"), numpy.arange(200_000)])
    rows = whole.manifest["arrays"]
    for field in ("name", "member", "id"):
        values = [row[field] for row in rows]
        assert len(set(values)) == len(values)
    assert [row["kind"] for row in new.manifest["arrays"]] == ["shared", "shared", "array"]
    assert set(new.pickles) == {"more"}


def test_variables_that_the_file_has_are_referred_to_by_their_numbers(stored):
    file, variables = stored
    whole, new = extend(file, "more", {"again": variables}, variables)
    assert new.arrays == []
    assert whole.manifest["arrays"] == extend(file, "other", 1)[0].manifest["arrays"]


def test_variables_are_found_by_the_names_that_they_have_together(stored):
    """``v_0`` and ``v_1`` are told apart by their order, as when they were saved."""
    file, variables = stored
    with pytest.raises(NameConflict, match="'v' is not in the file"):
        extend(file, "more", variables[0], variables[:1])


def test_parameters_of_a_model_do_not_become_more(stored):
    from drifting import make_model

    file, _ = stored
    model = make_model()
    whole, _ = extend(file, "model", model)
    kinds = [row["kind"] for row in whole.manifest["arrays"]]
    assert kinds.count("parameter") == 2


def test_member_must_be_new(stored):
    file, _ = stored
    for member in ("pkl", "v_0.npy", "checkpoint.json"):
        with pytest.raises(NameConflict, match="already"):
            extend(file, member, 1)
