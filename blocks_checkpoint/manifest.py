"""The manifest as read from a file: bounded, and of the shape it must have.

The manifest may come from a stranger's file. Nothing in it is believed before
it has been looked at here.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from itertools import chain
from operator import itemgetter
from typing import Any

from .errors import DamagedCheckpoint, HostileCheckpoint, UnsupportedFormat
from .fast_json import loads
from .format import FORMAT, FORMAT_VERSION, MANIFEST

__all__ = ["max_manifest_bytes", "parse_manifest"]

#: What a manifest may be long without a single array (bytes): its longest part
#: is then a list of the iterations at which epochs ended ...
BASE_BYTES = 16 * 1024 * 1024
#: ... and for each member of the archive in addition. Parsed JSON takes up to
#: thirty times its own size in memory.
BYTES_PER_MEMBER = 8 * 1024

_PARTS: Mapping[str, type] = {
    "saved": dict,
    "status": dict,
    "versions": dict,
    "arrays": list,
    "pickles": dict,
    "main_loop": str,
}

_ROW_FIELDS: Mapping[str, tuple[type, ...]] = {
    "name": (str,),
    "parameter_name": (str,),
    "member": (str,),
    "dtype": (str,),
    "shape": (list,),
    "order": (str,),
    "kind": (str,),
    "id": (int, type(None)),
}


def parse_manifest(encoded: bytes, path: str | None, members: Container[str]) -> dict[str, Any]:
    """Parse the manifest and check that the rest can rely on it.

    Parameters
    ----------
    encoded : bytes
        The member ``checkpoint.json``.
    path : str or None
        Of the checkpoint, for messages.
    members : container of str
        The names of the archive's members.

    Returns
    -------
    dict
        Keys that this version does not know are kept.

    Raises
    ------
    DamagedCheckpoint
        It is not JSON, lacks something, or speaks of members that are not
        there.
    HostileCheckpoint
        It is nested beyond reason.
    UnsupportedFormat
        A newer version of the format.
    """

    def damaged(what: str) -> DamagedCheckpoint:
        return DamagedCheckpoint(
            f"the manifest {what}. The arrays may be whole: numpy.load reads them by name",
            path=path,
            member=MANIFEST,
        )

    try:
        manifest = loads(encoded)
    except ValueError as error:
        raise damaged(f"is not JSON ({error})") from error
    except RecursionError as error:
        raise HostileCheckpoint(
            "the manifest nests deeper than any that was written", path=path, member=MANIFEST
        ) from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise damaged(f"does not say that its format is {FORMAT!r}")
    version = manifest.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise damaged(f"has the format version {version!r:.80}")
    if version > FORMAT_VERSION:
        raise UnsupportedFormat(
            f"written in format {version}; this version of blocks_checkpoint reads up to "
            f"format {FORMAT_VERSION}. Install a newer one: pip install -U blocks_checkpoint",
            path=path,
            member=MANIFEST,
        )
    for key, type_ in _PARTS.items():
        if not isinstance(manifest.setdefault(key, type_()), type_):
            raise damaged(f"has a {key!r} that is no {type_.__name__}")
    if not isinstance(manifest.setdefault("main_module", None), (dict, type(None))):
        raise damaged("has a 'main_module' that is no dict")
    rows = manifest["arrays"]
    if not _are_plain_rows(rows, members):
        for row in rows:
            _check_row(row, members, damaged)
        for names in (
            [row["name"] for row in rows],
            [row["parameter_name"] for row in rows if row["kind"] == "parameter"],
        ):
            if len(set(names)) != len(names):
                raise damaged("gives one name to two arrays")
    for member, described in manifest["pickles"].items():
        if not isinstance(described, dict) or not isinstance(described.get("bytes"), int):
            raise damaged(f"does not describe the pickle {member!r}")
    return manifest


def _are_plain_rows(rows: list[Any], members: Container[str]) -> bool:
    """Say whether a short look at the columns finds nothing wrong with any row.

    There may be ten thousand rows. What is not plain may be right all the same.
    """
    if not rows:
        return True
    try:
        columns = dict(zip(_ROW_FIELDS, zip(*map(itemgetter(*_ROW_FIELDS), rows))))
        for field, types in _ROW_FIELDS.items():
            if not set(map(type, columns[field])) <= set(types):
                return False
    except (KeyError, TypeError):
        return False
    lengths = list(chain.from_iterable(columns["shape"]))
    return (
        # By type, since True equals 1.
        set(map(type, lengths)) <= {int}
        and min(lengths, default=0) >= 0
        and all(map(members.__contains__, columns["member"]))
        and len(set(columns["name"])) == len(rows)
        and len(set(columns["parameter_name"])) == len(rows)
    )


def _check_row(row: Any, members: Container[str], damaged: Any) -> None:
    if not isinstance(row, dict):
        raise damaged("has an array row that is no object")
    for field, types in _ROW_FIELDS.items():
        if field not in row or not isinstance(row[field], types):
            raise damaged(f"has an array row with {field!r} {row.get(field)!r:.80}")
    if not all(type(length) is int and length >= 0 for length in row["shape"]):
        raise damaged(f"has an array row with the shape {row['shape']!r:.80}")
    if row["member"] not in members:
        raise damaged(f"speaks of the member {row['member']!r:.80}, which is not in the file")


def max_manifest_bytes(member_count: int) -> int:
    """Return how long the manifest of an archive may be, in bytes."""
    return BASE_BYTES + BYTES_PER_MEMBER * member_count
