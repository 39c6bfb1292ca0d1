"""Every string is the name of an array; the names of members are fit for every system."""

import io
import itertools
import os
import shutil
import subprocess
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocks_checkpoint import dump, file_names, load_parameters, open_checkpoint, save_parameters
from blocks_checkpoint.archive.member_names import fault_of_name, folded
from blocks_checkpoint.engines import current
from blocks_checkpoint.file_names import anonymous_member_names, member_names
from blocks_checkpoint.format import RESERVED

#: Names that mean something to some file system, zip reader, or to numpy.
AWKWARD = [
    *("W", "w", "foo", "foo_2", "x", "x.npy", "x.npy.npy", "X.NPY", "a/b", "a//b", "/a/b", "a"),
    *("A/b", "./a", "../a", "a/..", "..", ".", "", "/", "//", " ", "a ", " a", "a.", "a. ."),
    *("con", "CON.txt", "aux/x", "x/nul", "COM1", "com¹", "lpt9.W", "conin$", "C:", "C:/x", "C:x"),
    *("a\\b", "a|b", "a%7Cb", "a*b", 'a"b', "a<b", "a?b", "-", "-rf", "~", "%", "%2E"),
    *("é", "e\u0301", "É", "ß", "SS", "ſ", "K", "\u212a", "İ", "i\u0307", "ǅ", "日本/語", "🦄"),
    *("\0", "a\nb", "\x7f", "\ud800", "\udfff", "\uffff", "\u202e", "\u200b", "\ue000"),
    *RESERVED,
    *(f"{name}/x" for name in RESERVED),
    *(name.upper() for name in RESERVED),
    *(f"{name}_1" for name in RESERVED),
    *("arrays", "arrays/0", "arrays/0/x", "ARRAYS/1", "x" * 5000, "x" * 5001, "ü" * 200),
    *("/".join(["folder"] * 300), "/".join(["folder"] * 300) + "x", "." * 300, "a" * 176 + "/b"),
]


def listed(member):
    """Return the name under which numpy lists a member."""
    return member[: -len(".npy")] if member.endswith(".npy") else member


def assert_fit_for_every_system(members, reserved=RESERVED):
    everything = [*reserved, *members]
    assert all(fault_of_name(member) is None for member in members)
    assert len({folded(member) for member in everything}) == len(everything)
    assert len({folded(listed(member)) for member in everything}) == len(everything)
    # numpy understands a name with and without the ending.
    assert not {folded(listed(member)) for member in everything} & {folded(m) for m in members}
    folders = {folded(member[:at]) for member in everything for at in slashes(member)}
    assert not folders & {folded(member) for member in everything}
    for member in members:
        assert len(member.encode()) <= 255
        assert member.isprintable()
        for part in member.split("/"):
            assert part not in ("", ".", "..")
            assert not set(part) & set('<>:"|?*\\')
            assert part[-1] not in ". "
            assert part[0] != " "
            stem = part.partition(".")[0].casefold()
            assert stem not in ("con", "prn", "aux", "nul", "conin$", "conout$")
            assert not (stem[:3] in ("com", "lpt") and len(stem) == 4)


def slashes(member):
    return [at for at, character in enumerate(member) if character == "/"]


@pytest.mark.parametrize(
    ("name", "member"),
    [
        pytest.param("W", "W.npy", id="plain"),
        pytest.param("mlp/linear_0/W.mean", "mlp/linear_0/W.mean.npy", id="path"),
        pytest.param("a b-c~(d)[e]'f'", "a b-c~(d)[e]'f'.npy", id="punctuation"),
        pytest.param("日本/語", "日本/語.npy", id="letters-of-any-script"),
        pytest.param("/W", "_/W.npy", id="absolute"),
        pytest.param("a//b/", "a/_/b/_.npy", id="empty-components"),
        pytest.param("../W", "%2E%2E/W.npy", id="upwards"),
        pytest.param("a|b:c", "a%7Cb%3Ac.npy", id="forbidden-characters"),
        pytest.param("a\nb", "a%0Ab.npy", id="control-character"),
        pytest.param("\ud800", "%ED%A0%80.npy", id="lone-surrogate"),
        pytest.param("W.", "W%2E.npy", id="dot-at-the-end"),
        pytest.param(" W ", "%20W%20.npy", id="spaces-at-the-ends"),
        pytest.param("aux.W/con", "_aux.W/_con.npy", id="devices"),
        pytest.param("", "_.npy", id="empty"),
        *(pytest.param(name, f"{name}_1.npy", id=name) for name in RESERVED),
        pytest.param("log/x", "log_1/x.npy", id="folder-where-a-member-is"),
        pytest.param("Log", "Log_1.npy", id="differs-from-a-member-in-case"),
    ],
)
def test_a_name_is_changed_only_where_something_stands_in_the_way(name, member):
    assert member_names([name]) == [member]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize(
    "expected",
    [
        {"log": "log_2.npy", "log_1": "log_1.npy", "log_3": "log_3.npy"},
        {"a|b": "a%7Cb_1.npy", "a%7Cb": "a%7Cb.npy", "a b": "a b.npy"},
        {"../x": "%2E%2E/x_1.npy", "%2E%2E/x": "%2E%2E/x.npy", "x": "x.npy"},
    ],
)
def test_a_number_never_takes_a_name_that_exists(expected, order):
    names = [list(expected)[index] for index in order]
    assert dict(zip(names, member_names(names))) == expected


@pytest.mark.parametrize("names", [["x", "x.npy"], ["x.npy", "x"], ["x.NPY", "X"]])
def test_numpy_takes_no_array_for_one_whose_name_has_the_ending_more(names):
    first, second = member_names(names)
    assert (first, second) == (f"{names[0]}.npy", f"{names[1]}_1.npy")


def test_all_names_at_once_have_members_that_are_fit_for_every_system():
    assert_fit_for_every_system(member_names(AWKWARD))


@given(
    st.lists(
        st.one_of(
            st.sampled_from(AWKWARD),
            st.text(st.characters(), max_size=5),
            st.text(st.sampled_from("aA./\\_1 é\u0301%:"), max_size=6),
            st.lists(st.sampled_from(["a", "A.npy", "log", ".", ""]), max_size=3).map("/".join),
        ),
        unique=True,
        max_size=10,
    ),
    st.lists(st.sampled_from(["extra", "a/b", "a", "arrays", "A.x/c"]), unique=True, max_size=2),
)
@settings(max_examples=300)
def test_any_names_have_members_that_are_fit_for_every_system(names, further):
    further = [] if {"a", "a/b"} <= set(further) else further
    reserved = [*RESERVED, *further]
    members = member_names(names, reserved=reserved)
    anonymous = anonymous_member_names(3, [*reserved, *members])
    assert_fit_for_every_system([*members, *anonymous], reserved)


def test_arrays_of_nobody_are_numbered_around_those_that_have_a_name():
    others = ["arrays/0.npy", "ARRAYS/2.npy", "pkl"]
    assert anonymous_member_names(3, others) == ["arrays/1.npy", "arrays/3.npy", "arrays/4.npy"]


def test_arrays_of_nobody_have_another_folder_where_a_member_is_in_the_way():
    assert anonymous_member_names(1, ["Arrays", "arrays_1"]) == ["arrays_2/0.npy"]


def test_names_by_the_ten_thousand_take_no_quadratic_time():
    names = [f"{case}{number}" for number in range(20_000) for case in "aA"]
    assert len(set(member_names(names))) == 40_000


@pytest.fixture(scope="module")
def awkward_file(tmp_path_factory):
    """Return a checkpoint of shared variables with awkward names, and these."""
    variables = [
        current().shared(np.random.default_rng(number).normal(size=3), name=name or None)
        for number, name in enumerate(AWKWARD)
    ]
    path = tmp_path_factory.mktemp("awkward") / "made.zip"
    dump(variables, path, parameters=variables)
    return path, variables


def test_every_array_comes_back_under_its_true_name(awkward_file):
    path, variables = awkward_file
    stored = load_parameters(path)
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.verify() == []
        for variable in variables:
            name = variable.name or "parameter"
            assert np.array_equal(checkpoint.arrays[name], variable.get_value())
            assert np.array_equal(stored[name], variable.get_value())


def test_numpy_reaches_every_array(awkward_file):
    path, variables = awkward_file
    with np.load(path, allow_pickle=False) as npz:
        arrays = [npz[name] for name in npz.files if f"{name}.npy" in npz.zip.namelist()]
    assert sorted(map(tuple, arrays)) == sorted(tuple(each.get_value()) for each in variables)


def test_zipfile_reads_every_member_without_a_warning(awkward_file):
    with zipfile.ZipFile(awkward_file[0]) as archive:
        assert archive.testzip() is None
        assert len(set(archive.namelist())) == len(archive.namelist())


@pytest.mark.skipif(shutil.which("unzip") is None, reason="there is no unzip")
def test_unzip_unpacks_every_member_into_the_folder_it_is_told(awkward_file, tmp_path):
    path, variables = awkward_file
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    command = ["unzip", "-q", "-C", str(path), "-d", str(tmp_path / "inside")]
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    files = [path for path in tmp_path.rglob("*.npy") if path.is_file()]
    values = [tuple(np.load(file, allow_pickle=False)) for file in files]
    assert sorted(values) == sorted(tuple(each.get_value()) for each in variables)
    assert os.listdir(tmp_path) == ["inside"]


def test_names_that_save_parameters_is_given_come_back(tmp_path):
    values = {name: np.array([float(number)]) for number, name in enumerate(AWKWARD)}
    save_parameters(values, tmp_path / "made.zip")
    assert load_parameters(tmp_path / "made.zip") == values


def test_an_object_that_was_added_by_name_and_arrays_do_not_meet():
    variables = [current().shared(np.zeros(20_000), name=name) for name in ("arrays/0", "x", "X/y")]
    large = np.zeros(20_000)
    file = io.BytesIO()
    dump([variables, large], file, to_add={"arrays": large[1:], "x": 1, "x_1": 2})
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
    assert_fit_for_every_system([n for n in names if n.endswith(".npy")], [*RESERVED, "arrays"])


@given(
    names=st.lists(
        st.from_regex(r"([AaBbx_\-01]|con|log|pkl|nul){1,2}(/[aAbx0]{1,2}){0,2}", fullmatch=True),
        unique=True,
        max_size=12,
    ),
    others=st.lists(
        st.sampled_from(["a/x.npy", "B.npy", "x", "a.npy.npy", "x/a.npy/b", "log", "aa/bb"]),
        unique=True,
    ),
)
@settings(max_examples=300, deadline=None)
def test_short_look_at_all_names_chooses_as_the_long_look_at_each(names, others):
    reserved = [*RESERVED, *others]
    chosen = member_names(names, reserved=reserved)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_names, "_are_simple", lambda names: False)
        assert chosen == member_names(names, reserved=reserved)
