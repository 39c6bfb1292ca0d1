"""NumPy's values that a pickle may hold, rebuilt without NumPy's unpickling.

The state that a pickle gives a dtype goes into NumPy's own structures as it
is: an object dtype whose flags deny it lets the bytes of an array pass for
addresses. Here a dtype is made anew from what its state says, and an array
from a dtype, a shape and exactly as many bytes. Arrays of objects are refused.

NumPy 1 and 2 name the same functions differently; either name means ours.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import LoadError
from .allowance import Allowance
from .plain_values import Maker, Name
from .vocabulary import shortened

__all__ = ["MAKERS", "NAMES", "PendingArray", "array_with_state", "dtype_with_state"]

#: A dtype of fields of fields of fields.
MAX_DTYPE_DEPTH = 16
#: Items that take no bytes cost nothing in the file, whatever their number.
MAX_EMPTY_ITEMS = 1 << 20

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]
    DType = np.dtype[Any]

_SPEC = re.compile(r"[<>|=]?(?:[?bBhHiIlLqQpPefdgFDGSUVMm]|[biufcSUVMm][0-9]{1,9})")
_UNIT = re.compile(r"generic|Y|M|W|D|h|m|s|ms|us|μs|ns|ps|fs|as")


class PendingArray:
    """An array that has not been given its shape and values yet."""

    __slots__ = ()


def _dtype(args: tuple[Any, ...], allowance: Allowance) -> DType:
    spec = args[0]
    if isinstance(spec, np.dtype):
        return spec
    if spec in ("O", "O8", "O4"):
        raise _objects()
    if type(spec) is not str or not _SPEC.fullmatch(spec):
        raise TypeError(
            f"the dtype {shortened(spec)} is not one of numbers, text, dates or fields of them"
        )
    return np.dtype(spec)


def dtype_with_state(dtype: DType, state: Any, allowance: Allowance) -> DType:
    """Return the dtype that a pickle describes by a simpler one and a state.

    Parameters
    ----------
    dtype : numpy.dtype
    state : tuple
        Version, byte order, subarray, names and fields, item size, alignment
        and flags, and from version 4 on the metadata, which holds the unit of
        dates.
    allowance : Allowance
        Pays for the fields.

    Returns
    -------
    numpy.dtype
        Without objects.
    """
    if type(state) is not tuple or len(state) not in (8, 9) or state[0] not in (3, 4):
        raise TypeError("the state of a dtype is not one that NumPy gives")
    order, subarray, names, fields, size = state[1:6]
    if order not in ("<", ">", "|", "="):
        raise ValueError(f"the byte order {shortened(order)} is unknown")
    if subarray is not None:
        base, shape = subarray
        if not all(type(n) is int for n in (shape if type(shape) is tuple else (shape,))):
            raise TypeError("the shape of a subarray is no tuple of sizes")
        return _checked(np.dtype((_checked(base, allowance), shape)), allowance)
    if names is not None:
        return _checked(
            _of_fields(names, fields, size, bool(state[7] & 0x80), allowance), allowance
        )
    if dtype.kind in "SUV" and type(size) is int:
        width = 4 if dtype.kind == "U" else 1
        dtype = np.dtype(f"{dtype.kind}{size // width}")
    if dtype.kind in "Mm" and len(state) == 9 and state[8]:
        unit, count, divisor = state[8][1][:3]
        text = unit.decode("utf-8") if type(unit) is bytes else unit
        if not _UNIT.fullmatch(text) or type(count) is not int or divisor != 1:
            raise ValueError("the unit of a date is unknown")
        if text != "generic":
            dtype = np.dtype(f"{dtype.kind}8[{count}{text}]")
    return _checked(dtype.newbyteorder(order) if order in "<>" else dtype, allowance)


def _of_fields(names: Any, fields: Any, size: Any, aligned: bool, allowance: Allowance) -> DType:
    if type(names) is not tuple or not all(type(name) is str for name in names):
        raise TypeError("the fields of a dtype are not named by a tuple")
    allowance.spend(len(names))
    rows = [fields[name] for name in names]
    numbers = [size, *(row[1] for row in rows)]
    titles = [row[2] if len(row) > 2 else None for row in rows]
    if not all(type(n) is int for n in numbers) or not all(
        type(title) in (str, type(None)) for title in titles
    ):
        raise TypeError("the fields of a dtype are not described by numbers and names")
    description: Any = {
        "names": list(names),
        "formats": [_checked(row[0], allowance) for row in rows],
        "offsets": [row[1] for row in rows],
        "itemsize": size,
    }
    if any(titles):
        description["titles"] = titles
    dtype: DType = np.dtype(description, align=aligned)
    return dtype


def _checked(dtype: Any, allowance: Allowance) -> DType:
    if not isinstance(dtype, np.dtype):
        raise TypeError(f"a {type(dtype).__name__} is used as a dtype")
    made: DType = dtype
    if made.hasobject:
        raise _objects()
    # Level by level: the number of ways down can be exponential.
    level = [made]
    for _ in range(MAX_DTYPE_DEPTH):
        level = list({id(part): part for whole in level for part in _parts(whole)}.values())
        if not level:
            return made
        allowance.spend(len(level))
    raise ValueError(f"a dtype is nested deeper than {MAX_DTYPE_DEPTH}")


def _parts(dtype: DType) -> list[DType]:
    if dtype.subdtype is not None:
        return [dtype.subdtype[0]]
    return [row[0] for row in (dtype.fields or {}).values()]


def _objects() -> LoadError:
    return LoadError(
        "it holds a NumPy array of Python objects. Those are not read from a log, only with "
        "the whole main loop, from a file you trust"
    )


def _depth(dtype: DType, left: int) -> int:
    """Return how much of the depth allowed is left, negative if none."""
    if left < 0:
        return left
    # Every part was checked when it was made, so this ends early.
    if dtype.subdtype is not None:
        return _depth(dtype.subdtype[0], left - 1)
    parts = {id(row[0]): row[0] for row in (dtype.fields or {}).values()}
    return min((_depth(part, left - 1) for part in parts.values()), default=left)


def _scalar(args: tuple[Any, ...], allowance: Allowance) -> Any:
    dtype, raw = args
    if not isinstance(dtype, np.dtype):
        raise TypeError(f"a {type(dtype).__name__} is used as a dtype")
    if dtype.hasobject or type(raw) not in (bytes, str) or len(raw) != dtype.itemsize:
        raise TypeError(f"a value of {dtype.kind} is not made of {dtype.itemsize} bytes")
    if type(raw) is str:
        # Python 2 wrote the bytes as text.
        raw = raw.encode("latin1")
    if not raw:
        return np.zeros((), dtype)[()]
    allowance.spend(len(raw))
    value = np.frombuffer(raw, dtype)[0]
    # An item of fields is a view of the bytes, which cannot be written to.
    return value.copy() if dtype.kind == "V" else value


def _pending(args: tuple[Any, ...], allowance: Allowance) -> PendingArray:
    if args[0] is not np.ndarray:
        raise TypeError(f"{shortened(args[0])} is not the class of plain arrays")
    return PendingArray()


def array_with_state(state: Any, allowance: Allowance) -> Array:
    """Return the array that a state describes: version, shape, dtype, order, bytes."""
    if type(state) is not tuple or len(state) not in (4, 5):
        raise TypeError("the state of an array is not one that NumPy gives")
    shape, dtype, fortran_order, raw = state[-4:]
    return _array(raw, dtype, shape, "F" if fortran_order else "C", allowance)


def _from_buffer(args: tuple[Any, ...], allowance: Allowance) -> Array:
    raw, dtype, shape, order = args[:4]
    axes = args[4] if len(args) == 5 else None
    if order == "K" and axes is not None:
        return _array(raw, dtype, shape, "C", allowance).transpose(axes)
    if order not in ("C", "F"):
        raise ValueError(f"the order {shortened(order)} is unknown")
    return _array(raw, dtype, shape, order, allowance)


def _array(raw: Any, dtype: Any, shape: Any, order: Any, allowance: Allowance) -> Array:
    _checked(dtype, allowance)
    if type(raw) not in (bytes, bytearray, str):
        raise TypeError(f"the values of an array are a {type(raw).__name__}, not bytes")
    allowance.spend(len(raw))
    if type(raw) is str:
        raw = raw.encode("latin1")
    if type(shape) is int:
        shape = (shape,)
    if type(shape) is not tuple or not all(type(n) is int and n >= 0 for n in shape):
        raise TypeError("the shape of an array is no tuple of sizes")
    count = math.prod(shape)
    if count * dtype.itemsize != len(raw) or (not raw and count > MAX_EMPTY_ITEMS):
        raise ValueError(
            f"an array of {shortened(shape)} items of {dtype.itemsize} bytes, and {len(raw)} bytes"
        )
    if not raw:
        return np.zeros(shape, dtype, order)
    array = np.empty(shape, dtype, order)
    # As bytes: a copy of records would leave out what is between the fields.
    array.reshape(-1, order="A").view(np.uint8)[:] = np.frombuffer(raw, np.uint8)
    return array


_SCALAR = Name("numpy", "scalar")
_PENDING = Name("numpy", "array")
_FROM_BUFFER = Name("numpy", "frombuffer")

_SCALAR_TYPES = (
    *(np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64),
    *(np.float16, np.float32, np.float64, np.longdouble),
    *(np.complex64, np.complex128, np.clongdouble),
    *(np.str_, np.bytes_, np.datetime64, np.timedelta64),
)

#: What a pickle may name, by module and name. ``numpy._core`` is written
#: ``numpy.core`` here.
NAMES: dict[tuple[str, str], Any] = {
    ("numpy", "dtype"): np.dtype,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy.core.multiarray", "scalar"): _SCALAR,
    ("numpy.core.multiarray", "_reconstruct"): _PENDING,
    ("numpy.core.numeric", "_frombuffer"): _FROM_BUFFER,
    **{("numpy", cls.__name__): cls for cls in _SCALAR_TYPES},
    # NumPy 1 and 2 differ in these names.
    ("numpy", "bool"): np.bool_,
    ("numpy", "bool_"): np.bool_,
}

#: What may be called, and what is called in its place.
MAKERS: dict[Any, Maker] = {
    np.dtype: _dtype,
    _SCALAR: _scalar,
    _PENDING: _pending,
    _FROM_BUFFER: _from_buffer,
}
