"""Pickles that would do harm, put together opcode by opcode."""

import os
import pickle
import struct

import numpy as np

LOG = b"cblocks.log.log\nTrainingLog\n"


def text(string):
    encoded = string.encode()
    return pickle.BINUNICODE + struct.pack("<I", len(encoded)) + encoded


def value(thing):
    """The opcodes that push a plain value."""
    return pickle.dumps(thing, 2)[2:-1]


def named(module, name):
    return pickle.GLOBAL + f"{module}\n{name}\n".encode()


def stack_named(module, name):
    return text(module) + text(name) + pickle.STACK_GLOBAL


def tupled(*parts):
    return pickle.MARK + b"".join(parts) + pickle.TUPLE


def called(function, *args):
    return function + tupled(*args) + pickle.REDUCE


def built(thing, state):
    return thing + state + pickle.BUILD


def mapping(key, content):
    return pickle.EMPTY_DICT + key + content + pickle.SETITEM


def whole(*parts):
    return pickle.PROTO + b"\x04" + b"".join(parts) + pickle.STOP


class Canary:
    """Leaves the file ``canary`` in the working directory when it is called."""

    command = "touch canary"
    code = "open('canary', 'w')"

    def __reduce__(self):
        return os.system, (self.command,)


class Misplaced:
    """A bit generator whose position is far from its table."""

    def __init__(self, name, where, position=1 << 40):
        self.name = name
        self.state = getattr(np.random, name)(3).state
        place = self.state if where in self.state else self.state["state"]
        place[where] = position

    def __reduce__(self):
        return make_bit_generator, (self.name,), self.state


make_bit_generator = np.random.PCG64(0).__reduce__()[0]

SYSTEM = text(Canary.command)
CODE = text(Canary.code)
DTYPE = called(named("numpy", "dtype"), text("O8"), value(False), value(True))
FLAGLESS_OBJECTS = built(DTYPE, tupled(*map(value, (3, "|", None, None, None, -1, -1, 0))))
FLOATS = built(
    called(named("numpy", "dtype"), text("f8"), value(False), value(True)),
    tupled(*map(value, (3, "<", None, None, None, -1, -1, 0))),
)
EMPTY_ARRAY = called(
    named("numpy.core.multiarray", "_reconstruct"),
    named("numpy", "ndarray"),
    value((0,)),
    pickle.BINBYTES + b"\x01\0\0\0b",
)


#: A place in the memo that no opcode of ``value`` overwrites.
PLACE = struct.pack("<I", 1 << 20)
KEEP = pickle.LONG_BINPUT + PLACE
AGAIN = pickle.LONG_BINGET + PLACE


def raw(content):
    return pickle.BINBYTES + struct.pack("<I", len(content)) + content


#: Names that run something, and the ways a pickle has to name and to call.
ATTACKS = {
    "os-system": whole(called(named("os", "system"), SYSTEM)),
    "posix-system": whole(called(named("posix", "system"), SYSTEM)),
    "subprocess": whole(called(named("subprocess", "check_call"), value(["touch", "canary"]))),
    "eval": whole(called(named("builtins", "eval"), CODE)),
    "exec": whole(called(named("builtins", "exec"), CODE)),
    "exec-of-python-2": whole(called(named("__builtin__", "eval"), CODE)),
    "import": whole(called(named("builtins", "__import__"), text("antigravity"))),
    "getattr": whole(
        called(
            called(named("builtins", "getattr"), named("collections", "deque"), text("__init__"))
        )
    ),
    "open": whole(called(named("builtins", "open"), text("canary"), text("w"))),
    "file-of-io": whole(called(named("io", "open"), text("canary"), text("w"))),
    "through-inst": whole(pickle.MARK + SYSTEM + pickle.INST + b"os\nsystem\n"),
    "through-obj": whole(pickle.MARK + named("os", "system") + SYSTEM + pickle.OBJ),
    "through-newobj": whole(named("subprocess", "Popen") + tupled(SYSTEM) + pickle.NEWOBJ),
    "through-newobj-ex": whole(
        named("subprocess", "Popen") + tupled(SYSTEM) + pickle.EMPTY_DICT + pickle.NEWOBJ_EX
    ),
    "through-stack-global": whole(called(stack_named("os", "system"), SYSTEM)),
    "dotted-name": whole(called(stack_named("uuid", "os.system"), SYSTEM)),
    "dotted-name-in-numpy": whole(called(stack_named("numpy", "os.system"), SYSTEM)),
    "dotted-name-in-the-log": whole(
        called(stack_named("blocks_checkpoint.miniblocks.log", "TrainingLog.__reduce__"), SYSTEM)
    ),
    "globals-of-a-method": whole(
        stack_named("blocks_checkpoint.miniblocks.log", "TrainingLog.resume.__globals__")
    ),
    "numpy-runstring": whole(called(named("numpy.testing", "runstring"), CODE, value({}))),
    "numpy-private-runstring": whole(
        called(named("numpy.testing._private.utils", "runstring"), CODE, value({}))
    ),
    "numpy-f2py": whole(called(named("numpy.f2py.capi_maps", "getinit"), CODE, value({}))),
    "numpy-crackfortran": whole(called(named("numpy.f2py.crackfortran", "myeval"), CODE)),
    "numpy-load": whole(called(named("numpy", "load"), text("canary"))),
    "numpy-fromfile": whole(called(named("numpy", "fromfile"), text("canary"))),
    "numpy-distutils": whole(called(named("numpy.distutils.exec_command", "exec_command"), SYSTEM)),
    "attrgetter": whole(
        called(called(named("operator", "attrgetter"), text("system")), named("os", "path"))
    ),
    "methodcaller": whole(
        called(called(named("operator", "methodcaller"), text("system"), SYSTEM), text(""))
    ),
    "partial": whole(called(called(named("functools", "partial"), named("os", "system")), SYSTEM)),
    "reduce-ex": whole(called(stack_named("builtins", "object.__reduce_ex__"), value(2))),
    "reconstructor-of-a-class": whole(
        called(
            named("copyreg", "_reconstructor"),
            named("subprocess", "Popen"),
            named("builtins", "object"),
            pickle.NONE,
        )
    ),
    "reconstructor-of-a-function": whole(
        called(named("copyreg", "_reconstructor"), named("os", "system"), SYSTEM, pickle.NONE)
    ),
    "reconstructor-of-python-2": whole(
        called(named("copy_reg", "_reconstructor"), named("os", "system"), SYSTEM, pickle.NONE)
    ),
    "defaultdict-with-a-factory": whole(
        called(named("collections", "defaultdict"), named("os", "getcwd"))
    ),
    "defaultdict-with-a-maker": whole(
        called(named("collections", "defaultdict"), named("_codecs", "encode"))
    ),
    "defaultdict-with-text": whole(called(named("collections", "defaultdict"), text("x"))),
    "map": whole(called(named("builtins", "map"), named("os", "system"), tupled(SYSTEM))),
    "type": whole(called(named("builtins", "type"), text("X"), value(()), value({}))),
    "codecs": whole(called(named("_codecs", "encode"), text("x"), text("zlib"))),
    "linecache": whole(called(named("linecache", "getline"), text("canary"))),
    "unpickler-again": whole(called(named("pickle", "loads"), raw(pickle.dumps(Canary())))),
    "joblib": whole(called(named("joblib", "load"), text("canary"))),
    "code-object": whole(called(named("types", "CodeType"))),
    "function": whole(called(named("types", "FunctionType"))),
    "a-module": whole(named("os", "path")),
    "ourselves": whole(called(named("blocks_checkpoint.engines", "current"))),
    "our-unpickler": whole(
        called(
            named("blocks_checkpoint.safe_unpickling.log_unpickler", "load_log_pickle"), raw(b"")
        )
    ),
    "persistent-id": whole(SYSTEM + pickle.BINPERSID),
    "persistent-id-of-protocol-0": whole(pickle.PERSID + b"touch canary\n"),
    "extension-code-1": whole(pickle.EXT1 + b"\x01"),
    "extension-code-2": whole(pickle.EXT2 + b"\x01\x00"),
    "extension-code-4": whole(pickle.EXT4 + b"\x01\0\0\0"),
    "out-of-band-buffer": whole(pickle.NEXT_BUFFER),
    # Attributes set where they change what others do.
    "attribute-of-the-log-class": whole(
        built(LOG, tupled(pickle.NONE, value({"resume": 1}))),
    ),
    "attributes-of-the-log-class": whole(built(LOG, value({"current_row": 1}))),
    "attribute-of-a-class": whole(
        built(named("uuid", "UUID"), tupled(pickle.NONE, value({"hex": 1})))
    ),
    "attribute-of-a-function": whole(
        built(
            named("numpy.core.multiarray", "_reconstruct"),
            tupled(pickle.NONE, value({"__defaults__": (1,)})),
        )
    ),
    "method-of-a-log": whole(built(called(LOG), value({"resume": 1}))),
    "class-of-a-log": whole(built(called(LOG), value({"__class__": 1}))),
    "items-of-a-class": whole(LOG, value(1), value(2), pickle.SETITEM),
    "append-to-a-class": whole(named("builtins", "list"), value(1), pickle.APPEND),
    "add-to-a-class": whole(named("builtins", "set"), pickle.MARK, value(1), pickle.ADDITEMS),
    "log-with-arguments": whole(called(LOG, text("x"))),
    "log-row-that-is-no-number": whole(called(LOG), text("x"), value({}), pickle.SETITEM),
    "log-row-before-the-first": whole(called(LOG), value(-1), value({}), pickle.SETITEM),
    # NumPy's own unpickling writes where the state says.
    "object-dtype": whole(DTYPE),
    "object-dtype-that-denies-it": whole(FLAGLESS_OBJECTS),
    "dtype-of-a-class": whole(called(named("numpy", "dtype"), named("os", "system"))),
    "dtype-of-text-with-commas": whole(called(named("numpy", "dtype"), text("f8,O"))),
    "subarray-of-nothing": whole(
        built(FLOATS, tupled(*map(value, (3, "|", (None, (2,)), None, None, 16, 8, 0))))
    ),
    "object-fields": whole(
        built(
            FLOATS,
            tupled(
                *map(value, (3, "|", None, ("a",))),
                pickle.EMPTY_DICT + text("a") + tupled(DTYPE, value(0)) + pickle.SETITEM,
                *map(value, (8, 1, 0)),
            ),
        )
    ),
    "array-of-addresses": whole(
        built(
            EMPTY_ARRAY,
            tupled(value(1), value((1,)), FLAGLESS_OBJECTS, value(False), raw(b"A" * 8)),
        )
    ),
    "array-of-a-class": whole(
        called(
            named("numpy.core.multiarray", "_reconstruct"),
            named("subprocess", "Popen"),
            value((0,)),
            raw(b"b"),
        )
    ),
    "array-larger-than-its-bytes": whole(
        built(
            EMPTY_ARRAY,
            tupled(value(1), value((1 << 40,)), FLOATS, value(False), raw(b"A" * 8)),
        )
    ),
    "array-of-negative-length": whole(
        built(EMPTY_ARRAY, tupled(value(1), value((-1, -1)), FLOATS, value(False), raw(b"A" * 8)))
    ),
    "array-of-overflowing-shape": whole(
        built(
            EMPTY_ARRAY,
            tupled(value(1), value((1 << 62, 4)), FLOATS, value(False), raw(b"")),
        )
    ),
    "scalar-of-too-few-bytes": whole(
        called(named("numpy.core.multiarray", "scalar"), FLOATS, raw(b"1"))
    ),
    "scalar-of-objects": whole(
        called(named("numpy._core.multiarray", "scalar"), FLAGLESS_OBJECTS, raw(b"A" * 8))
    ),
    "buffer-of-a-class": whole(
        called(
            named("numpy._core.numeric", "_frombuffer"),
            named("os", "path"),
            FLOATS,
            value((1,)),
            text("C"),
        )
    ),
    "bit-generator-of-a-class": whole(
        built(
            called(named("numpy.random._pickle", "__bit_generator_ctor"), named("os", "system")),
            value({}),
        )
    ),
    "generator-with-a-constructor": whole(
        built(
            called(
                named("numpy.random._pickle", "__generator_ctor"), SYSTEM, named("os", "system")
            ),
            value({}),
        )
    ),
    "philox-that-reads-behind-its-table": pickle.dumps(Misplaced("Philox", "buffer_pos"), 4),
    "twister-that-reads-behind-its-table": pickle.dumps(Misplaced("MT19937", "pos"), 4),
    "twister-that-reads-before-its-table": pickle.dumps(Misplaced("MT19937", "pos", -1), 4),
}


def nested_tuples(depth, width):
    """A tuple of tuples that hold the same one ``width`` times, ``depth`` deep."""
    grow = pickle.TUPLE1 if width == 1 else KEEP + AGAIN + pickle.TUPLE2
    return pickle.EMPTY_TUPLE + grow * depth


def as_key(key):
    return whole(pickle.EMPTY_DICT, key, pickle.NONE, pickle.SETITEM)


def repeated(first, work, times):
    """Make something long once, and ask for work on it many times."""
    return whole(
        first,
        KEEP,
        pickle.POP,
        pickle.EMPTY_LIST,
        (work + pickle.APPEND) * times,
    )


#: Pickles that cost time or memory out of proportion.
BOMBS = {
    "bytes-that-are-not-there": whole(pickle.BINBYTES8 + struct.pack("<Q", 1 << 40)),
    "bytearray-that-is-not-there": whole(pickle.BYTEARRAY8 + struct.pack("<Q", 1 << 40)),
    "text-that-is-not-there": whole(pickle.BINUNICODE8 + struct.pack("<Q", (1 << 63) - 1)),
    "text-of-2-to-the-64": whole(pickle.BINUNICODE8 + b"\xff" * 8),
    "string-of-negative-length": whole(pickle.BINSTRING + struct.pack("<i", -5)),
    "integer-of-gigabytes": whole(pickle.LONG4 + struct.pack("<i", (1 << 31) - 1)),
    "integer-of-negative-length": whole(pickle.LONG4 + struct.pack("<i", -1)),
    "integer-of-100-kilobytes": whole(
        pickle.LONG4 + struct.pack("<i", 100_000) + b"\x01" * 100_000
    ),
    "integer-of-a-million-digits": whole(pickle.LONG + b"9" * 1_000_000 + b"L\n"),
    "float-of-a-million-digits": whole(pickle.FLOAT + b"9" * 1_000_000 + b"\n"),
    "bytearray-of-a-number": whole(called(named("builtins", "bytearray"), value(1 << 40))),
    "bytes-of-a-number": whole(called(named("builtins", "bytes"), value(1 << 40))),
    "fraction-of-an-exponent": whole(called(named("fractions", "Fraction"), text("1e999999999"))),
    "deep-key": as_key(nested_tuples(500_000, 1)),
    "key-of-exponential-size": as_key(nested_tuples(60, 2)),
    "deep-set-item": whole(
        pickle.EMPTY_SET, pickle.MARK, nested_tuples(500_000, 1), pickle.ADDITEMS
    ),
    "deep-frozenset": whole(pickle.MARK, nested_tuples(500_000, 1), pickle.FROZENSET),
    "colliding-integers": whole(
        pickle.EMPTY_DICT,
        b"".join(
            value(n * ((1 << 61) - 1)) + pickle.NONE + pickle.SETITEM for n in range(1, 30_000)
        ),
    ),
    "colliding-decimals": whole(
        pickle.EMPTY_DICT,
        b"".join(
            called(named("decimal", "Decimal"), text(f"1E{n}")) + pickle.NONE + pickle.SETITEM
            for n in range(20_000)
        ),
    ),
    "list-copied-again-and-again": repeated(
        pickle.EMPTY_LIST + pickle.MARK + pickle.NONE * 100_000 + pickle.APPENDS,
        called(named("collections", "deque"), AGAIN),
        1_000,
    ),
    "set-made-again-and-again": repeated(
        pickle.EMPTY_LIST + pickle.MARK + pickle.NONE * 100_000 + pickle.APPENDS,
        called(named("builtins", "set"), AGAIN),
        1_000,
    ),
    "bytes-copied-again-and-again": repeated(
        raw(b"x" * 1_000_000), called(named("builtins", "bytearray"), AGAIN), 10_000
    ),
    "array-copied-again-and-again": repeated(
        raw(b"x" * 800_000),
        called(
            named("numpy.core.numeric", "_frombuffer"), AGAIN, FLOATS, value((100_000,)), text("C")
        ),
        1_000,
    ),
    "array-of-nothings": whole(
        built(
            EMPTY_ARRAY,
            tupled(
                value(1),
                value((1 << 40,)),
                called(named("numpy", "dtype"), text("S0"), value(False), value(True)),
                value(False),
                raw(b""),
            ),
        )
    ),
    "deep-dtype": whole(
        FLOATS,
        (
            KEEP
            + pickle.POP
            + built(
                FLOATS,
                tupled(
                    *map(value, (3, "|", None, ("a",))),
                    pickle.EMPTY_DICT + text("a") + tupled(AGAIN, value(0)) + pickle.SETITEM,
                    *map(value, (8, 1, 0)),
                ),
            )
        )
        * 1_000,
    ),
    # Errors say what was wrong, and must not say all of it.
    "persistent-id-of-exponential-size": whole(nested_tuples(60, 2) + pickle.BINPERSID),
    "call-of-exponential-size": whole(called(nested_tuples(60, 2))),
    "instance-of-exponential-size": whole(
        nested_tuples(60, 2) + pickle.EMPTY_TUPLE + pickle.NEWOBJ
    ),
    "factory-of-exponential-size": whole(
        called(named("collections", "defaultdict"), nested_tuples(60, 2))
    ),
    "dtype-of-exponential-size": whole(called(named("numpy", "dtype"), nested_tuples(60, 2))),
    "generator-of-exponential-size": whole(
        built(
            called(named("numpy.random._pickle", "__bit_generator_ctor"), nested_tuples(60, 2)),
            value({}),
        )
    ),
    "byte-order-of-exponential-size": whole(
        built(FLOATS, tupled(value(3), nested_tuples(60, 2), *map(value, [None] * 3 + [8, 8, 0])))
    ),
    "field-name-of-exponential-size": whole(
        built(
            FLOATS,
            tupled(
                *map(value, (3, "|", None)),
                tupled(nested_tuples(60, 2)),
                *map(value, ({}, 8, 8, 0)),
            ),
        )
    ),
    "field-title-of-exponential-size": whole(
        built(
            FLOATS,
            tupled(
                *map(value, (3, "|", None, ("a",))),
                mapping(text("a"), tupled(FLOATS, value(0), nested_tuples(60, 2))),
                *map(value, (8, 8, 0)),
            ),
        )
    ),
    "shape-of-exponential-size": whole(
        built(EMPTY_ARRAY, tupled(value(1), nested_tuples(60, 2), FLOATS, value(False), raw(b"")))
    ),
    "number-of-an-array-of-exponential-size": whole(
        called(named("blocks_checkpoint.zip_pickler", "array_reference"), nested_tuples(60, 2))
    ),
    "attribute-of-exponential-size": whole(
        built(called(LOG), mapping(nested_tuples(8, 2), value(1)))
    ),
    "attributes-set-again-and-again": whole(
        pickle.EMPTY_DICT,
        pickle.MARK,
        b"".join(text(f"a{n}") + pickle.NONE for n in range(1_000)),
        pickle.SETITEMS,
        KEEP,
        pickle.POP,
        called(LOG),
        (AGAIN + pickle.BUILD) * 100_000,
    ),
    "seed-made-again-and-again": repeated(
        pickle.EMPTY_LIST + pickle.MARK + value(1) * 100_000 + pickle.APPENDS,
        built(
            called(
                named("numpy.random.bit_generator", "__pyx_unpickle_SeedSequence"),
                named("numpy.random.bit_generator", "SeedSequence"),
                value(65708578),
                pickle.NONE,
            ),
            tupled(AGAIN, *map(value, (0, None, 4, ()))),
        ),
        10_000,
    ),
    "long-name-again-and-again": repeated(
        text("x" * 1_000_000), AGAIN + AGAIN + pickle.STACK_GLOBAL, 100_000
    ),
    "text-made-bytes-again-and-again": repeated(
        text("x" * 1_000_000), called(named("datetime", "date"), AGAIN), 100_000
    ),
    "seed-sequence-with-a-large-pool": whole(
        built(
            called(
                named("numpy.random.bit_generator", "__pyx_unpickle_SeedSequence"),
                named("numpy.random.bit_generator", "SeedSequence"),
                value(65708578),
                pickle.NONE,
            ),
            value((1, 0, None, 1 << 40, ())),
        )
    ),
}

#: Large and deep, and not out of proportion: these may be read.
HEAVY = {
    "memo-index-of-gigabytes": whole(value(1), pickle.LONG_BINPUT + b"\xff\xff\xff\xff"),
    "memo-index-of-protocol-0": whole(value(1), pickle.PUT + b"99999999999999999999\n"),
    "deep-list": whole(pickle.EMPTY_LIST * 300_000, pickle.APPEND * 299_999),
    "deep-tuple": whole(nested_tuples(500_000, 1)),
    "tuple-of-exponential-size": whole(nested_tuples(60, 2)),
    "deep-dictionary": whole(
        pickle.EMPTY_DICT + (value(1) + pickle.EMPTY_DICT) * 200_000 + pickle.SETITEM * 200_000
    ),
    "many-marks": whole(pickle.MARK * 1_000_000, value(1)),
}
