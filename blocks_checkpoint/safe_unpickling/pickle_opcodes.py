"""The opcodes of pickle that are rare in training logs, one function each.

No opcode here allocates what the bytes do not hold.
"""

from __future__ import annotations

import codecs
import pickle
import struct
from collections.abc import Callable
from typing import Any

from ..errors import HostileCheckpoint, UnsupportedFormat
from .pickle_state import PickleState

__all__ = ["MAX_DIGITS", "MAX_INTEGER_BYTES", "OPCODES"]

#: Longest integer, in bytes and in decimal digits. Hashing and printing take
#: more than linear time.
MAX_INTEGER_BYTES = 4096
MAX_DIGITS = 4300
#: Longest name of a class or function, with its module.
MAX_NAME = 1000

#: From the byte to the function.
OPCODES: dict[int, Callable[[PickleState], None]] = {}

_INT = struct.Struct("<i")
_UINT = struct.Struct("<I")
_LONG = struct.Struct("<Q")

_Opcode = Callable[[PickleState], None]


def _opcode(code: bytes) -> Callable[[_Opcode], _Opcode]:
    def enter(function: _Opcode) -> _Opcode:
        OPCODES[code[0]] = function
        return function

    return enter


@_opcode(pickle.PROTO)
def _proto(state: PickleState) -> None:
    (protocol,) = state.take(1)
    if protocol > 5:
        raise UnsupportedFormat(
            f"it is a pickle of protocol {protocol}; protocols up to 5 are read"
        )


@_opcode(pickle.FRAME)
def _frame(state: PickleState) -> None:
    state.take(8)


@_opcode(pickle.POP)
def _pop(state: PickleState) -> None:
    # A mark is popped like an object, where it lies on top.
    if state.marks and state.marks[-1] == len(state.stack):
        state.marks.pop()
    else:
        state.stack.pop()


@_opcode(pickle.POP_MARK)
def _pop_mark(state: PickleState) -> None:
    state.pop_to_mark()


@_opcode(pickle.DUP)
def _dup(state: PickleState) -> None:
    state.stack.append(state.stack[-1])


@_opcode(pickle.NONE)
def _none(state: PickleState) -> None:
    state.stack.append(None)


@_opcode(pickle.NEWTRUE)
def _true(state: PickleState) -> None:
    state.stack.append(True)


@_opcode(pickle.NEWFALSE)
def _false(state: PickleState) -> None:
    state.stack.append(False)


@_opcode(pickle.INT)
def _int(state: PickleState) -> None:
    line = state.line()
    if line in (b"00", b"01"):
        state.stack.append(line == b"01")
    else:
        _push_decimal(state, line)


@_opcode(pickle.LONG)
def _long(state: PickleState) -> None:
    _push_decimal(state, state.line().rstrip(b"L"))


@_opcode(pickle.LONG1)
def _long1(state: PickleState) -> None:
    _push_bytes_of_integer(state, state.take(state.take(1)[0]))


@_opcode(pickle.LONG4)
def _long4(state: PickleState) -> None:
    (count,) = _INT.unpack(state.take(4))
    if count > MAX_INTEGER_BYTES:
        raise HostileCheckpoint(f"an integer of {count} bytes; {MAX_INTEGER_BYTES} is the limit")
    _push_bytes_of_integer(state, state.take(count))


@_opcode(pickle.FLOAT)
def _float(state: PickleState) -> None:
    line = state.line()
    if len(line) > MAX_DIGITS:
        raise HostileCheckpoint(f"a number of {len(line)} digits; {MAX_DIGITS} is the limit")
    state.stack.append(float(line))


@_opcode(pickle.STRING)
def _py2_string(state: PickleState) -> None:
    line = state.line().strip()
    if len(line) < 2 or line[:1] != line[-1:] or line[:1] not in b"'\"":
        raise ValueError("a string without quotes")
    raw, _ = codecs.escape_decode(line[1:-1])
    state.stack.append(_py2_text(raw))


@_opcode(pickle.BINSTRING)
def _binstring(state: PickleState) -> None:
    state.stack.append(_py2_text(state.take_counted(_INT)))


@_opcode(pickle.SHORT_BINSTRING)
def _short_binstring(state: PickleState) -> None:
    state.stack.append(_py2_text(state.take(state.take(1)[0])))


@_opcode(pickle.BINBYTES)
def _binbytes(state: PickleState) -> None:
    state.stack.append(state.take_counted(_UINT))


@_opcode(pickle.BINBYTES8)
def _binbytes8(state: PickleState) -> None:
    state.stack.append(state.take_counted(_LONG))


@_opcode(pickle.BYTEARRAY8)
def _bytearray8(state: PickleState) -> None:
    state.stack.append(bytearray(state.take_counted(_LONG)))


@_opcode(pickle.UNICODE)
def _unicode(state: PickleState) -> None:
    state.stack.append(str(state.line(), "raw-unicode-escape"))


@_opcode(pickle.BINUNICODE)
def _binunicode(state: PickleState) -> None:
    state.stack.append(str(state.take_counted(_UINT), "utf-8", "surrogatepass"))


@_opcode(pickle.BINUNICODE8)
def _binunicode8(state: PickleState) -> None:
    state.stack.append(str(state.take_counted(_LONG), "utf-8", "surrogatepass"))


@_opcode(pickle.EMPTY_TUPLE)
def _empty_tuple(state: PickleState) -> None:
    state.stack.append(())


@_opcode(pickle.TUPLE)
def _tuple(state: PickleState) -> None:
    state.stack.append(tuple(state.pop_to_mark()))


@_opcode(pickle.TUPLE1)
def _tuple1(state: PickleState) -> None:
    state.stack[-1] = (state.stack[-1],)


@_opcode(pickle.TUPLE3)
def _tuple3(state: PickleState) -> None:
    state.stack[-3:] = [(state.stack[-3], state.stack[-2], state.stack[-1])]


@_opcode(pickle.EMPTY_LIST)
def _empty_list(state: PickleState) -> None:
    state.stack.append([])


@_opcode(pickle.LIST)
def _list(state: PickleState) -> None:
    state.stack.append(state.pop_to_mark())


@_opcode(pickle.APPEND)
def _append(state: PickleState) -> None:
    item = state.stack.pop()
    _extend(state, state.stack[-1], [item])


@_opcode(pickle.APPENDS)
def _appends(state: PickleState) -> None:
    items = state.pop_to_mark()
    _extend(state, state.stack[-1], items)


@_opcode(pickle.DICT)
def _dict(state: PickleState) -> None:
    items = state.pop_to_mark()
    state.stack.append({})
    state.set_items(state.stack[-1], items)


@_opcode(pickle.EMPTY_SET)
def _empty_set(state: PickleState) -> None:
    state.push_set(set())


@_opcode(pickle.ADDITEMS)
def _additems(state: PickleState) -> None:
    items = state.pop_to_mark()
    thing = state.stack[-1]
    if type(thing) is set:
        thing.update(state.checked(items))
    else:
        state.vocabulary.add(thing, items)


@_opcode(pickle.FROZENSET)
def _frozenset(state: PickleState) -> None:
    state.push_set(frozenset(state.checked(state.pop_to_mark())))


@_opcode(pickle.GET)
def _get(state: PickleState) -> None:
    state.stack.append(state.memo[int(state.line()[:20])])


@_opcode(pickle.PUT)
def _put(state: PickleState) -> None:
    state.memoize(int(state.line()[:20]))


@_opcode(pickle.BINPUT)
def _binput(state: PickleState) -> None:
    state.memoize(state.take(1)[0])


@_opcode(pickle.LONG_BINPUT)
def _long_binput(state: PickleState) -> None:
    state.memoize(_UINT.unpack(state.take(4))[0])


@_opcode(pickle.GLOBAL)
def _global(state: PickleState) -> None:
    module, name = str(state.line(), "utf-8"), str(state.line(), "utf-8")
    state.stack.append(state.vocabulary.find(module, name))


@_opcode(pickle.STACK_GLOBAL)
def _stack_global(state: PickleState) -> None:
    name, module = state.stack.pop(), state.stack.pop()
    if type(name) is not str or type(module) is not str:
        raise TypeError("the name of a global is no text")
    # Such names are looked up, joined and written, and cost two bytes again.
    if len(module) + len(name) > MAX_NAME:
        raise HostileCheckpoint(f"a name of {len(module) + len(name)} characters")
    state.stack.append(state.vocabulary.find(module, name))


@_opcode(pickle.INST)
def _inst(state: PickleState) -> None:
    module, name = str(state.line(), "ascii"), str(state.line(), "ascii")
    args = tuple(state.pop_to_mark())
    state.stack.append(state.vocabulary.call(state.vocabulary.find(module, name), args))


@_opcode(pickle.OBJ)
def _obj(state: PickleState) -> None:
    cls, *args = state.pop_to_mark()
    state.stack.append(state.vocabulary.call(cls, tuple(args)))


@_opcode(pickle.NEWOBJ)
def _newobj(state: PickleState) -> None:
    args = state.stack.pop()
    _new(state, args, {})


@_opcode(pickle.NEWOBJ_EX)
def _newobj_ex(state: PickleState) -> None:
    kwargs, args = state.stack.pop(), state.stack.pop()
    _new(state, args, kwargs)


@_opcode(pickle.BUILD)
def _build(state: PickleState) -> None:
    value = state.stack.pop()
    thing = state.stack[-1]
    built = state.vocabulary.build(thing, value)
    if built is not thing:
        state.replace(thing, built)


@_opcode(pickle.PERSID)
def _persid(state: PickleState) -> None:
    state.stack.append(state.vocabulary.persistent(_py2_text(state.line())))


@_opcode(pickle.BINPERSID)
def _binpersid(state: PickleState) -> None:
    state.stack[-1] = state.vocabulary.persistent(state.stack[-1])


@_opcode(pickle.EXT1)
@_opcode(pickle.EXT2)
@_opcode(pickle.EXT4)
def _extension(state: PickleState) -> None:
    raise HostileCheckpoint(
        "the pickle uses the registry of extension codes, which says something else in each process"
    )


@_opcode(pickle.NEXT_BUFFER)
@_opcode(pickle.READONLY_BUFFER)
def _out_of_band(state: PickleState) -> None:
    raise HostileCheckpoint("the pickle refers to buffers that were never in this file")


def _py2_text(raw: bytes) -> str:
    # The strings of Python 2 are bytes of no declared encoding; Latin-1 keeps
    # every one of them.
    return str(raw, "latin1")


def _push_decimal(state: PickleState, digits: bytes) -> None:
    if len(digits) > MAX_DIGITS:
        raise HostileCheckpoint(f"an integer of {len(digits)} digits; {MAX_DIGITS} is the limit")
    state.push_integer(int(digits))


def _push_bytes_of_integer(state: PickleState, raw: bytes) -> None:
    state.push_integer(int.from_bytes(raw, "little", signed=True))


def _extend(state: PickleState, thing: Any, items: list[Any]) -> None:
    if type(thing) is list:
        thing.extend(items)
    else:
        state.vocabulary.extend(thing, items)


def _new(state: PickleState, args: Any, kwargs: Any) -> None:
    if type(args) is not tuple or type(kwargs) is not dict:
        raise TypeError("the arguments of a new object are no tuple and dictionary")
    state.stack[-1] = state.vocabulary.new(state.stack[-1], args, kwargs)
