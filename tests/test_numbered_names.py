"""Numbers of names are trusted where they mean the same on both sides."""

import warnings

import numpy
import pytest
from drifting import At, make_main_loop

from blocks_checkpoint import Checkpoint, ParameterWarning, Resume
from blocks_checkpoint.engines import current
from blocks_checkpoint.naming import VariableNames
from blocks_checkpoint.numbered_names import doubts, dtype_family

SMALL, LARGE, WHOLE = ("buffer", "f", (2,)), ("buffer", "f", (3,)), ("buffer", "i", (2,))


def here(*groups):
    """Name variables as a save does: ``("x", SMALL, LARGE)`` are x_0 and x_1."""
    return [
        (VariableNames(*[name if len(traits) == 1 else f"{name}_{number}"] * 2, "buffer",
                       name if len(traits) > 1 else None), each)
        for name, *traits in groups
        for number, each in enumerate(traits)
    ]  # fmt: skip


def stored(*groups):
    rows = []
    for names, traits in here(*groups):
        row = {"name": names.name}
        if names.unnumbered:
            row["unnumbered"] = names.unnumbered
        rows.append((row, traits))
    return rows


@pytest.mark.parametrize(
    ("present", "saved", "doubtful"),
    [
        pytest.param([("x", SMALL)], [("x", SMALL)], [], id="one"),
        pytest.param([("x", SMALL)], [("x", LARGE)], [], id="one-of-another-shape"),
        pytest.param([("x", SMALL, LARGE)], [("x", SMALL, LARGE)], [], id="the-same"),
        pytest.param([("x", SMALL, SMALL)], [("y", SMALL, SMALL)], [], id="other-names"),
        pytest.param([("x", SMALL, SMALL, SMALL)], [("x", SMALL, SMALL)], ["x"], id="one-more"),
        pytest.param([("x", SMALL, SMALL)], [("x", SMALL, SMALL, SMALL)], ["x"], id="one-less"),
        pytest.param([("x", SMALL, SMALL)], [("x", SMALL)], ["x"], id="was-alone"),
        pytest.param([("x", SMALL)], [("x", SMALL, SMALL)], ["x"], id="is-alone"),
        pytest.param([("x", SMALL, LARGE)], [("x", LARGE, SMALL)], ["x"], id="order"),
        pytest.param([("x", SMALL, SMALL)], [("x", SMALL, WHOLE)], ["x"], id="dtype"),
        pytest.param(
            [("x", SMALL, LARGE), ("y", SMALL, SMALL)],
            [("x", SMALL, LARGE), ("y", SMALL)],
            ["y"],
            id="each-name-by-itself",
        ),
    ],
)
def test_name_is_doubtful_where_its_numbers_may_mean_others(present, saved, doubtful):
    found = doubts(here(*present), stored(*saved))
    assert sorted(found) == doubtful


def test_names_that_only_look_numbered_are_what_they_are():
    present = here(("x_0", SMALL), ("x_1", SMALL), ("x_2", SMALL))
    assert doubts(present, stored(("x_0", SMALL), ("x_1", SMALL))) == {}


def test_doubt_says_how_many_there_are():
    (doubt,) = doubts(here(("x", SMALL, SMALL, SMALL)), stored(("x", SMALL, SMALL))).values()
    assert str(doubt) == "those called 'x' are 3 here and 2 in the file"
    (doubt,) = doubts(here(("x", SMALL, LARGE)), stored(("x", LARGE, SMALL))).values()
    assert "of other shapes or dtypes" in str(doubt)


@pytest.mark.parametrize(
    ("dtype", "family"), [("<f4", "f"), ("float64", "f"), ("|b1", "b"), ("bfloat16?", "bfloat16?")]
)
def test_number_of_bits_does_not_count(dtype, family):
    assert dtype_family(dtype) == family


# In a run that is resumed


def holding(*values):
    """Return an extension that holds shared variables without names."""
    extension = At(print, after_n_batches=1000)
    extension.held = [
        current().shared(numpy.asarray(value, dtype=current().floatX)) for value in values
    ]
    return extension


@pytest.fixture
def path(tmp_path):
    path = str(tmp_path / "run.zip")
    make_main_loop(holding(1, 2, [3]), Checkpoint(path), epochs=1).run()
    return path


def values_after_resuming(path, *values):
    extension = holding(*values)
    resume = Resume(path)
    main_loop = make_main_loop(extension)
    resume.main_loop = main_loop
    resume.do("before_training")
    return [variable.get_value().tolist() for variable in extension.held]


def test_variables_without_names_get_their_values_back(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert values_after_resuming(path, 0, 0, [0]) == [1, 2, [3]]


@pytest.mark.parametrize("values", [(7, 0, 0, [0]), (0, [0]), ([0], 0, 0)], ids=str)
def test_variables_without_names_stay_as_they_are_once_the_script_has_others(path, values):
    with pytest.warns(ParameterWarning, match=r"Give each a name.*\n.*called 'shared' are"):
        found = values_after_resuming(path, *values)
    assert found == list(values)


def test_shape_that_training_changes_comes_from_the_file(tmp_path):
    path = str(tmp_path / "run.zip")
    extension = holding([1, 2, 3])
    make_main_loop(extension, Checkpoint(path), epochs=1).run()
    assert values_after_resuming(path, [0, 0]) == [[1, 2, 3]]
