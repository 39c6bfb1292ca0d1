"""Roles are single objects, in this process and in the next."""

import pickle

import pytest

from blocks_checkpoint.engines import current
from blocks_checkpoint.miniblocks import roles
from blocks_checkpoint.miniblocks.roles import (
    BIAS,
    INPUT,
    PARAMETER,
    WEIGHT,
    VariableRole,
    add_role,
    has_roles,
)

ALL = [getattr(roles, name) for name in roles.__all__ if name.isupper()]

IN_ANOTHER_PROCESS = """
import pickle, sys
from blocks_checkpoint.miniblocks import roles
loaded = pickle.load(open(sys.argv[1], "rb"))
print(all(role is getattr(roles, repr(role)) for role in loaded))
"""


class MineRole(VariableRole):
    """A user's role that is not kept under its own name."""


def variable():
    return current().tensor.matrix("x")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([PARAMETER, WEIGHT], [WEIGHT]),
        ([WEIGHT, PARAMETER], [WEIGHT]),
        ([WEIGHT, WEIGHT], [WEIGHT]),
        ([WEIGHT, BIAS, INPUT], [WEIGHT, BIAS, INPUT]),
        ([WEIGHT, BIAS, PARAMETER], [WEIGHT, BIAS]),
    ],
)
def test_special_role_takes_the_place_of_the_general_one(given, kept):
    x = variable()
    for role in given:
        add_role(x, role)
    assert x.tag.roles == kept


def test_variable_is_found_by_its_role_and_by_more_general_ones():
    x = variable()
    assert not has_roles(x, [INPUT])
    add_role(x, WEIGHT)
    assert has_roles(x, [PARAMETER])
    assert has_roles(x, [INPUT, WEIGHT])
    assert not has_roles(x, [BIAS])
    assert not has_roles(x, [INPUT, WEIGHT], match_all=True)


def test_role_is_called_what_its_constant_is():
    assert [repr(role) for role in ALL] == [name for name in roles.__all__ if name.isupper()]


@pytest.mark.parametrize("role", ALL, ids=repr)
def test_role_stays_the_same_object(role):
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(role, protocol)) is role


def test_role_is_the_same_object_in_another_process(tmp_path, run_program):
    (tmp_path / "roles.pkl").write_bytes(pickle.dumps(ALL))
    script = tmp_path / "script.py"
    script.write_text(IN_ANOTHER_PROCESS)
    assert run_program(script, tmp_path / "roles.pkl", cwd=tmp_path).stdout.strip() == "True"


def test_role_of_a_user_comes_back_equal():
    role = MineRole()
    loaded = pickle.loads(pickle.dumps(role))
    assert loaded == role
    assert hash(loaded) == hash(role)
    assert loaded != INPUT
