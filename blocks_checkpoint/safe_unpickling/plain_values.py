"""Values of Python's own library that a pickle may hold, each rebuilt by us.

A pickle names a constructor and gives arguments. No constructor is called
with arguments of a stranger's choice: each has a function here, which takes
what a pickler writes for that class and nothing else. A ``bytearray`` is made
from bytes, never from a number of gigabytes; a ``Fraction`` from digits, never
from ``"1e999999999"``; a ``defaultdict`` gets one of a few factories.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
import pathlib
import re
import struct
import uuid
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

from .allowance import Allowance
from .vocabulary import shortened

__all__ = ["MAKERS", "NAMES", "Name", "PendingUUID"]

#: From what a pickle calls a constructor with, and what it may still spend.
Maker = Callable[[tuple[Any, ...], Allowance], Any]

_MAX_DIGITS = 4300
_FACTORIES = (bool, complex, dict, float, int, list, set, str, tuple, type(None))


class Name:
    """A name in a pickle that can be called and is nothing else."""

    __slots__ = ("_text",)

    def __init__(self, module: str, name: str) -> None:
        self._text = f"{module}.{name}"

    def __repr__(self) -> str:
        return self._text


class PendingUUID:
    """A UUID that has not been given its number yet."""

    __slots__ = ()

    @staticmethod
    def with_state(state: Any) -> uuid.UUID:
        """Return the UUID itself."""
        number = state["int"]
        if type(number) is not int:
            raise TypeError("the number of a UUID is no integer")
        return uuid.UUID(int=number)


def _only(args: tuple[Any, ...], *types: type | tuple[type, ...]) -> tuple[Any, ...]:
    """Return the arguments if they are of these types, and no subclass of them."""
    if len(args) != len(types):
        raise TypeError(f"{len(types)} arguments are expected, not {len(args)}")
    for arg, allowed in zip(args, types):
        if type(arg) not in (allowed if isinstance(allowed, tuple) else (allowed,)):
            raise TypeError(f"an argument is of the type {type(arg).__name__}")
    return args


def _integers(args: tuple[Any, ...]) -> tuple[int, ...]:
    return _only(args, *[int] * len(args))


def _bytes(args: tuple[Any, ...], allowance: Allowance) -> bytes:
    # Protocols 0 to 2 have no bytes; they are text then, or this call.
    if not args:
        return b""
    if type(args[0]) is bytes:
        (raw,) = _only(args, bytes)
    else:
        raw = _encode(args, allowance)
    allowance.spend(len(raw))
    return bytes(raw)


def _encode(args: tuple[Any, ...], allowance: Allowance) -> bytes:
    text, encoding = _only(args, str, str)
    if encoding not in ("latin1", "latin-1"):
        raise ValueError("bytes are encoded as Latin-1 in pickles")
    allowance.spend(len(text))
    return bytes(text, "latin1")


def _items(args: tuple[Any, ...], allowance: Allowance) -> list[Any]:
    if not args:
        return []
    (items,) = _only(args, (list, tuple))
    allowance.spend(len(items))
    return list(items)


def _ordered_dict(args: tuple[Any, ...], allowance: Allowance) -> OrderedDict[Any, Any]:
    # Python 2 gives the items here, later ones set them afterwards.
    pairs = [(key, value) for key, value in _items(args, allowance)]
    return OrderedDict(zip(allowance.keys(key for key, _ in pairs), (v for _, v in pairs)))


def _slice(args: tuple[Any, ...], allowance: Allowance) -> slice:
    _only(args, *[(int, type(None))] * 3)
    return slice(*args)


def _complex(args: tuple[Any, ...], allowance: Allowance) -> complex:
    return complex(*_only(args, (int, float), (int, float)))


def _defaultdict(args: tuple[Any, ...], allowance: Allowance) -> defaultdict[Any, Any]:
    if args and not (args[0] is None or args[0] in _FACTORIES):
        raise TypeError(f"{shortened(args[0])} is no factory that a defaultdict may have")
    _only(args, *[(type, type(None))] * len(args))
    return defaultdict(*args[:1])


def _deque(args: tuple[Any, ...], allowance: Allowance) -> deque[Any]:
    limit = args[1] if len(args) == 2 else None
    if limit is not None and type(limit) is not int:
        raise TypeError("the limit of a deque is no integer")
    return deque(_items(args[:1], allowance), limit)


def _decimal(args: tuple[Any, ...], allowance: Allowance) -> decimal.Decimal:
    (text,) = _only(args, str)
    allowance.spend(len(text))
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"a decimal of {len(text)} digits")
    return decimal.Decimal(text)


def _fraction(args: tuple[Any, ...], allowance: Allowance) -> fractions.Fraction:
    if len(args) == 2:
        return fractions.Fraction(*_integers(args))
    (text,) = _only(args, str)
    allowance.spend(len(text))
    if len(text) > _MAX_DIGITS or not re.fullmatch(r"-?[0-9]+(/[0-9]+)?", text):
        raise ValueError("a fraction that is no pair of integers")
    return fractions.Fraction(text)


def _uuid(args: tuple[Any, ...], allowance: Allowance) -> PendingUUID:
    _only(args)
    return PendingUUID()


def _path(args: tuple[Any, ...], allowance: Allowance) -> pathlib.PurePath:
    parts = _only(args, *[str] * len(args))
    allowance.spend(sum(map(len, parts)))
    # Of this system, whatever the one was that wrote it.
    return pathlib.Path(*parts)


# Dates are pickled as bytes that their own constructors hardly check. Here
# they are taken apart, and the numbers are checked like anyone's.


def _packed(args: tuple[Any, ...], length: int) -> bytes:
    raw = args[0]
    if type(raw) not in (bytes, str) or len(raw) != length:
        raise TypeError("a date or time that is not packed into bytes")
    # Python 2 wrote the bytes as text.
    packed: bytes = raw.encode("latin1") if type(raw) is str else raw
    return packed


def _zone(args: tuple[Any, ...]) -> datetime.tzinfo | None:
    if len(args) == 1:
        return None
    _, zone = args
    if zone is not None and type(zone) is not datetime.timezone:
        raise TypeError("a time zone that is no fixed offset")
    return zone


def _date(args: tuple[Any, ...], allowance: Allowance) -> datetime.date:
    year, month, day = struct.unpack(">HBB", _packed(args, 4))
    return datetime.date(year, month, day)


def _time(args: tuple[Any, ...], allowance: Allowance) -> datetime.time:
    hour, minute, second, high, low = struct.unpack(">BBBBH", _packed(args, 6))
    # The highest bit says which of the two hours at the end of summer time.
    return datetime.time(hour & 0x7F, minute, second, high << 16 | low, _zone(args), fold=hour >> 7)


def _datetime(args: tuple[Any, ...], allowance: Allowance) -> datetime.datetime:
    year, month, day, hour, minute, second, high, low = struct.unpack(
        ">HBBBBBBH", _packed(args, 10)
    )
    return datetime.datetime(
        year,
        month & 0x7F,
        day,
        hour,
        minute,
        second,
        high << 16 | low,
        _zone(args),
        fold=month >> 7,
    )


def _timedelta(args: tuple[Any, ...], allowance: Allowance) -> datetime.timedelta:
    return datetime.timedelta(*_integers(args))


def _timezone(args: tuple[Any, ...], allowance: Allowance) -> datetime.timezone:
    _only(args, datetime.timedelta, *[str] * (len(args) - 1))
    return datetime.timezone.utc if args == (datetime.timedelta(0),) else datetime.timezone(*args)


_ENCODE = Name("_codecs", "encode")
_PATH = Name("pathlib", "Path")

#: What a pickle may name, by module and name.
NAMES: dict[tuple[str, str], Any] = {
    **{
        ("builtins", cls.__name__): cls
        for cls in (
            bool,
            bytearray,
            bytes,
            complex,
            dict,
            float,
            frozenset,
            int,
            list,
            range,
            set,
            slice,
            str,
            tuple,
        )
    },
    # Python 2's own names.
    ("builtins", "long"): int,
    ("builtins", "unicode"): str,
    ("builtins", "xrange"): range,
    ("builtins", "Ellipsis"): Ellipsis,
    ("builtins", "NotImplemented"): NotImplemented,
    ("_codecs", "encode"): _ENCODE,
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "defaultdict"): defaultdict,
    ("collections", "deque"): deque,
    ("uuid", "UUID"): uuid.UUID,
    ("decimal", "Decimal"): decimal.Decimal,
    ("fractions", "Fraction"): fractions.Fraction,
    **{
        ("datetime", cls.__name__): cls
        for cls in (
            datetime.date,
            datetime.datetime,
            datetime.time,
            datetime.timedelta,
            datetime.timezone,
        )
    },
    **{
        (module, name): _PATH
        for module in ("pathlib", "pathlib._local")
        for name in ("Path", "PosixPath", "WindowsPath")
    },
}

#: What may be called, and what is called in its place.
MAKERS: dict[Any, Maker] = {
    bytes: _bytes,
    bytearray: lambda args, allowance: bytearray(_bytes(args, allowance)),
    complex: _complex,
    frozenset: lambda args, allowance: frozenset(allowance.keys(_items(args, allowance))),
    range: lambda args, allowance: range(*_integers(args)),
    set: lambda args, allowance: set(allowance.keys(_items(args, allowance))),
    slice: _slice,
    _ENCODE: _encode,
    _PATH: _path,
    OrderedDict: _ordered_dict,
    defaultdict: _defaultdict,
    deque: _deque,
    uuid.UUID: _uuid,
    decimal.Decimal: _decimal,
    fractions.Fraction: _fraction,
    datetime.date: _date,
    datetime.datetime: _datetime,
    datetime.time: _time,
    datetime.timedelta: _timedelta,
    datetime.timezone: _timezone,
}
