"""Where in a graph hangs what cannot be pickled, and what to do about it."""

import collections
import enum
import functools
import io
import itertools
import pickle
import queue
import socket
import sqlite3
import sys
import threading
import types
import weakref

import numpy
import pytest
from drifting import At, make_main_loop, make_stream

from blocks_checkpoint import Checkpoint, UnpicklableError, dump, open_checkpoint
from blocks_checkpoint.diagnosis import Walker, find_globals, find_offenders
from blocks_checkpoint.miniblocks.transformers import Mapping


class Node:
    """Anything with attributes."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Color(enum.Enum):
    RED = 1


class Number(enum.IntEnum):
    ONE = 1


class Slotted:
    __slots__ = ("__dict__", "held")


class Refuses:
    def __reduce__(self):
        raise TypeError("refuses to be pickled")


class AsksItself:
    def __getstate__(self):
        return self.__getstate__()


class Endless:
    def __getstate__(self):
        return {"more": Endless()}


def top_level():
    """A function that pickles by name."""


def offenders_of(thing, **options):
    return find_offenders([("root", thing)], Walker(**options)).offenders


def generate():
    yield 1


def make_local():
    def local():
        pass

    class Local:
        def method(self):
            pass

    return local, Local


def make_file(tmp_path):
    file = open(tmp_path / "open.txt", "w")
    return file, file.close


def make_h5py(tmp_path):
    h5py = pytest.importorskip("h5py")
    file = h5py.File(tmp_path / "data.hdf5", "w")
    return file, file.close


def make_connection(tmp_path):
    connection = sqlite3.connect(tmp_path / "log.sqlite")
    return connection, connection.close


def make_cursor(tmp_path):
    connection = sqlite3.connect(":memory:")
    return connection.cursor(), connection.close


def make_socket(tmp_path):
    made = socket.socket()
    return made, made.close


def plainly(thing):
    return lambda tmp_path: (thing(), lambda: None)


KINDS = [
    pytest.param(plainly(lambda: lambda: 1), "function", "top level of a module", id="lambda"),
    pytest.param(plainly(lambda: make_local()[0]), "function", "top level", id="local-function"),
    pytest.param(plainly(lambda: make_local()[1]), "type", "top level", id="local-class"),
    pytest.param(plainly(lambda: make_local()[1]()), "Local", "top level", id="of-local-class"),
    pytest.param(plainly(generate), "generator", "class with __next__", id="generator"),
    pytest.param(plainly(threading.Lock), "lock", "Leave it out", id="lock"),
    pytest.param(plainly(threading.RLock), "RLock", "Leave it out", id="reentrant-lock"),
    pytest.param(plainly(lambda: itertools), "module", "Import the module", id="module"),
    pytest.param(plainly(lambda: weakref.ref(Node)), "weakref", "Leave it out", id="weakref"),
    pytest.param(plainly(lambda: weakref.proxy(Node())), "roxy", "Leave it out", id="dead-proxy"),
    pytest.param(plainly(lambda: sys._getframe()), "frame", "traceback", id="frame"),
    pytest.param(plainly(Refuses), "Refuses", "Leave it out", id="refuses-itself"),
    pytest.param(plainly(AsksItself), "AsksItself", "AttributeError", id="asks-itself"),
    pytest.param(plainly(lambda: memoryview(b"x")), "memoryview", "Leave", id="memoryview"),
    pytest.param(plainly(lambda: {}.keys()), "dict_keys", "Leave it out", id="dict-keys"),
    pytest.param(make_file, "TextIOWrapper", "open it on first use", id="file"),
    pytest.param(make_h5py, "h5py", "open it on first use", id="h5py"),
    pytest.param(make_connection, "sqlite3.Connection", "open it on first use", id="connection"),
    pytest.param(make_cursor, "sqlite3.Cursor", "open it on first use", id="cursor"),
    pytest.param(make_socket, "socket", "Leave it out", id="socket"),
]


@pytest.mark.parametrize(("make", "type_name", "cure"), KINDS)
def test_offender_is_named_with_path_type_and_cure(tmp_path, make, type_name, cure):
    thing, close = make(tmp_path)
    try:
        with pytest.raises(Exception):  # noqa: B017, PT011 - whatever pickle says
            pickle.dumps(thing)
        deep = Node(a=[1, {"b": (2, Node(c=Node(thing=thing)))}])
        deep.itself = [deep]
        (offender,) = offenders_of(deep)
        assert offender.path == "root.a[1]['b'][1].c.thing"
        assert type_name in offender.type_name
        assert cure in offender.cure
        assert offender.reason
        assert str(offender).startswith(f"{offender.path} is a {offender.type_name}")
    finally:
        close()


def test_place_of_definition_is_file_and_line():
    local, cls = make_local()
    (function,) = offenders_of(local)
    assert function.defined == f"{__file__}, line {local.__code__.co_firstlineno}"
    for thing in (cls, cls()):
        (found,) = offenders_of(thing)
        assert f"{__file__}, line" in found.defined
        assert "make_local.<locals>.Local" in found.defined
    (generator,) = offenders_of(generate())
    assert generator.defined == f"{__file__}, line {generate.__code__.co_firstlineno}"


def test_file_is_named(tmp_path):
    with open(tmp_path / "named.txt", "w") as file:
        (found,) = offenders_of([file])
    assert found.defined == str(tmp_path / "named.txt")


def test_every_offender_is_listed_once_nearest_first():
    shared = threading.Lock()
    root = Node(
        far=[[[[lambda: 0]]]],
        near=generate(),
        again=[shared, {"k": shared}],
        dictionary={("a", 1): Refuses(), None: sys},
    )
    assert [each.path for each in offenders_of(root)] == [
        "root.near",
        "root.again[0]",
        "root.dictionary[<tuple>]",
        "root.dictionary[None]",
        "root.far[0][0][0][0]",
    ]


def test_each_instance_of_a_local_class_is_listed_and_what_is_in_it():
    _, cls = make_local()
    one, other = cls(), cls()
    one.inside = lambda: 0
    assert [each.path for each in offenders_of([one, other])] == [
        "root[0]",
        "root[1]",
        "root[0].inside",
    ]


@pytest.mark.parametrize(
    "thing",
    [
        Color.RED,
        Number.ONE,
        Color,
        len,
        [].append,
        numpy.float64(3),
        numpy.dtype([("a", "f4")]),
        numpy.random.RandomState(1),
        numpy.random.default_rng(1),
        numpy.arange(3),
        type(None),
        type(...),
        type(NotImplemented),
        NotImplemented,
        ...,
        top_level,
        functools.partial(top_level, 1),
        functools.partial(print, end=""),
        Node(method=Node().__init__),
        collections.OrderedDict(a=1),
        collections.defaultdict(list, a=[1]),
        collections.Counter("abc"),
        collections.deque([1]),
        types.SimpleNamespace(a=1),
        range(3),
        slice(1, 2),
        (i for i in ()).__class__,
        io.StringIO("text"),
        queue.Empty("x"),
        bytearray(b"x"),
        frozenset([1]),
        property,
        object(),
        3j,
    ],
    ids=lambda thing: f"{type(thing).__name__}-{str(thing)[:12]}",
)
def test_nothing_is_said_of_what_can_be_pickled(thing):
    try:
        pickle.dumps(thing, 5)
    except Exception:
        assert offenders_of(thing)
    else:
        assert offenders_of([thing, {"x": thing}]) == []


def test_slots_and_states_of_all_shapes_are_searched():
    slotted = Slotted()
    slotted.held, slotted.beside = generate(), threading.Lock()

    class Stated:
        def __init__(self, state):
            self.state = state

        def __getstate__(self):
            return self.state

    Stated.__qualname__ = "Stated"
    globals()["Stated"] = Stated
    try:
        root = [slotted, Stated([threading.Lock()]), Stated({1: sys, "a b": sys.modules})]
        assert [each.path for each in offenders_of(root)][:4] == [
            "root[0].beside",
            "root[0].held",
            "root[2].__dict__[1]",
            "root[1].__getstate__()[0]",
        ]
    finally:
        del globals()["Stated"]


def test_containers_that_are_subclasses_are_searched():
    class_ = collections.defaultdict(list)
    class_["k"].append(threading.Lock())
    root = [class_, collections.deque([sys]), functools.partial(top_level, key=generate())]
    assert {each.path for each in offenders_of(root)} == {
        "root[0]['k'][0]",
        "root[1][0]",
        "root[2].keywords['key']",
    }


def test_what_an_object_is_made_from_has_the_path_to_get_it_by(monkeypatch):
    pair = collections.namedtuple("Pair", ["left", "right"])
    pair.__module__ = __name__
    monkeypatch.setitem(globals(), "Pair", pair)
    root = [pair(1, threading.Lock()), ValueError("text", sys), SubTuple([0, generate()])]
    assert {each.path for each in offenders_of(root)} == {
        "root[0].right",
        "root[1].args[1]",
        "root[2][1]",
    }


class SubTuple(tuple):
    pass


def test_object_arrays_are_searched():
    array = numpy.array([None, threading.Lock()], dtype=object)
    assert [each.path for each in offenders_of([array])] == ["root[0][...]"]


def test_class_that_was_made_again_is_another_by_now(monkeypatch):
    thing = Node()
    monkeypatch.setattr(sys.modules[__name__], "Node", type("Node", (), {}))
    (found,) = offenders_of(thing)
    assert "another object by now" in found.reason


def test_search_ends_on_cycles_and_on_graphs_without_end():
    first, second = Node(), Node()
    first.other, second.other = second, first
    assert offenders_of(first) == []
    findings = find_offenders([("root", Endless())], Walker(seconds=0.2))
    assert not findings.is_complete


def test_search_is_not_recursive():
    chain = last = Node()
    for _ in range(100_000):
        last.next = Node()
        last = last.next
    last.lock = threading.Lock()
    (found,) = offenders_of(chain)
    assert found.path.count(".next") == 100_000
    while chain is not None:
        chain = chain.__dict__.pop("next", None)


def test_search_changes_nothing():
    iterator = iter([1, 2, 3])
    next(iterator)
    rng = numpy.random.RandomState(3)
    state = str(rng.get_state())
    root = Node(iterator=iterator, rng=rng, lock=threading.Lock())
    before = dict(vars(root))
    offenders_of(root)
    assert list(iterator) == [2, 3]
    assert str(rng.get_state()) == state
    assert vars(root) == before


def test_what_the_users_own_persistent_id_knows_is_no_offender():
    lock = threading.Lock()
    found = offenders_of([lock, sys], persistent_id=lambda thing: 1 if thing is lock else None)
    assert [each.path for each in found] == ["root[1]"]


def test_reducers_of_the_pickler_are_used():
    reducers = {types.ModuleType: lambda module: (str, (module.__name__,))}
    assert offenders_of([sys], reducers=reducers) == []


def test_names_are_found_where_they_hang():
    root = Node(
        color=[Color.RED], function={"f": top_level}, partial=functools.partial(print, top_level)
    )
    found = find_globals(
        [("root", root)], ["Color", "top_level", "absent"], lambda module: module == __name__
    )
    assert found == {"Color": "root.color[0]", "top_level": "root.function['f']"}


# In a save


def test_unpicklable_main_loop_gets_one_error_that_lists_every_offender(tmp_path):
    """In the data stream, in an extension, in the log, in the loop itself."""
    stream = Mapping(make_stream(), lambda data: data, add_sources=("more",))
    main_loop = make_main_loop(
        At(lambda main_loop: None, after_epoch=True),
        Checkpoint(tmp_path / "run.zip"),
        stream=stream,
        epochs=1,
    )
    main_loop.handles = Node(lock=threading.Lock(), module=sys)
    main_loop.log[0]["file"] = weakref.ref(main_loop)
    with pytest.raises(UnpicklableError) as caught:
        main_loop.run()
    paths = {each.path for each in caught.value.offenders}
    assert {
        "main_loop.data_stream.mapping",
        "main_loop.extensions[2].function",
        "main_loop.handles.lock",
        "main_loop.handles.module",
        "main_loop.log[0]['file']",
    } <= paths
    assert all(path in str(caught.value) for path in paths)
    assert isinstance(caught.value, pickle.PicklingError)
    # What is left is saved.
    with open_checkpoint(tmp_path / "run.zip") as saved:
        assert saved.manifest["pickles"] == {}
        assert len(saved.parameters) == 4
        assert len(saved.arrays) == 9


def test_a_thousand_offenders_are_counted_and_not_all_printed():
    with pytest.raises(UnpicklableError) as caught:
        dump([threading.Lock() for _ in range(1000)], io.BytesIO())
    assert len(caught.value.offenders) == 1000
    assert "and 980 more" in str(caught.value)
    assert len(str(caught.value)) < 10_000


def test_original_reason_comes_first():
    with pytest.raises(UnpicklableError, match=r"^object cannot be pickled: refuses to be pickled"):
        dump([Refuses()], io.BytesIO())


def test_graph_that_recurses_without_end_is_reported_with_its_class():
    with pytest.raises(UnpicklableError, match="AsksItself calls itself without end"):
        dump([AsksItself()], io.BytesIO())


@pytest.mark.skipif(sys.version_info < (3, 12), reason="itertools pickle without a warning")
@pytest.mark.skipif(sys.version_info >= (3, 14), reason="itertools no longer pickle")
def test_deprecated_pickling_of_itertools_is_diagnosed_where_warnings_are_errors():
    with pytest.raises(UnpicklableError, match=r"object\.stream is a itertools\.count"):
        dump(Node(stream=itertools.count()), io.BytesIO())
