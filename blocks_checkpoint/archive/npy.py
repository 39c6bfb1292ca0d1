"""The NPY header: what an array member says of its data, to and from bytes.

Headers of strangers are parsed by a grammar of their own, which knows the
literals that NumPy writes and nothing else; nothing is evaluated. An array of
Python objects is refused both ways.
"""

from __future__ import annotations

import functools
import math
import re
import struct
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "GLANCE",
    "MAGIC",
    "ArrayHeader",
    "Described",
    "NpyError",
    "check_member",
    "header_bytes",
    "header_length",
    "lengthened",
    "parse_header",
]

MAGIC = b"\x93NUMPY"
#: Longest header accepted or written, in bytes.
MAX_HEADER_BYTES = 1 << 16
_MAX_DEPTH = 16
# Arrays of items without bytes cost nothing in the file, whatever their shape.
_MAX_EMPTY_ITEMS = 1 << 20
_ALIGNMENT = 64
# numpy.load refuses headers of more than 10,000 bytes unless it is told otherwise.
_MAX_LENGTHENED = 8192
#: Nearly every header is of this length.
GLANCE = 128
_MAX_SEEN = 4096
_seen: dict[bytes, tuple[np.dtype[Any], tuple[int, ...], bool, int, int]] = {}
_MAX_AXES = 64 if np.lib.NumpyVersion(np.__version__) >= "2.0.0.dev0" else 32
_MAX_EXTENT = (1 << 63) - 1
# A quarter of what numpy holds: letters take four bytes.
_MAX_ITEM = (1 << 29) - 1


#: dtype, shape, Fortran order, and a number of bytes.
Described = tuple["np.dtype[Any]", tuple[int, ...], bool, int]


class NpyError(ValueError):
    """A header is not one, or promises what it must not."""


class ArrayHeader(NamedTuple):
    """What an array member says of itself.

    Attributes
    ----------
    dtype : numpy.dtype
    shape : tuple of int
    fortran_order : bool
    data_offset : int
        Where the array's bytes begin in the archive file; if the member is
        compressed, where they begin in the member.
    nbytes : int
        Length of the array's data in bytes.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran_order: bool
    data_offset: int
    nbytes: int


@functools.lru_cache(maxsize=256)
def _description(dtype: np.dtype[Any]) -> Any:
    """Return what names `dtype` in a header, as `numpy.save` would."""
    if dtype.hasobject:
        raise NpyError(f"arrays of {dtype} hold Python objects and are not stored")
    if dtype.names is not None or dtype.subdtype is not None:
        try:
            return _storable(np.lib.format.dtype_to_descr(dtype))
        except ValueError as error:
            raise NpyError(f"the dtype {dtype} cannot be written as NPY: {error}") from error
    return _storable(dtype.str)


def _storable(description: Any) -> Any:
    """Replace types that NumPy does not bring itself (bfloat16, float8) by void.

    Who reads them has to know the true type; their bytes are there.
    """
    if isinstance(description, list):
        return [(name, _storable(kind), *shape) for name, kind, *shape in description]
    if _SIMPLE.fullmatch(description) or _TIME.fullmatch(description):
        return description
    item_bytes = re.search("[0-9]+$", description)
    if item_bytes is None:
        raise NpyError(f"numpy has no name for the dtype {description} in files")
    return f"|V{item_bytes[0]}"


@functools.lru_cache(maxsize=1024)
def header_bytes(dtype: np.dtype[Any], shape: tuple[int, ...], fortran_order: bool) -> bytes:
    """Return the NPY header of such an array, a multiple of 64 bytes long.

    Raises
    ------
    NpyError
        The array's items are Python objects, or the header is too long.
    """
    text = (
        f"{{'descr': {_description(dtype)!r}, 'fortran_order': {fortran_order!r}, "
        f"'shape': {shape!r}, }}"
    )
    try:
        raw, version, width = text.encode("latin-1"), 1, 2
    except UnicodeEncodeError:
        raw, version, width = text.encode("utf-8"), 3, 4
    prefix = len(MAGIC) + 2
    if -(-(prefix + width + len(raw) + 1) // _ALIGNMENT) * _ALIGNMENT > MAX_HEADER_BYTES:
        raise NpyError(f"the dtype has too many fields: its header takes {len(raw)} bytes")
    padding = -(prefix + width + len(raw) + 1) % _ALIGNMENT
    length = len(raw) + padding + 1
    return (
        MAGIC
        + bytes([version, 0])
        + length.to_bytes(width, "little")
        + raw
        + b" " * padding
        + b"\n"
    )


def lengthened(header: bytes, nbytes: int) -> bytes:
    """Return an NPY header that is longer by so many bytes and says the same.

    The header itself if it would become longer than every reader takes.
    """
    if len(header) + nbytes > _MAX_LENGTHENED:
        return header
    begin = 10 if header[6] == 1 else 12
    length = len(header) + nbytes - begin
    prefix = header[:8] + length.to_bytes(begin - 8, "little")
    return prefix + header[begin:-1] + b" " * nbytes + b"\n"


def header_length(start: bytes) -> int:
    """Return the length of the NPY header that begins with `start` (12 bytes or more)."""
    if len(start) < 10 or start[: len(MAGIC)] != MAGIC:
        raise NpyError("it does not begin as an array in NPY format does")
    version = start[6], start[7]
    if version == (1, 0):
        length: int = 10 + struct.unpack_from("<H", start, 8)[0]
    elif version in {(2, 0), (3, 0)} and len(start) >= 12:
        length = 12 + struct.unpack_from("<I", start, 8)[0]
    else:
        raise NpyError(f"its NPY version {version[0]}.{version[1]} is unknown")
    if length > MAX_HEADER_BYTES:
        raise NpyError(f"its NPY header claims {length} bytes; {MAX_HEADER_BYTES} is the limit")
    return length


def check_member(start: bytes, size: int) -> Described:
    """Return what the header of an array of `size` bytes, header included, tells.

    Parameters
    ----------
    start : bytes
        The member's first bytes, at least as many as its header has.
    size : int
        Length of the member.

    Returns
    -------
    dtype, shape, Fortran order, length of the header

    Raises
    ------
    NpyError
        It is no NPY header, or does not describe exactly `size` bytes.
    """
    found = _seen.get(start[:GLANCE])
    if found is None:
        length = header_length(start)
        if length > len(start):
            raise NpyError("its NPY header goes on after its end")
        found = (*parse_header(start[:length]), length)
        # Headers repeat, and parsing them would be most of the work of
        # loading small arrays. Strangers must not fill memory with them.
        if length == GLANCE and len(_seen) < _MAX_SEEN:
            _seen[start[:GLANCE]] = found
    dtype, shape, fortran_order, nbytes, length = found
    if length + nbytes != size:
        raise NpyError(
            f"its NPY header promises {nbytes} bytes of data, and there are {size - length}"
        )
    return dtype, shape, fortran_order, length


def parse_header(header: bytes) -> tuple[np.dtype[Any], tuple[int, ...], bool, int]:
    """Return dtype, shape, Fortran order and data bytes that a whole NPY header tells.

    Raises
    ------
    NpyError
        It is not what NumPy writes, or describes Python objects.
    """
    version = header[6]
    try:
        text = header[10 if version == 1 else 12 :].decode("utf-8" if version == 3 else "latin-1")
    except UnicodeDecodeError as error:
        raise NpyError("its NPY header is not UTF-8") from error
    fields = _Literal(text).parse()
    if not isinstance(fields, dict) or set(fields) != {"descr", "fortran_order", "shape"}:
        raise NpyError("its NPY header lacks descr, fortran_order or shape, or has more")
    shape, fortran_order = fields["shape"], fields["fortran_order"]
    if not isinstance(fortran_order, bool):
        raise NpyError("fortran_order in its NPY header is not True or False")
    if not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape):
        raise NpyError("shape in its NPY header is not a tuple of sizes")
    dtype = _dtype(fields["descr"])
    count = math.prod(shape)
    if not dtype.itemsize and count > _MAX_EMPTY_ITEMS:
        raise NpyError(f"it promises {count} items of no bytes")
    # What numpy could not hold; it counts axes of length zero as one here.
    extent = math.prod(n for n in shape if n) * max(dtype.itemsize, 1)
    if len(shape) > _MAX_AXES or extent > _MAX_EXTENT:
        raise NpyError(f"the shape {_shortened(shape)} in its NPY header is impossible")
    return dtype, shape, fortran_order, count * dtype.itemsize


_SIMPLE = re.compile(r"[<>|=](?:b1|[iu][1248]|f(?:2|4|8|12|16)|c(?:8|16|24|32)|[SUV][0-9]{1,10})")
_TIME = re.compile(r"[<>|=][mM]8(?:\[[0-9]{0,9}[A-Za-z]{1,2}(?:/[0-9]{1,9})?\])?")


def _dtype(description: Any) -> np.dtype[Any]:
    _check_description(description, 0)
    try:
        dtype: np.dtype[Any] = np.lib.format.descr_to_dtype(description)
    except (ValueError, TypeError, KeyError, OverflowError, MemoryError, SyntaxError) as error:
        raise NpyError(f"numpy knows no dtype {_shortened(description)}: {error}") from error
    if dtype.hasobject:
        raise NpyError("its items are Python objects, which only a pickle could hold")
    if dtype.subdtype is not None:
        raise NpyError(f"the dtype {_shortened(description)} is one of fields, not of arrays")
    return dtype


def _check_description(description: Any, depth: int) -> None:
    """Refuse what `numpy.dtype` would take for something else than NumPy wrote."""
    if isinstance(description, str):
        if _TIME.fullmatch(description):
            return
        if _SIMPLE.fullmatch(description):
            # Old releases of numpy let larger numbers wrap round.
            if int(description[2:]) > _MAX_ITEM:
                raise NpyError(f"items of the dtype {description} are too large")
            return
        if "O" in description:
            raise NpyError("its items are Python objects, which only a pickle could hold")
        raise NpyError(f"the dtype {_shortened(description)} is not one that numpy stores")
    if isinstance(description, tuple) and len(description) == 2:
        _check_description(description[0], depth + 1)
        _check_shape(description[1])
        return
    if not isinstance(description, list):
        raise NpyError(f"the dtype {_shortened(description)} is not one that numpy stores")
    for field in description:
        if not isinstance(field, tuple) or len(field) not in {2, 3}:
            raise NpyError(f"the dtype field {_shortened(field)} is not one that numpy stores")
        titled = isinstance(field[0], tuple) and len(field[0]) == 2
        names = field[0] if titled else (field[0],)
        if not all(isinstance(name, str) for name in names):
            raise NpyError(f"the dtype field {_shortened(field)} has no name")
        _check_description(field[1], depth + 1)
        if len(field) == 3:
            _check_shape(field[2])


def _check_shape(shape: Any) -> None:
    sizes = shape if isinstance(shape, tuple) else (shape,)
    if not all(type(size) is int and 0 <= size < 1 << 31 for size in sizes):
        raise NpyError(f"the subarray shape {_shortened(shape)} is impossible")


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class _Literal:
    """Parser of the literals that NPY headers are made of."""

    _token = re.compile(
        r"""\s*(?:
            (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
          | (?P<number>[0-9]{1,20})L?(?![0-9A-Za-z_.])
          | (?P<word>True|False|None)(?![0-9A-Za-z_])
          | (?P<mark>[()\[\]{},:])
        )""",
        re.VERBOSE | re.DOTALL,
    )
    _escape = re.compile(
        r"\\(?:(?P<hexadecimal>x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})|(?P<plain>.))",
        re.DOTALL,
    )
    _plain = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}
    _closing = {"(": ")", "[": "]", "{": "}"}

    def __init__(self, text: str) -> None:
        self._text = text.rstrip()
        self._position = 0

    def parse(self) -> Any:
        value = self._value(0)
        if self._position != len(self._text):
            raise NpyError("its NPY header goes on after its end")
        return value

    def _next(self) -> tuple[str, str]:
        found = self._token.match(self._text, self._position)
        if not found or found.lastgroup is None:
            raise NpyError(f"its NPY header is not understood from character {self._position} on")
        self._position = found.end()
        return found.lastgroup, found[found.lastgroup]

    def _value(self, depth: int) -> Any:
        kind, text = self._next()
        if kind == "string":
            return self._string(text)
        if kind == "number":
            return int(text)
        if kind == "word":
            return {"True": True, "False": False, "None": None}[text]
        if text not in self._closing:
            raise NpyError(f"its NPY header has {text!r} where a value should be")
        if depth == _MAX_DEPTH:
            raise NpyError(f"its NPY header nests deeper than {_MAX_DEPTH}")
        return self._items(text, depth + 1)

    def _items(self, opening: str, depth: int) -> Any:
        closing = self._closing[opening]
        items: list[Any] = []
        comma = True
        while True:
            before = self._position
            kind, text = self._next()
            if kind == "mark" and text == closing:
                break
            if not comma:
                raise NpyError("its NPY header lacks a comma")
            self._position = before
            value = self._value(depth)
            if opening == "{":
                if self._next() != ("mark", ":") or not isinstance(value, str):
                    raise NpyError("its NPY header has a dictionary without names")
                value = (value, self._value(depth))
            items.append(value)
            before = self._position
            comma = self._next() == ("mark", ",")
            if not comma:
                self._position = before
        if opening == "[":
            return items
        if opening == "(":
            # A value in brackets without a comma is that value, as in Python.
            return items[0] if len(items) == 1 and not comma else tuple(items)
        fields = dict(items)
        if len(fields) != len(items):
            raise NpyError("its NPY header names one thing twice")
        return fields

    def _string(self, text: str) -> str:
        def plain(found: re.Match[str]) -> str:
            digits = found["hexadecimal"]
            if digits:
                code = int(digits[1:], 16)
                if code > 0x10FFFF:
                    raise NpyError("its NPY header has a character beyond Unicode")
                return chr(code)
            try:
                return self._plain[found["plain"]]
            except KeyError:
                raise NpyError(f"its NPY header has the escape {found[0]!r}") from None

        return self._escape.sub(plain, text[1:-1])
