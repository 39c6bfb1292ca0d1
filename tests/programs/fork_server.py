"""Trains in a process of its own for each line of input, and kills it as the line says.

Importing an engine takes longer than a run, so one process imports everything
and forks another for each run. A line is a JSON object: the ``path`` to save
to, and what to do at which moment. A line of output says how the run ended.

A run goes on from the file, if it is there, and saves after every batch.
"""

import json
import os
import signal
import sys
import time

import drifting

from blocks_checkpoint import Checkpoint, commit, continue_training, partial_file


def train(order):
    """Train until something ends it."""
    arm(order)
    path = order["path"]
    if os.path.exists(path):
        continue_training(path)
    else:
        saving = Checkpoint(path, every_n_batches=1)
        drifting.make_main_loop(saving, epochs=order["epochs"]).run()


def arm(order):
    """See to it that the process dies when it is to die."""
    saves = writes = 0

    def on_step(step):
        nonlocal saves, writes
        if step == "resolve":
            saves += 1
            writes = 0
        if saves == order.get("save") and step == order.get("step"):
            die()

    # Whoever imported the function has this default.
    commit.replacing.__wrapped__.__kwdefaults__["on_step"] = on_step
    write = partial_file.PartialFile.write

    def write_a_part(self, data):
        nonlocal writes
        writes += 1
        if saves == order.get("save") and writes == order.get("write"):
            view = memoryview(data).cast("B")
            write(self, view[: len(view) // 2])
            die()
        return write(self, data)

    partial_file.PartialFile.write = write_a_part


def die():
    """End as an out-of-memory killer ends a process."""
    os.kill(os.getpid(), signal.SIGKILL)


def run(order):
    """Fork a process that trains; return how it ended."""
    process = os.fork()
    if not process:
        status = 1
        try:
            sys.stdin.close()
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            train(order)
            status = 0
        finally:
            os._exit(status)
    if "seconds" in order:
        time.sleep(order["seconds"])
        os.kill(process, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def main():
    """Do what each line says."""
    for line in sys.stdin:
        print(run(json.loads(line)), flush=True)


if __name__ == "__main__":
    main()
