"""Everything: one table, in Markdown and in JSON.

    python benchmarks/all.py [--turns N] [--full] [--folder DISK] [--output STEM]

Writes ``STEM.md`` and ``STEM.json``, ``benchmarks.md`` and ``benchmarks.json``
by default. Each part is measured in a process of its own. Takes some minutes,
and half an hour with ``--full``.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from measuring import add_turns

HERE = Path(__file__).parent
#: Title, script, and which of the options it understands.
PARTS = [
    ("Arrays in files", "saving.py", ("turns", "full", "folder")),
    ("Reading a part, and verifying", "reading.py", ("turns", "full", "folder")),
    ("What a save costs the training", "stalls.py", ("turns", "full", "folder")),
    ("Logs", "logs.py", ("turns", "full")),
    ("Pickling", "pickling.py", ("turns",)),
]
PEERS = (
    "numpy",
    "torch",
    "safetensors",
    "joblib",
    "h5py",
    "orbax-checkpoint",
    "blocks",
    "orjson",
    "zlib-ng",
    "isal",
)


def run(script: str, options: dict[str, Any]) -> list[dict[str, Any]]:
    """Run one of the scripts, and return its rows."""
    command = [sys.executable, str(HERE / script), "--json"]
    for name, value in options.items():
        if value is True:
            command.append(f"--{name}")
        elif value:
            command += [f"--{name}", str(value)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def machine() -> dict[str, Any]:
    """Say what it was measured on, and with what."""
    versions = {}
    for name in PEERS:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "versions": versions,
    }


def as_markdown(measured: dict[str, Any]) -> str:
    """Return the tables of all parts."""
    about = measured["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    lines = [
        f"Python {about['python']} on {about['system']}, {about['cores']} cores; {versions}.",
        "Times as multiples of the baseline's: the median, and what the middle half of the",
        "turns lies between.",
    ]
    for title, rows in measured["parts"].items():
        lines += [
            "",
            f"## {title}",
            "",
            "| work | baseline | × baseline | middle half | reach | baseline (s) |",
            "|---|---|---|---|---|---|",
            *map(_line, rows),
        ]
    return "\n".join(lines) + "\n"


def _line(row: dict[str, Any]) -> str:
    # A ratio of a thousandth is no zero.
    half = "" if row["low"] is None else f"{row['low']:.2g} to {row['high']:.2g}"
    reach = "" if row["reach"] is None else f"≤ {row['reach']:g}"
    taken = "" if row["baseline_seconds"] is None else f"{row['baseline_seconds']:.3g}"
    ratio = f"{row['ratio']:.2f}" if row["ratio"] >= 0.1 else f"{row['ratio']:.2g}"
    cells = [row["work"], row["baseline"], ratio, half, reach, taken]
    return f"| {' | '.join(cells)} |"


def main(argv: list[str] | None = None) -> None:
    """Measure everything and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_turns(parser)
    parser.add_argument("--full", action="store_true", help="sizes up to 10 GiB")
    parser.add_argument("--folder", help="on a disk; the working folder by default")
    parser.add_argument(
        "--output", default="benchmarks", help="where the tables go: OUTPUT.md and OUTPUT.json"
    )
    options = parser.parse_args(argv)
    if importlib.util.find_spec("blocks_checkpoint") is None:
        parser.error("blocks_checkpoint is not installed; pip install .")
    measured: dict[str, Any] = {"machine": machine(), "parts": {}}
    for title, script, understood in PARTS:
        print(f"measuring: {title}", file=sys.stderr)
        given = {name: getattr(options, name) for name in understood}
        measured["parts"][title] = run(script, given)
        # After each part, so that what was measured is not lost with the rest.
        Path(f"{options.output}.json").write_text(json.dumps(measured, indent=2))
        Path(f"{options.output}.md").write_text(as_markdown(measured))
    print(as_markdown(measured))


if __name__ == "__main__":
    main()
