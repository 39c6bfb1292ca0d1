"""What the arrays of old checkpoints were called, as far as a file tells."""

import pickle
import warnings

import pytest
from old_checkpoints import (
    write_npz,
    write_tar,
    write_zip,
)

from blocks_checkpoint.errors import (
    ParameterWarning,
)
from blocks_checkpoint.legacy import open_legacy


def names_of(path):
    """Names of parameters and of other arrays, in the order of the file."""
    with open_legacy(path) as checkpoint:
        for place, name in enumerate(checkpoint.arrays):
            assert checkpoint.arrays[name][0] == place
        parameters = list(checkpoint.parameters)
        return parameters, [name for name in checkpoint.arrays if name not in parameters]


@pytest.mark.parametrize(
    ("stored", "names"),
    [
        pytest.param(["-mlp-linear_0.W"], ["/mlp/linear_0.W"], id="hyphens"),
        pytest.param(["|mlp|linear_0.W"], ["/mlp/linear_0.W"], id="bars"),
        pytest.param(["/mlp/linear_0.W"], ["/mlp/linear_0.W"], id="slashes"),
        pytest.param(["|my-mlp|a_b.W"], ["/my-mlp/a_b.W"], id="hyphen-among-bars"),
        pytest.param(["/my-mlp/a|b.W"], ["/my-mlp/a|b.W"], id="others-among-slashes"),
        pytest.param(["|a|b.W", "plain"], ["/a/b.W", "plain"], id="plain-variable"),
        pytest.param(["|a|b.W", "c|d"], ["/a/b.W", "c|d"], id="plain-variable-with-bar"),
        pytest.param(["|a|b.W", "c-d"], ["/a/b.W", "c-d"], id="plain-variable-with-hyphen"),
        pytest.param(["-mlp.W", "c-d"], ["/mlp.W", "c-d"], id="plain-beside-hyphens"),
        pytest.param(["|mlp.W|x"], ["/mlp.W/x"], id="no-dot-behind-the-last-bar"),
        pytest.param(["|mlp|é ü.W"], ["/mlp/é ü.W"], id="not-ascii"),
        pytest.param(["|mlp|linear.W", "|mlp|linear.W_2"], None, id="numbered"),
        pytest.param(["W", "b"], ["W", "b"], id="no-bricks"),
    ],
)
def test_npz_of_any_delimiter_is_read(stored, names, tmp_path):
    path = tmp_path / "p.npz"
    write_npz(path, stored)
    expected = names or [name.replace("|", "/") for name in stored]
    assert names_of(path) == (expected, [])


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(["-encoder-decoder-linear_0.W"], id="names-that-users-gave"),
        pytest.param(["-my-mlp-linear_0.W", "-mlp.b"], id="one-of-them"),
        pytest.param(["|a||b.W"], id="empty-name"),
    ],
)
def test_name_that_can_be_read_in_two_ways_is_reported(stored, tmp_path):
    path = tmp_path / "p.npz"
    write_npz(path, stored)
    with open_legacy(path) as checkpoint:
        with pytest.warns(ParameterWarning, match="guesses") as caught:
            assert len(checkpoint.parameters) == len(stored)
        assert str(path) in str(caught[0].message)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert checkpoint.parameters


def test_two_names_that_become_one_are_kept_apart_and_reported(tmp_path):
    path = tmp_path / "old.zip"
    write_zip(path, ["mlp-linear.W", "/mlp/linear.W"], pickle.dumps(None))
    with open_legacy(path) as checkpoint:
        with pytest.warns(ParameterWarning, match="guesses"):
            arrays = checkpoint.arrays
        assert {name: arrays[name][0] for name in arrays} == {"mlp-linear.W": 0, "/mlp/linear.W": 1}


@pytest.mark.parametrize("protocol", [1, 2, 4])
@pytest.mark.parametrize(
    ("bricks", "stored", "name"),
    [
        pytest.param(["my-mlp", "linear_0"], "my-mlp-linear_0.W", "/my-mlp/linear_0.W", id="first"),
        pytest.param(["my", "mlp", "x"], "my-mlp-x.W", "/my/mlp/x.W", id="no-hyphen"),
        pytest.param(["a", "b-c"], "a-b-c.W", "/a/b-c.W", id="last"),
        pytest.param(["a-b-c"], "a-b-c.W", "/a-b-c.W", id="only"),
        pytest.param(["a-", "-b"], "a---b.W", "/a-/-b.W", id="at-the-edges"),
    ],
)
def test_hyphen_in_the_name_of_a_brick_is_told_by_the_pickle(
    bricks, stored, name, protocol, tmp_path
):
    path = tmp_path / "old.zip"
    write_zip(path, [stored], pickle.dumps([bricks, "noise " + stored], protocol))
    assert names_of(path) == ([name], [])


@pytest.mark.parametrize("raw", [b"U\x06my-mlp", b"T\x06\0\0\0my-mlp"], ids=["short", "long"])
def test_names_are_found_in_pickles_of_python_2(raw, tmp_path):
    path = tmp_path / "old.zip"
    write_zip(path, ["my-mlp-linear_0.W"], b"(" + raw + b"q\x01U\x08linear_0q\x02t.")
    assert names_of(path) == (["/my-mlp/linear_0.W"], [])


def test_bar_in_the_name_of_a_brick_is_told_by_the_pickle(tmp_path):
    path = tmp_path / "new.tar"
    write_tar(path, ["|my|mlp|linear_0.W", "extra|b"], pickle.dumps(["my|mlp", "linear_0"]))
    assert names_of(path) == (["/my|mlp/linear_0.W", "extra|b"], [])


def test_plain_variable_with_a_dot_is_no_brick(tmp_path):
    path = tmp_path / "old.zip"
    write_zip(path, ["plain.c", "brick.W"], pickle.dumps(["plain.c", "brick"]))
    assert names_of(path) == (["/brick.W"], ["plain.c"])


def test_pickle_in_which_both_readings_stand_leaves_a_doubt(tmp_path):
    path = tmp_path / "old.zip"
    write_zip(path, ["a-b.W"], pickle.dumps(["a", "b", "a-b"]))
    with open_legacy(path) as checkpoint, pytest.warns(ParameterWarning, match="or /a-b.W"):
        assert list(checkpoint.parameters) == ["/a/b.W"]


@pytest.mark.parametrize("name", ["/encoder-decoder/linear_0.W", "/encoder/decoder/linear_0.W"])
def test_model_that_asks_by_its_names_has_no_doubt(name, tmp_path):
    path = tmp_path / "p.npz"
    write_npz(path, ["-encoder-decoder-linear_0.W"])
    with open_legacy(path) as checkpoint, warnings.catch_warnings():
        warnings.simplefilter("error")
        (row,) = checkpoint.rows_for([name, "/other.b"])
        assert (row["parameter_name"], row["kind"]) == (name, "parameter")
        assert checkpoint.read_rows([row])[0].shape == (2,)


def test_plain_parameter_of_a_model_is_found_among_other_arrays(tmp_path):
    path = tmp_path / "old.zip"
    write_zip(path, ["W_extra", "velocity"], pickle.dumps(None))
    with open_legacy(path) as checkpoint:
        kinds = {row["name"]: row["kind"] for row in checkpoint.rows_for(["W_extra"])}
        assert kinds == {"W_extra": "parameter", "velocity": "shared"}


def test_names_of_absurd_length_take_no_time(tmp_path):
    path = tmp_path / "old.zip"
    write_zip(path, ["-".join(["a"] * 20_000) + ".W"], pickle.dumps(["a"] * 1000))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with open_legacy(path) as checkpoint:
            assert len(checkpoint.arrays) == 1
