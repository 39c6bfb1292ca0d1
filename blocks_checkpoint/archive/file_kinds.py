"""What a file that is no checkpoint seems to be."""

from __future__ import annotations

__all__ = ["is_tar", "what_it_seems"]

_BEGINNINGS = (
    (b"\x1f\x8b", "a gzip file"),
    (b"BZh", "a bzip2 file"),
    (b"\xfd7zXZ\x00", "an xz file"),
    (b"\x28\xb5\x2f\xfd", "a zstandard file"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-zip archive"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"\x93NUMPY", "a single NumPy array (.npy)"),
    (b"PK\x07\x08", "one part of a zip archive in several parts"),
    (b"\x7fELF", "a program"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"%PDF", "a PDF document"),
    (b"SQLite format 3\x00", "an SQLite database"),
)
_TAR = "a tar archive, though none of those that Blocks wrote (they have a member '_pkl')"


def is_tar(head: bytes) -> bool:
    """Tell a tar archive by its first bytes. One that ends in a zip archive ends like one."""
    return head[257:262] == b"ustar"


def what_it_seems(head: bytes) -> str:
    """Say what a file is, from its first bytes (600 or more, if it has as many)."""
    if not head:
        return "an empty file"
    if not head.strip(b"\x00"):
        return "a file of zeros, as a crash of the system can leave one"
    for beginning, words in _BEGINNINGS:
        if head.startswith(beginning):
            return words
    if is_tar(head):
        return _TAR
    if head[0] == 0x80 and len(head) > 1 and head[1] <= 5:
        return "a plain pickle"
    if _is_text(head):
        if head.startswith(b"version https://git-lfs"):
            return "a Git LFS pointer, in place of the file it points to"
        if head.startswith((b"(", b"c", b"]", b"}")) and (b"\np" in head or b"\nq" in head):
            return "a plain pickle of protocol 0"
        return "text"
    return "another kind of file"


def _is_text(head: bytes) -> bool:
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        # The last character may be cut off by the end of what was read.
        if error.start < len(head) - 3 or not error.start:
            return False
        text = head[: error.start].decode("utf-8")
    return all(character.isprintable() or character in "\t\n\r\f" for character in text)
