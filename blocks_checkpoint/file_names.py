"""From the names of arrays to the names of their members.

A member is named as its array, changed only where a file system or another
member stands in the way, and ``.npy``. Any string is a legal name of an array;
the manifest holds the true one.

Everything here is a function of names; no file is touched.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence

from .archive.member_names import folded
from .format import RESERVED

__all__ = ["anonymous_member_names", "member_names"]

#: Folder of the arrays that no variable owns.
ANONYMOUS_FOLDER = "arrays"

_is_harmless = re.compile(r"[A-Za-z0-9_\-]+").fullmatch
_are_simple_letters = re.compile(r"[A-Za-z0-9_\-/]+").fullmatch
_FORBIDDEN = frozenset('<>:"|?*\\')
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", "conin$", "conout$"]
    + [f"{device}{digit}" for device in ("com", "lpt") for digit in "0123456789¹²³"]
)
#: File systems end at 255 bytes; a number and ``.npy`` come on top of this.
_COMPONENT_BYTES = 180
#: Windows ends at 260 characters, for the folder unpacked into as well.
_NAME_BYTES = 200


def member_names(names: Sequence[str], *, reserved: Iterable[str] = RESERVED) -> list[str]:
    """Find a member name for each array, ``.npy`` included.

    A member name is relative and free of ``..``, can be unpacked on every
    system, and differs from every other one also where case is ignored. A
    name that is all that already is kept as it is.

    Parameters
    ----------
    names : sequence of str
        Any strings, all different.
    reserved : iterable of str
        Members that are not arrays.

    Returns
    -------
    list of str

    Examples
    --------
    >>> member_names(["mlp/W", "MLP/w", "../x", "log"])
    ['mlp/W.npy', 'MLP/w_1.npy', '%2E%2E/x.npy', 'log_1.npy']
    """
    taken = _Taken(reserved)
    if _are_simple(names) and taken.is_free(names):
        return [f"{name}.npy" for name in names]
    safe = [_safe(name) for name in names]
    chosen: dict[int, str] = {}
    # Names that need no change have the first claim, and a number the last.
    for unchanged in (True, False):
        for index, name in enumerate(names):
            if (safe[index] == name) is unchanged and taken.claim(safe[index]):
                chosen[index] = safe[index]
    for index, name in enumerate(safe):
        number = 0
        while index not in chosen:
            number += 1
            candidate = _with_number(name, number, taken.blocks_folder(name))
            if taken.claim(candidate):
                chosen[index] = candidate
    return [f"{chosen[index]}.npy" for index in range(len(names))]


def anonymous_member_names(count: int, others: Iterable[str]) -> list[str]:
    """Name ``count`` arrays that no variable owns, beside the members ``others``."""
    taken = _Taken(others)
    result: list[str] = []
    folder, number = ANONYMOUS_FOLDER, 0
    while taken.blocks_folder(f"{folder}/"):
        number += 1
        folder = f"{ANONYMOUS_FOLDER}_{number}"
    number = 0
    while len(result) < count:
        if taken.claim(f"{folder}/{number}"):
            result.append(f"{folder}/{number}.npy")
        number += 1
    return result


class _Taken:
    """Files and folders that exist already, as a case-blind system sees them."""

    def __init__(self, members: Iterable[str]) -> None:
        self._files: set[str] = set()
        # numpy leaves out ``.npy`` when it lists members, and understands both
        # forms: an array ``log.npy`` would hide behind the member ``log``, and
        # an array ``x.npy.npy`` behind ``x.npy``.
        self._listed: set[str] = set()
        self._folders: set[str] = set()
        for member in members:
            self._add(folded(member))

    def claim(self, name: str) -> bool:
        """Take a name, if its file and how numpy lists it are free."""
        key = folded(name)
        file = key + ".npy"
        free = (
            self._files.isdisjoint((key, file))
            and self._listed.isdisjoint((key, file))
            and file not in self._folders
            and self._files.isdisjoint(_parents(file))
        )
        if free:
            self._add(file)
        return free

    def is_free(self, names: Sequence[str]) -> bool:
        """Say whether all of `names` (see `_are_simple`) could be claimed as they are."""
        text = "\n".join(names).lower()
        keys = set(text.split("\n"))
        # They have no dots. So none is called as the file of another, and no
        # folder of one is: only what was there may be in the way.
        there = self._files | self._listed | self._folders
        in_the_way = {each[: -len(".npy")] for each in there if each.endswith(".npy")}
        in_the_way |= self._files | self._listed
        return (
            len(keys) == len(names)
            and keys.isdisjoint(in_the_way)
            and self._files.isdisjoint(_folders(keys))
        )

    def blocks_folder(self, name: str) -> bool:
        """Tell whether a file stands where ``name`` has a folder."""
        return not self._files.isdisjoint(_parents(folded(name)))

    def _add(self, file: str) -> None:
        self._files.add(file)
        self._listed.add(file[: -len(".npy")] if file.endswith(".npy") else file)
        self._folders.update(_parents(file))


def _folders(keys: set[str]) -> set[str]:
    """Return all folders, at every depth: as `_parents` of all, but each once."""
    folders: set[str] = set()
    deepest = keys
    while deepest:
        deepest = {key.rpartition("/")[0] for key in deepest} - folders - {""}
        folders |= deepest
    return folders


def _parents(key: str) -> list[str]:
    parts = key.split("/")[:-1]
    return ["/".join(parts[: length + 1]) for length in range(len(parts))]


def _with_number(name: str, number: int, in_folder: bool) -> str:
    if not in_folder:
        return f"{name}_{number}"
    head, _, rest = name.partition("/")
    return f"{head}_{number}/{rest}"


def _are_simple(names: Sequence[str]) -> bool:
    """Say whether a short look finds nothing to change in any of `names`.

    Most names are of this kind, and there may be ten thousand.
    """
    text = "/".join(names)
    components = set(text.lower().split("/"))
    return (
        _are_simple_letters(text) is not None
        and "" not in components
        and _DEVICES.isdisjoint(components)
        and max(map(len, names)) <= _COMPONENT_BYTES
    )


def _safe(name: str) -> str:
    result = "/".join(_safe_component(part) for part in name.split("/"))
    if len(result.encode()) > _NAME_BYTES:
        result = _shortened(result.replace("/", "_"), _COMPONENT_BYTES, digest_of=result)
    return result


def _safe_component(part: str) -> str:
    if part == "":
        return "_"
    if _is_harmless(part) and len(part) <= _COMPONENT_BYTES and part.casefold() not in _DEVICES:
        return part
    escaped = "".join(_safe_character(character) for character in part)
    if set(part) <= {"."} or part[-1] in ". ":
        # ``.`` and ``..`` lead elsewhere; Windows drops dots and spaces at
        # the end, and two names would become one.
        kept = escaped.rstrip(". ")
        escaped = kept + "".join(f"%{ord(c):02X}" for c in escaped[len(kept) :])
    if part[0] == " ":
        escaped = "%20" + escaped[1:] if not escaped.startswith("%20") else escaped
    if part.split(".")[0].rstrip().casefold() in _DEVICES:
        escaped = f"_{escaped}"
    return _shortened(escaped, _COMPONENT_BYTES)


def _safe_character(character: str) -> str:
    # Categories C: control and direction marks, lone surrogates (no UTF-8 has
    # them), characters without a meaning. Z: spaces of all kinds.
    if character in _FORBIDDEN or (unicodedata.category(character)[0] in "CZ" and character != " "):
        return "".join(f"%{octet:02X}" for octet in character.encode("utf-8", "surrogatepass"))
    return unicodedata.normalize("NFC", character)


def _shortened(text: str, limit: int, *, digest_of: str | None = None) -> str:
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    digest = hashlib.sha256((digest_of or text).encode()).hexdigest()[:12]
    return encoded[: limit - 13].decode(errors="ignore") + "~" + digest
