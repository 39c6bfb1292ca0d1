"""Trains in a process of its own for each line of input, and kills it as the line says.

Importing an engine takes longer than a run, so one process imports everything
and forks another for each run. A line is a JSON object: the ``path`` to save
to, and when the process is killed:

``{"save": 2, "step": "replace"}``  before that step of its second save
``{"save": 1, "bytes": 1000}``      when its first save has written so much
``{"seconds": 0.01}``               so long after it was started
``{"save": 2, "seconds": 0.001}``   so long after its second save began

A line of output is the exit code. A run goes on from the file, if it is there,
and saves after every batch.
"""

import json
import os
import signal
import sys
import time

import drifting

from blocks_checkpoint import Checkpoint, commit, continue_training, partial_file

#: Whatever goes wrong, no process stays.
LONGEST_RUN_SECONDS = 60


def train(order, announce):
    """Train until something ends it."""
    signal.alarm(LONGEST_RUN_SECONDS)
    arm(order, announce)
    path = order["path"]
    if os.path.exists(path):
        continue_training(path)
    else:
        saving = Checkpoint(path, every_n_batches=1)
        drifting.make_main_loop(saving, epochs=order["epochs"]).run()


def arm(order, announce):
    """See to it that the process dies when it is to die."""
    saves = written = 0

    def on_step(step):
        nonlocal saves, written
        if step == "resolve":
            saves += 1
            written = 0
        if saves == order.get("save"):
            announce()
            if step == order.get("step"):
                die()

    # Whoever imported the function has this default.
    commit.replacing.__wrapped__.__kwdefaults__["on_step"] = on_step
    write = partial_file.PartialFile.write

    def write_until(self, data):
        nonlocal written
        view = memoryview(data).cast("B")
        left = order.get("bytes", float("inf")) - written
        if saves == order.get("save") and left <= len(view):
            write(self, view[:left])
            die()
        written += len(view)
        return write(self, view)

    partial_file.PartialFile.write = write_until


def die():
    """End as an out-of-memory killer ends a process."""
    os.kill(os.getpid(), signal.SIGKILL)


def run(order):
    """Fork a process that trains; return how it ended."""
    begun, beginning = os.pipe()
    process = os.fork()
    if not process:
        status = 1
        try:
            sys.stdin.close()
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            train(order, announce=lambda: os.write(beginning, b"."))
            status = 0
        finally:
            os._exit(status)
    os.close(beginning)
    if "seconds" in order:
        if "save" in order:
            os.read(begun, 1)
        time.sleep(order["seconds"])
        os.kill(process, signal.SIGKILL)
    os.close(begun)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def main():
    """Do what each line says."""
    for line in sys.stdin:
        print(run(json.loads(line)), flush=True)


if __name__ == "__main__":
    main()
