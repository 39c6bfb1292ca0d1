"""Whether a checkpoint can be continued from, found out while the run is alive.

A fresh process loads the file completely, as ``continue_training`` would, and
does not run it. What comes of it is written beside the file, as
``NAME.proof.json``; the file itself stays as it is.

This module, run as a program, is that process.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from typing import Any

from .checkpoint_file import open_checkpoint
from .commit import replacing
from .errors import CheckpointError
from .retention.series import PROOF_SUFFIX

__all__ = ["Proof", "Prover", "proof_of", "prove"]

logger = logging.getLogger(__name__)

#: How much the process gives way to others; 19 is most.
NICENESS = 19


@dataclass(frozen=True)
class Proof:
    """What came of loading a checkpoint in a fresh process.

    Attributes
    ----------
    loads : bool
    reason : str
        Why it does not; empty if it does.
    seconds : float
        That it took.
    saved : dict
        What the manifest says of when and by whom the file was saved: a proof
        is of that file only.
    """

    loads: bool
    reason: str
    seconds: float
    saved: dict[str, Any]


def proof_path(path: str | os.PathLike[str]) -> str:
    """Return where the proof of a checkpoint is."""
    return f"{os.fspath(path)}{PROOF_SUFFIX}"


def proof_of(path: str | os.PathLike[str]) -> Proof | None:
    """Return the proof of a checkpoint; None if there is none of this very file."""
    proof = _written_proof(path)
    if proof is None:
        return None
    try:
        with open_checkpoint(path) as checkpoint:
            saved = checkpoint.manifest.get("saved")
    except (OSError, CheckpointError) as error:
        logger.debug("%s has no proof: %s", path, error)
        return None
    return proof if proof.saved == saved else None


def _written_proof(path: str | os.PathLike[str]) -> Proof | None:
    """Return what is written beside a checkpoint, be it of this file or the one before it."""
    try:
        with open(proof_path(path), encoding="utf-8") as file:
            return Proof(**json.load(file))
    except (OSError, ValueError, TypeError) as error:
        logger.debug("%s has no proof: %s", path, error)
        return None


def prove(path: str | os.PathLike[str], *, main: str | None = None) -> Proof:
    """Load a checkpoint completely in this process, and write down what came of it.

    Runs what the file says: only for files you trust.

    Parameters
    ----------
    path : str or os.PathLike
    main : str, optional
        The script that functions of ``__main__`` are taken from. It is imported
        if the main loop needs some.
    """
    start = time.perf_counter()
    saved: dict[str, Any] = {}
    reason = ""
    try:
        with open_checkpoint(path) as checkpoint:
            saved = checkpoint.manifest.get("saved", {})
            for damage in checkpoint.verify():
                raise CheckpointError(f"it is damaged: {damage.reason}", member=damage.member)
            needs = (checkpoint.manifest.get("main_module") or {}).get("names")
            checkpoint.main_loop(main=main if needs else None)
    except Exception as error:
        # Whatever it is, it would also keep training from going on.
        reason = f"{type(error).__name__}: {error}"
    proof = Proof(not reason, reason, time.perf_counter() - start, dict(saved))
    # One that was deleted meanwhile needs no proof, and leaves none behind.
    if os.path.exists(path):
        with replacing(proof_path(path)) as file:
            file.write(json.dumps(asdict(proof), indent=2).encode())
    return proof


class Prover:
    """Starts processes that prove checkpoints, one at a time, and hears of what they find.

    A checkpoint that was to be proven meanwhile is proven next; of several, the
    last. Nothing here waits but :meth:`wait` and :meth:`end`. It is part of no
    pickle.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._path = ""
        self._next: tuple[str | os.PathLike[str], str | None] | None = None
        # Files are finished on a thread, and reports are heard in training.
        self._lock = threading.RLock()

    def __reduce__(self) -> Any:
        return Prover, ()

    @property
    def is_busy(self) -> bool:
        """Whether a process is at work."""
        return self._process is not None and self._process.poll() is None

    def start(self, path: str | os.PathLike[str], *, main: str | None = None) -> bool:
        """Start proving a checkpoint.

        Parameters
        ----------
        path : str or os.PathLike
        main : str, optional
            The script that functions of ``__main__`` are taken from.

        Returns
        -------
        bool
            False if another proof is still going on.
        """
        with self._lock:
            if self.is_busy:
                self._next = path, main
                return False
            self._next = None
            self._hear()
            self._begin(path, main)
            return True

    def _begin(self, path: str | os.PathLike[str], main: str | None) -> None:
        self._path = os.path.abspath(os.fspath(path))
        command = [sys.executable, "-m", __name__, json.dumps([self._path, main])]
        # A signal from the keyboard is for the training, and not for this.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def report(self) -> Proof | None:
        """Log what a process that has ended has found, once, and begin what waits for it.

        Returns
        -------
        Proof or None
            None if there is nothing new.
        """
        with self._lock:
            proof = self._hear()
            if self._next is not None and not self.is_busy:
                waiting, self._next = self._next, None
                self._begin(*waiting)
            return proof

    def end(self) -> None:
        """Let the last checkpoint be proven, though nobody will hear of it here."""
        if self._next is not None:
            self.wait()

    def _hear(self) -> Proof | None:
        if self._process is None or self._process.poll() is None:
            return None
        code, self._process = self._process.returncode, None
        if code:
            logger.error("the process that was to prove %s failed (%s)", self._path, code)
            return None
        # The file may have been replaced since. What has kept the one before
        # it from loading is still worth a word.
        proof = _written_proof(self._path)
        if proof is None:
            logger.info("%s was deleted before it was proven", self._path)
        elif proof.loads:
            logger.info("%s loads, as was tried in a fresh process", self._path)
        else:
            logger.error("%s cannot be continued from: %s", self._path, proof.reason)
        return proof

    def wait(self) -> Proof | None:
        """Wait for the process that is at work; see :meth:`report`."""
        if self._process is not None:
            self._process.wait()
        return self.report()


def _main(arguments: str) -> None:
    path, main = json.loads(arguments)
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    if main is not None:
        # A script finds its neighbours.
        sys.path.insert(0, os.path.dirname(main))
    prove(path, main=main)


if __name__ == "__main__":
    # By its real name: errors and pickles refer to it.
    from blocks_checkpoint import proving

    proving._main(sys.argv[1])
