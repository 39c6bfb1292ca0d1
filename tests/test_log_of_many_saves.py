"""The log in the file is the one of the run, however many saves carried parts of it over."""

import random
import sys

import numpy
import pytest
from drifting import BATCHES_PER_EPOCH, NoteSeen, make_main_loop, seen_by

from blocks_checkpoint import Checkpoint, continue_training, load, load_log, open_checkpoint
from blocks_checkpoint.errors import MainModuleWarning
from blocks_checkpoint.miniblocks.extensions import FinishAfter, SimpleExtension
from blocks_checkpoint.pickling.row_pickler import are_supported

EPOCHS = 12


class EditorOfOldRows(SimpleExtension):
    """Does to the rows of long ago what extensions may do to them.

    Parameters
    ----------
    seed : int
    """

    def __init__(self, seed):
        super().__init__(after_batch=True)
        self.random = random.Random(seed)
        self.held = None
        self.notes = []

    def do(self, which_callback, *args):
        log = self.main_loop.log
        log.current_row["error"] = self.random.random()
        log.current_row["norms"] = numpy.arange(3.0)
        old = self.random.choice(list(log))
        edits = [
            lambda: log[old].update(late=self.random.random()),
            lambda: log[old].pop("error", None),
            lambda: setattr(self, "held", log[old]),
            lambda: log[old].update(shared=self.notes),
            lambda: self.notes.append(old),
            lambda: self.held.update(held=self.random.random()) if self.held is not None else None,
            lambda: log[old]["norms"].fill(7) if "norms" in log[old] else None,
            lambda: log.__delitem__(old) if old not in log.status["_epoch_ends"] else None,
            lambda: [row.setdefault("looked", True) for row in log.values()],
        ]
        for edit in self.random.sample(edits, 2):
            edit()


class Comparison(SimpleExtension):
    """Compares the log in the file with the running one, before anything else happens to it."""

    def __init__(self, path):
        super().__init__(before_batch=True)
        self.path = path
        self.count = 0

    def do(self, which_callback, *args):
        log = self.main_loop.log
        if log.status["iterations_done"]:
            with open_checkpoint(self.path) as checkpoint:
                assert described(checkpoint.log()) == described(log)
            self.count += 1


def run(*extensions, **options):
    """Train, and write nothing but numbers into the log: rows of lists are never final."""
    main_loop = make_main_loop(*extensions, **options)
    main_loop.extensions = [each for each in main_loop.extensions if type(each) is not NoteSeen]
    main_loop.run()
    return main_loop


def described(log):
    """Say what is in the rows of a log, without laying hands on them."""
    return [(time, comparable(row)) for time, row in dict.items(log)]


def comparable(value):
    if isinstance(value, dict):
        return [(key, comparable(each)) for key, each in value.items()]
    if isinstance(value, numpy.ndarray):
        return (str(value.dtype), value.tolist())
    return (type(value).__name__, value)


@pytest.mark.parametrize("seed", range(8))
def test_log_in_the_file_is_the_running_one_whatever_becomes_of_old_rows(tmp_path, seed):
    path = str(tmp_path / "run.zip")
    comparison = Comparison(path)
    checkpoint = Checkpoint(path, every_n_batches=1)
    main_loop = run(EditorOfOldRows(seed), checkpoint, first=[comparison], epochs=EPOCHS)
    assert comparison.count == EPOCHS * BATCHES_PER_EPOCH - 1
    # Where the log has what the main loop refers to, the two fit together.
    assert described(load(path).log) == described(main_loop.log)


@pytest.mark.skipif(not are_supported(), reason="references are not counted")
def test_saves_after_the_first_carry_rows_over(tmp_path):
    checkpoint = Checkpoint(str(tmp_path / "run.zip"), every_n_batches=1)
    main_loop = run(checkpoint, epochs=EPOCHS)
    rows = list(dict.keys(main_loop.log))
    # The rows of the batches just now alone can have changed.
    assert set(checkpoint._saves._log_cache.changeable(main_loop.log)) <= set(rows[-3:])


def test_row_that_an_extension_holds_is_one_object_after_any_number_of_saves(tmp_path):
    path = str(tmp_path / "run.zip")
    holder = Holder(after_n_batches=3)
    run(holder, Checkpoint(path, every_n_batches=1), epochs=EPOCHS)
    continued = load(path)
    (loaded,) = (each for each in continued.extensions if type(each) is Holder)
    assert loaded.row is dict.__getitem__(continued.log, 3)
    assert loaded.row["note"] == "held"


def test_log_of_a_run_that_goes_on_is_followed_anew(tmp_path):
    path = str(tmp_path / "run.zip")
    make_main_loop(Checkpoint(path, every_n_batches=1), epochs=2).run()
    continued = continue_training(path, extensions=[FinishAfter(after_n_epochs=4)])
    assert described(load_log(path)) == described(continued.log)
    assert len(seen_by(continued.log)) == 4 * BATCHES_PER_EPOCH


def test_functions_of_the_main_module_are_found_in_a_log_of_which_parts_are_carried_over(
    tmp_path, monkeypatch
):
    class Note:
        pass

    Note.__module__, Note.__qualname__ = "__main__", "Note"
    monkeypatch.setattr(sys.modules["__main__"], "Note", Note, raising=False)
    path = str(tmp_path / "run.zip")

    main_loop = make_main_loop(Checkpoint(path, every_n_batches=1), epochs=EPOCHS)
    # In a row of long ago by the time the file is looked into.
    main_loop.log.current_row["note"] = Note()
    with pytest.warns(MainModuleWarning, match="Note"):
        main_loop.run()
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.manifest["main_module"]["names"] == ["Note"]


class Holder(SimpleExtension):
    """Keeps a row."""

    row = None

    def do(self, which_callback, *args):
        self.row = self.main_loop.log.current_row
        self.row["note"] = "held"
