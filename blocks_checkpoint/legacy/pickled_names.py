"""Names that stand whole in a pickle, found without reading it as one."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["names_in_pickle"]

#: More bytes than this are not searched: it takes a second, and then some.
MAX_SEARCHED_BYTES = 1 << 28


def names_in_pickle(pickled: bytes, names: Iterable[str]) -> set[str]:
    """Return those of some names that are strings in a pickle.

    Parameters
    ----------
    pickled : bytes
        Of any protocol from 1 on.
    names : iterable of str

    Returns
    -------
    set of str
        A name that is only a part of a string in there is not among them.
    """
    encoded = {name.encode("utf-8", "surrogateescape"): name for name in names if name}
    if not encoded:
        return set()
    # Longest first: else a name would hide those that it is the beginning of.
    words = b"|".join(map(re.escape, sorted(encoded, key=len, reverse=True)))
    # The pattern looks ahead, because names overlap.
    found = set()
    for match in re.finditer(b"(?=(" + words + b"))", pickled[:MAX_SEARCHED_BYTES]):
        word = match[1]
        for shorter in _beginnings(word, encoded):
            if _is_whole(pickled, match.start(), len(shorter)):
                found.add(encoded[shorter])
    return found


def _beginnings(word: bytes, encoded: dict[bytes, str]) -> Iterable[bytes]:
    return (word[:end] for end in range(1, len(word) + 1) if word[:end] in encoded)


def _is_whole(pickled: bytes, start: int, length: int) -> bool:
    """Tell whether the length stands before a string, as the opcodes of strings have it."""
    narrow, wide = bytes([length & 0xFF]), length.to_bytes(4, "little")
    before = pickled[max(start - 5, 0) : start]
    return (length < 256 and before[-2:] in (b"\x8c" + narrow, b"U" + narrow)) or before in (
        b"X" + wide,
        b"T" + wide,
    )
