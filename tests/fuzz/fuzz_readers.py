"""Fuzz the readers, guided by coverage; see README.rst.

Arguments are a folder for findings, and those of libFuzzer: folders of inputs,
and options. A finding does not end the run: the first input for each place in
the code that fails is kept.
"""

from __future__ import annotations

import hashlib
import os
import resource
import sys
import traceback

import atheris

with atheris.instrument_imports(include=["blocks_checkpoint"]):
    import readers

#: A reader that takes so much memory for the inputs here is broken.
_MEMORY_BYTES = 4 << 30


class Keeper:
    """Keeps one input for each place where a reader fails.

    Parameters
    ----------
    folder : str
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.seen: set[str] = set()
        os.makedirs(folder, exist_ok=True)

    def run(self, data: bytes) -> None:
        """Give an input to its reader, and keep it if that fails."""
        try:
            readers.run(data)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            ours = [f for f in frames if "blocks_checkpoint" in f.filename] or frames
            place = (
                f"{type(error).__name__} {os.path.basename(ours[-1].filename)}:{ours[-1].lineno}"
            )
            if place in self.seen:
                return
            self.seen.add(place)
            name = os.path.join(self.folder, hashlib.sha1(place.encode()).hexdigest()[:12])
            with open(name, "wb") as file:
                file.write(data)
            with open(f"{name}.txt", "w") as file:
                file.write(f"{place}\n{traceback.format_exc()}")
            print(f"FINDING {place}: {name}", flush=True)


def main() -> None:
    """Run libFuzzer."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    here = os.path.dirname(os.path.abspath(__file__))
    options = [f"-dict={os.path.join(here, 'words.dict')}", "-timeout=30", "-rss_limit_mb=2048"]
    keeper = Keeper(sys.argv[1])
    atheris.Setup([sys.argv[0], *options, *sys.argv[2:]], keeper.run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
