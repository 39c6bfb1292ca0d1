"""Extensions get back what they said their state was, where it is clear whose it is."""

import numpy
import pytest
from drifting import At, assert_same_values, interrupt, make_main_loop, values_of

from blocks_checkpoint import Checkpoint, LoadError, Resume, open_checkpoint
from blocks_checkpoint.miniblocks.extensions import CompositeExtension, SimpleExtension
from blocks_checkpoint.pickling.extension_states import (
    named_extensions,
    put_states,
    states_of,
    without_doubtful,
)


class Counting(SimpleExtension):
    """Counts batches, and draws."""

    def __init__(self, seed=0, **kwargs):
        super().__init__(after_batch=True, **kwargs)
        self.count = 0
        self.drawn = []
        self.generator = numpy.random.RandomState(seed)

    def do(self, which_callback, *args):
        self.count += 1
        self.drawn.append(self.generator.randint(100))

    def state_dict(self):
        return {"count": self.count, "drawn": (tuple(self.drawn), numpy.float32(self.count))}

    def load_state_dict(self, state):
        self.count = state["count"]
        drawn, number = state["drawn"]
        assert type(drawn) is tuple
        assert type(number) is numpy.float32
        self.drawn = list(drawn)


class Failing(Counting):
    """Cannot say what its state is."""

    def state_dict(self):
        raise ZeroDivisionError


class Refusing(Counting):
    """Does not take its state."""

    def load_state_dict(self, state):
        raise KeyError("count")


def counting(main_loop):
    return [each for each in main_loop.extensions if isinstance(each, Counting)]


def whole(path):
    return Resume(path, load_log=True, load_iteration_state=True)


def test_names_are_made_of_name_and_class_and_numbered_where_several_have_one():
    extensions = [Counting(), Counting(name="a"), Counting(), Counting(name="a")]
    assert [name for name, _ in named_extensions(extensions)] == [
        "extension Counting",
        "extension a (Counting)",
        "extension Counting 2",
        "extension a (Counting) 2",
    ]


@pytest.mark.parametrize(
    ("present", "stored", "clear"),
    [
        pytest.param(["A"], ["A"], ["A"], id="one"),
        pytest.param(["A", "A 2"], ["A", "A 2"], ["A", "A 2"], id="two"),
        pytest.param(["A", "A 2"], ["A"], [], id="one-more"),
        pytest.param(["A"], ["A", "A 2"], [], id="one-less"),
        pytest.param(["A", "A 2", "B"], ["A", "B"], ["B"], id="each-by-itself"),
        pytest.param(["A", "A 2"], [], ["A", "A 2"], id="new"),
        pytest.param([], ["A"], ["A"], id="gone"),
        pytest.param(["x 2 (A)"], ["x 1 (A)"], ["x 1 (A)", "x 2 (A)"], id="number-in-a-name"),
    ],
)
def test_name_is_clear_where_as_many_have_it(present, stored, clear):
    assert sorted(without_doubtful(present, stored)) == clear


def test_state_comes_back_as_it_was(path):
    straight = make_main_loop(Counting(1), Counting(2, name="second"))
    straight.run()
    make_main_loop(
        Counting(1), Counting(2, name="second"), Checkpoint(path), At(interrupt, after_n_batches=6)
    ).run()
    # In another order, and with one more of another name.
    resumed = make_main_loop(
        Counting(2, name="second"), Counting(3, name="third"), Counting(1), first=[whole(path)]
    )
    resumed.run()
    expected = {each.name: each.drawn for each in counting(straight)}
    found = {each.name: each.drawn for each in counting(resumed)}
    assert {name: found[name] for name in expected} == expected


def test_those_that_cannot_be_told_apart_begin_anew_and_that_is_said(path, caplog):
    make_main_loop(Counting(1), Checkpoint(path), At(interrupt, after_n_batches=6)).run()
    resumed = make_main_loop(Counting(2), Counting(1), first=[whole(path)])
    resumed.run()
    assert "1 of the extension Counting are in the file, and 2 here" in caplog.text
    assert "name='...'" in caplog.text
    assert [each.count for each in counting(resumed)] == [6, 6]
    fresh = numpy.random.RandomState(1).randint(100, size=6).tolist()
    assert counting(resumed)[1].drawn == fresh


def test_state_that_cannot_be_had_costs_no_save(path, caplog):
    make_main_loop(Failing(), Counting(), Checkpoint(path), epochs=1).run()
    assert "state_dict() of the extension Failing is no help" in caplog.text
    with open_checkpoint(path) as saved:
        assert list(saved.states("extensions")) == ["extension Counting"]


def test_extension_that_does_not_take_its_state_is_named():
    stored = states_of([Counting()])
    stored = {"extension Refusing": stored["extension Counting"]}
    with pytest.raises(LoadError, match="the extension Refusing does not take"):
        put_states([Refusing()], stored)


class Moody(Counting):
    """Does not take its state in every process."""

    is_refusing = False

    def load_state_dict(self, state):
        if Moody.is_refusing:
            raise KeyError("count")
        super().load_state_dict(state)


@pytest.fixture
def refused(path, monkeypatch):
    """A file that has a state of an extension that does not take it."""
    make_main_loop(Moody(), Checkpoint(path), epochs=1).run()
    monkeypatch.setattr(Moody, "is_refusing", True)
    return path


def test_refused_state_is_told_before_anything_else_is_changed(refused):
    resumed = make_main_loop(Moody(), first=[whole(refused)])
    before = values_of(resumed)
    with pytest.raises(LoadError, match="the extension Moody does not take"):
        resumed.run()
    for name, value in values_of(resumed).items():
        assert value.tobytes() == before[name].tobytes(), name
    assert resumed.status["iterations_done"] == 0


def test_refused_state_costs_nothing_else_where_all_is_wanted_that_can_be_had(refused, caplog):
    resume = Resume(refused, mode="auto")
    resumed = make_main_loop(Moody(), first=[resume])
    resumed.run()
    assert resume.tier == "everything"
    assert "the extension Moody does not take" in caplog.text
    straight = make_main_loop(Moody())
    straight.run()
    assert_same_values(resumed, straight)


def test_large_state_makes_no_manifest_too_large_to_read(path):
    extension = Counting()
    extension.drawn = list(range(3_000_000))
    make_main_loop(CompositeExtension([extension]), Checkpoint(path), epochs=1).run()
    with open_checkpoint(path) as saved:
        assert saved.verify() == []
        ((drawn, _),) = [each["drawn"]["=tuple"] for each in saved.states("extensions").values()]
        assert len(drawn["=tuple"]) > 3_000_000


def test_damaged_states_are_named(path):
    from blocks_checkpoint import DamagedCheckpoint

    make_main_loop(Counting(), Checkpoint(path), epochs=1).run()
    with open_checkpoint(path) as saved:
        read = saved.archive.read
        saved.archive.read = lambda name: b"[1" if name == "extension_states" else read(name)
        with pytest.raises(DamagedCheckpoint) as caught:
            saved.states("extensions")
    assert caught.value.member == "extension_states"
