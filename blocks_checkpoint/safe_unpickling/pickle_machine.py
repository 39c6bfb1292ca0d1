"""The pickle machine: runs the opcodes of a pickle, and nothing else.

`pickle.Unpickler.find_class` decides which names a pickle may use, but not
what is done with them. Past it, the standard machine still sets attributes on
classes, hands out what the registry of extension codes remembers, lets a
crafted dtype state write into memory, allocates a table as long as one opcode
says, and recurses over nested keys until the C stack is gone. This machine
does none of it: every call, every state and every unusual key goes to a
*vocabulary*, which decides what becomes of it.

Time and memory are bounded by the length of the pickle: no opcode allocates
what the bytes do not hold, the memo is a dictionary, and what a pickle can
have copied or hashed again for two bytes, a vocabulary counts.
"""

from __future__ import annotations

import pickle
import struct
from typing import Any

from ..errors import CheckpointError, DamagedCheckpoint, HostileCheckpoint
from .pickle_opcodes import OPCODES
from .pickle_state import PickleState
from .vocabulary import Vocabulary, shortened

__all__ = ["PickleMachine"]

_DOUBLE = struct.Struct(">d")
_INT = struct.Struct("<i")
_SHORT = struct.Struct("<H")
_UINT = struct.Struct("<I")

_BINGET = pickle.BINGET[0]
_BINFLOAT = pickle.BINFLOAT[0]
_MEMOIZE = pickle.MEMOIZE[0]
_BININT1 = pickle.BININT1[0]
_MARK = pickle.MARK[0]
_SETITEMS = pickle.SETITEMS[0]
_EMPTY_DICT = pickle.EMPTY_DICT[0]
_BININT = pickle.BININT[0]
_BININT2 = pickle.BININT2[0]
_SHORT_BINUNICODE = pickle.SHORT_BINUNICODE[0]
_TUPLE2 = pickle.TUPLE2[0]
_REDUCE = pickle.REDUCE[0]
_SHORT_BINBYTES = pickle.SHORT_BINBYTES[0]
_LONG_BINGET = pickle.LONG_BINGET[0]
_SETITEM = pickle.SETITEM[0]
_BINPUT = pickle.BINPUT[0]
_PUTS = frozenset([_BINPUT, pickle.LONG_BINPUT[0]])
_STOP = pickle.STOP[0]


class PickleMachine:
    """Reads pickles that stand one behind another in some bytes.

    Parameters
    ----------
    data : bytes
    vocabulary : Vocabulary
    """

    def __init__(self, data: bytes, vocabulary: Vocabulary) -> None:
        self._state = PickleState(data, vocabulary)
        vocabulary.begin(len(data))

    @property
    def position(self) -> int:
        """Where the next pickle begins."""
        return self._state.position

    def load(self) -> Any:
        """Read the next pickle.

        Returns
        -------
        object

        Raises
        ------
        DamagedCheckpoint
            The bytes are no pickle, or not a whole one.
        HostileCheckpoint
            They ask for what no pickler writes.
        """
        state = self._state
        state.stack.clear()
        state.marks.clear()
        try:
            return self._run()
        except (CheckpointError, MemoryError, OSError):
            raise
        except RecursionError as error:
            raise HostileCheckpoint("objects in the pickle are nested too deeply") from error
        except Exception as error:
            if state.position >= state.size:
                raise DamagedCheckpoint(
                    f"the pickle ends in the middle, after {state.size} bytes"
                ) from error
            raise DamagedCheckpoint(
                f"this is no pickle, or a damaged one: at byte {state.position}, "
                f"{type(error).__name__}: {shortened(str(error), 200)}"
            ) from error

    def _run(self) -> Any:
        # One loop, with the opcodes that training logs are made of written out
        # in the order of their number there; the others are functions.
        state = self._state
        data, size = state.data, state.size
        vocabulary = state.vocabulary
        stack = state.stack
        marks = state.marks
        memo = state.memo
        push, pop = stack.append, stack.pop
        replaced = vocabulary.replaced
        rare = OPCODES
        at = state.position
        try:
            while at < size:
                code = data[at]
                at += 1
                if code == _BINGET:
                    push(memo[data[at]])
                    at += 1
                elif code == _BINFLOAT:
                    push(_DOUBLE.unpack_from(data, at)[0])
                    at += 8
                elif code == _MEMOIZE:
                    if isinstance(stack[-1], replaced):
                        state.memoize(len(memo))
                    else:
                        memo[len(memo)] = stack[-1]
                elif code == _BININT1:
                    push(data[at])
                    at += 1
                elif code == _MARK:
                    marks.append(len(stack))
                elif code == _SETITEMS:
                    mark = marks.pop()
                    items = stack[mark:]
                    del stack[mark:]
                    state.set_items(stack[-1], items)
                elif code == _EMPTY_DICT:
                    push({})
                elif code == _BININT:
                    push(_INT.unpack_from(data, at)[0])
                    at += 4
                elif code == _BININT2:
                    push(_SHORT.unpack_from(data, at)[0])
                    at += 2
                elif code == _SHORT_BINUNICODE:
                    end = at + 1 + data[at]
                    push(str(data[at + 1 : end], "utf-8", "surrogatepass"))
                    at = end
                elif code == _TUPLE2:
                    stack[-2:] = [(stack[-2], stack[-1])]
                elif code == _REDUCE:
                    args = pop()
                    if type(args) is not tuple:
                        raise TypeError("the arguments of a call are no tuple")
                    stack[-1] = vocabulary.call(stack[-1], args)
                elif code == _SHORT_BINBYTES:
                    end = at + 1 + data[at]
                    push(data[at + 1 : end])
                    at = end
                elif code == _LONG_BINGET:
                    push(memo[_UINT.unpack_from(data, at)[0]])
                    at += 4
                elif code == _SETITEM:
                    value = pop()
                    state.set_items(stack[-2], [pop(), value])
                elif code in _PUTS:
                    # Rows that were final when the log was saved; see log_cache.
                    if code == _BINPUT:
                        place = data[at]
                        at += 1
                    else:
                        place = _UINT.unpack_from(data, at)[0]
                        at += 4
                    if isinstance(stack[-1], replaced):
                        state.memoize(place)
                    else:
                        memo[place] = stack[-1]
                elif code == _STOP:
                    return pop()
                else:
                    state.position = at
                    rare[code](state)
                    at = state.position
        finally:
            state.position = at
        raise ValueError("the pickle does not say where it ends")
