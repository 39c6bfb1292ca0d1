"""Which names a member of an archive may have.

A name is a relative path with ``/`` between its components. It may not climb
out of the folder an archive is unpacked into, nor mean something else on
another system. Two names that a file system could take for one count as one.
"""

from __future__ import annotations

import re
import string
import unicodedata

__all__ = ["MAX_NAME_BYTES", "all_plain", "fault_of_name", "folded", "is_plain"]

#: Longest name in bytes of UTF-8: its length is stored in 16 bits.
MAX_NAME_BYTES = 65535

# Most names are seen to be harmless by this one look.
_PLAIN = re.compile(r"\w[\w.\-]*(?:/\w[\w.\-]*)*", re.ASCII).fullmatch
_PLAIN_LENGTH = 1000
# The same look at many names, one to a line. What a byte counts as: a letter, what
# may follow one, what ends a component, or anything else.
_KINDS = bytearray(b"?" * 256)
for _characters, _kind in (
    (f"{string.ascii_letters}{string.digits}_", b"a"),
    (".-", b"."),
    ("/\n", b"/"),
):
    for _character in _characters.encode():
        _KINDS[_character] = ord(_kind)
_DRIVE = re.compile(r"[A-Za-z]:").match


def is_plain(name: str) -> bool:
    """Say whether a short look finds `name` to be without fault."""
    return len(name) <= _PLAIN_LENGTH and _PLAIN(name) is not None


def all_plain(lines: bytes, longest: int) -> bool:
    """Say whether `is_plain` holds for every name.

    Parameters
    ----------
    lines : bytes
        The names, with line breaks between them.
    longest : int
        How many characters the longest of them has.
    """
    kinds = b"/%s/" % lines.translate(_KINDS)
    return (
        b"?" not in kinds and b"//" not in kinds and b"/." not in kinds and longest <= _PLAIN_LENGTH
    )


def fault_of_name(name: str) -> str | None:
    """Say what forbids `name` as a member name, or None if nothing does."""
    if is_plain(name):
        return None
    if not name:
        return "it is empty"
    for character in name:
        category = unicodedata.category(character)
        if category == "Cc":
            return f"it has the control character {character!r}"
        if category == "Cs":
            return "it has a lone surrogate, which UTF-8 cannot write"
    if len(name.encode("utf-8")) > MAX_NAME_BYTES:
        return f"it is longer than {MAX_NAME_BYTES} bytes"
    if name.startswith("/"):
        return "it is absolute"
    if "\\" in name:
        return "it has a backslash, which separates folders on Windows"
    if _DRIVE(name):
        return "it begins with a drive letter"
    for component in name.split("/"):
        if not component:
            return "a component of it is empty"
        if component in {".", ".."}:
            return f"a component of it is {component!r}"
    return None


def folded(name: str) -> str:
    """Return what is the same for names that differ in case or composition only."""
    if name.isascii():
        return name.lower()
    decomposed = unicodedata.normalize("NFD", name)
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", decomposed.casefold()))
