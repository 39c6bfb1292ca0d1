"""Readers and writers, many at a time: each sees whole states, and one run's only."""

import contextlib
import io
import os
import signal
import subprocess
import sys
import threading
import time

import numpy
import pytest
from drifting import BATCHES_PER_EPOCH, assert_same_values, make_main_loop
from straight import EPOCHS, StraightRun

from blocks_checkpoint import (
    Checkpoint,
    load_log,
    load_main_loop,
    load_parameters,
    open_checkpoint,
)

HERE = os.path.dirname(os.path.abspath(__file__))
READS = 1000
THREADS = 8


class Runs:
    """Training in other processes."""

    def __init__(self):
        self.processes = []

    def start(self, path, seed=1, epochs=EPOCHS):
        """Start training; return when it has begun."""
        program = os.path.join(HERE, "programs", "train.py")
        command = [sys.executable, program, str(path), str(seed), str(epochs)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def wait_until_begun(self):
        for process in self.processes:
            assert process.stdout.readline() == "training\n"

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
            process.stdout.close()


@pytest.fixture
def runs():
    made = Runs()
    yield made
    made.close()


def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.01)


def batches_in(path, straight_runs):
    """Check that a file is of one moment of one of several runs; return of which batch."""
    with open_checkpoint(path) as checkpoint:
        assert checkpoint.verify() == []
        done = checkpoint.status["iterations_done"]
        log = checkpoint.log()
        parameters = {name: checkpoint.parameters[name] for name in checkpoint.parameters}
    assert sorted(log) == list(range(1, done + 1))
    states = [run.after(done) for run in straight_runs]
    (values,) = [values for values, seen in states if seen == log[done]["seen"]]
    assert parameters
    for name, array in parameters.items():
        by_parameter_name = f"/{name.rpartition('/')[0]}.{name.rpartition('/')[2]}"
        assert array.tobytes() == values[by_parameter_name]
    return done


def leftovers(folder, *names):
    return sorted(set(os.listdir(folder)) - set(names))


def test_a_thousand_reads_while_training_saves_are_each_of_one_batch(tmp_path, runs):
    path = tmp_path / "run.zip"
    training = runs.start(path)
    runs.wait_until_begun()
    wait_for(path)
    straight_run = StraightRun()
    seen = [batches_in(path, [straight_run]) for _ in range(READS)]
    assert training.poll() is None
    training.send_signal(signal.SIGTERM)
    assert training.wait() == 0
    assert seen == sorted(seen)
    assert len(set(seen)) > 10
    assert batches_in(path, [straight_run]) >= seen[-1]
    assert leftovers(tmp_path, "run.zip") == []


def test_reader_that_takes_its_time_has_one_state_all_the_while(tmp_path, runs):
    path = tmp_path / "run.zip"
    runs.start(path)
    runs.wait_until_begun()
    wait_for(path)
    straight_run = StraightRun()
    with open_checkpoint(path) as copied, open_checkpoint(path, mmap=True) as mapped:
        done = [each.status["iterations_done"] for each in (copied, mapped)]
        arrays = dict(mapped.arrays)
        before = {name: array.tobytes() for name, array in arrays.items()}
        while batches_in(path, [straight_run]) < done[1] + 10:
            time.sleep(0.01)
        assert copied.verify() == mapped.verify() == []
        assert max(copied.log()) == done[0]
        assert {name: array.tobytes() for name, array in arrays.items()} == before


@pytest.fixture
def saved(tmp_path):
    """Save a run with a large array; return it and its file."""
    path = tmp_path / "run.zip"
    main_loop = make_main_loop(Checkpoint(path), epochs=2)
    # Large enough to be read in parts, by several threads.
    main_loop.algorithm.large = numpy.random.RandomState(1).rand(1 << 20)
    main_loop.run()
    return main_loop, path


def in_threads(function):
    """Call a function in several threads at once, and return what it returned."""
    results, errors = [None] * THREADS, []
    together = threading.Barrier(THREADS)

    def call(number):
        try:
            together.wait()
            results[number] = function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    return results


def test_eight_threads_load_one_main_loop_each(saved):
    main_loop, path = saved
    for loaded in in_threads(lambda: load_main_loop(path)):
        assert_same_values(loaded, main_loop)
        assert loaded.algorithm.large.tobytes() == main_loop.algorithm.large.tobytes()
        assert len(loaded.log) == 2 * BATCHES_PER_EPOCH


def test_eight_threads_read_parameters_and_logs(saved):
    main_loop, path = saved
    expected = main_loop.model.get_parameter_values()

    def read():
        return load_parameters(path), load_log(path)

    for parameters, log in in_threads(read):
        assert parameters.keys() == expected.keys()
        assert all(parameters[name].tobytes() == expected[name].tobytes() for name in expected)
        assert log.status["iterations_done"] == 2 * BATCHES_PER_EPOCH


@pytest.mark.parametrize("kind", ["path", "mapped", "file", "in-memory"])
def test_eight_threads_share_one_open_checkpoint(saved, kind):
    main_loop, path = saved
    with contextlib.ExitStack() as stack:
        source = path
        if kind == "file":
            source = stack.enter_context(open(path, "rb"))
        elif kind == "in-memory":
            source = io.BytesIO(path.read_bytes())
        checkpoint = stack.enter_context(open_checkpoint(source, mmap=kind == "mapped"))

        def read():
            assert checkpoint.verify() == []
            loaded = checkpoint.main_loop()
            return {name: checkpoint.arrays[name].tobytes() for name in checkpoint.arrays}, loaded

        results = in_threads(read)
    for arrays, loaded in results:
        assert arrays == results[0][0]
        assert_same_values(loaded, main_loop)
    # What one of them does with its main loop is nothing to the others.
    one, other = results[0][1], results[1][1]
    one.algorithm.large[:] = 0
    assert other.algorithm.large.tobytes() == main_loop.algorithm.large.tobytes()


def test_runs_in_one_folder_leave_each_other_alone(tmp_path, runs):
    folder = tmp_path / "new" / "folder"
    names = ["run.zip", "run.zip.1", "other.zip"]
    # The folder is not there: whoever comes first makes it.
    for seed, name in enumerate(names):
        runs.start(folder / name, seed, epochs=20)
    runs.wait_until_begun()
    for process in runs.processes:
        assert process.wait() == 0
    for seed, name in enumerate(names):
        assert batches_in(folder / name, [StraightRun(seed)]) == 20 * BATCHES_PER_EPOCH
    assert leftovers(folder, *names) == []


def test_two_runs_that_save_to_one_path_never_make_a_mixture(tmp_path, runs):
    path = tmp_path / "folder" / "run.zip"
    seeds = (1, 2)
    for seed in seeds:
        runs.start(path, seed, epochs=25)
    runs.wait_until_begun()
    wait_for(path)
    straight_runs = [StraightRun(seed) for seed in seeds]
    reads = 0
    while any(process.poll() is None for process in runs.processes):
        batches_in(path, straight_runs)
        reads += 1
    assert [process.wait() for process in runs.processes] == [0, 0]
    assert reads > 10
    assert batches_in(path, straight_runs) == 25 * BATCHES_PER_EPOCH
    assert leftovers(path.parent, "run.zip") == []
