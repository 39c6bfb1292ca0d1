"""Nothing in a manifest is believed before it has been looked at."""

import json

import pytest

from blocks_checkpoint import DamagedCheckpoint, HostileCheckpoint, LoadError, UnsupportedFormat
from blocks_checkpoint.format import FORMAT, FORMAT_VERSION
from blocks_checkpoint.manifest import max_manifest_bytes, parse_manifest

MEMBERS = {"checkpoint.json", "pkl", "W.npy", "b.npy"}
ROW = {
    "name": "W",
    "parameter_name": "/W",
    "member": "W.npy",
    "dtype": "<f4",
    "shape": [2, 3],
    "order": "C",
    "kind": "parameter",
    "id": 0,
}


def manifest(**changes):
    return {"format": FORMAT, "format_version": FORMAT_VERSION, "arrays": [ROW], **changes}


def row(**changes):
    return manifest(arrays=[{**ROW, **changes}])


def without(field):
    return manifest(arrays=[{name: ROW[name] for name in ROW if name != field}])


def parse(content):
    encoded = content if isinstance(content, bytes) else json.dumps(content).encode()
    return parse_manifest(encoded, "run.zip", MEMBERS)


def test_smallest_manifest_gets_what_it_lacks():
    assert parse({"format": FORMAT, "format_version": 1}) == {
        "format": FORMAT,
        "format_version": 1,
        "saved": {},
        "status": {},
        "versions": {},
        "arrays": [],
        "pickles": {},
        "main_loop": "",
        "main_module": None,
    }


def test_keys_of_a_later_version_are_kept():
    assert parse(manifest(colour="red"))["colour"] == "red"
    assert parse(row(colour="red"))["arrays"][0]["colour"] == "red"


def test_newer_format_is_refused_by_both_numbers_and_the_cure():
    with pytest.raises(UnsupportedFormat, match=r"format 99.*up to format 1.*pip install -U"):
        parse(manifest(format_version=99))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b'{"format": "blocks_ch', "is not JSON"),
        (b"[1, 2]", "its format is"),
        (b"null", "its format is"),
        ({}, "its format is"),
        (manifest(format="npz"), "its format is"),
        (manifest(format_version="1"), "format version '1'"),
        (manifest(format_version=True), "format version True"),
        (manifest(format_version=0), "format version 0"),
        (manifest(format_version=1.5), "format version 1.5"),
        (manifest(arrays={}), "'arrays' that is no list"),
        (manifest(status=[]), "'status' that is no dict"),
        (manifest(versions=None), "'versions' that is no dict"),
        (manifest(saved="today"), "'saved' that is no dict"),
        (manifest(pickles=[]), "'pickles' that is no dict"),
        (manifest(main_loop=1), "'main_loop' that is no str"),
        (manifest(main_module=["note"]), "'main_module' that is no dict"),
        (manifest(arrays=[3]), "no object"),
        (manifest(arrays=[{}]), "'name' None"),
        (row(name=3), "'name' 3"),
        (row(id="0"), "'id' '0'"),
        (without("id"), "'id' None"),
        (row(shape="2x3"), "'shape' '2x3'"),
        (row(shape=[2, -3]), "the shape [2, -3]"),
        (row(shape=[2, "3"]), "the shape"),
        (row(shape=[True]), "the shape"),
        (row(shape=[1, True]), "the shape"),
        (row(shape=[2, [3]]), "the shape"),
        (row(shape={}), "'shape' {}"),
        (row(shape=""), "'shape' ''"),
        (manifest(arrays=[ROW, {**ROW, "name": "b", "shape": [1.0]}]), "the shape"),
        (manifest(arrays=[ROW, "W"]), "no object"),
        (row(member="gone.npy"), "not in the file"),
        (row(member=None), "'member' None"),
        (manifest(arrays=[ROW, {**ROW, "parameter_name": "other"}]), "one name to two"),
        (manifest(arrays=[ROW, {**ROW, "name": "other"}]), "one name to two"),
        (manifest(pickles={"pkl": 7}), "does not describe the pickle 'pkl'"),
        (manifest(pickles={"pkl": {}}), "does not describe the pickle 'pkl'"),
        (manifest(pickles={"pkl": {"bytes": "7"}}), "does not describe the pickle 'pkl'"),
        (b'{"format": ' + b"9" * 10_000 + b"}", ""),
    ],
)
def test_what_is_no_manifest_is_damage_with_its_place(content, words):
    with pytest.raises(DamagedCheckpoint) as caught:
        parse(content)
    assert words in str(caught.value)
    assert (caught.value.path, caught.value.member) == ("run.zip", "checkpoint.json")
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_nesting_beyond_reason_is_refused(opening):
    with pytest.raises((HostileCheckpoint, DamagedCheckpoint)):
        parse(opening * 1_000_000)
    with pytest.raises(LoadError):
        parse(b'{"format": ' + b"[" * 100_000 + b"]" * 100_000 + b"}")


def test_array_and_parameter_may_have_one_parameter_name():
    """Only parameters are looked up by it."""
    other = {**ROW, "name": "b", "member": "b.npy", "kind": "array", "id": None}
    assert len(parse(manifest(arrays=[ROW, other]))["arrays"]) == 2


def test_manifest_may_be_longer_the_more_members_there_are():
    assert max_manifest_bytes(1000) > max_manifest_bytes(1) > 1_000_000
