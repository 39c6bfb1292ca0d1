"""The checkpoints that Blocks wrote, and others put together as Blocks did."""

import io
import os
import pickle
import tarfile
import zipfile
from pathlib import Path

import numpy as np

from blocks_checkpoint.miniblocks.log import TrainingLog

FILES = Path(__file__).resolve().parent.parent / "legacy"

#: File, kind, file of the true values.
KINDS = {
    "0.0.1": ("blocks-0.0.1-dump", "dump", "blocks-0.0.1-truth.npz"),
    "2015-06": ("blocks-2015-06.zip", "zip", "blocks-2015-06-truth.npz"),
    "0.1.1": ("blocks-0.1.1.zip", "zip", "blocks-0.1.1-truth.npz"),
    "0.2": ("blocks-0.2.zip", "zip", "blocks-0.2-truth.npz"),
    "2018-09": ("blocks-2018-09.tar", "tar", "blocks-2018-09-truth.npz"),
    "npz": ("blocks-0.0.1-dump/params.npz", "npz", "blocks-0.0.1-truth.npz"),
}


class MainLoop:
    """Stands in for the one of Blocks."""


class Stand:
    """Stands in for a brick, a container, a tag."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Role:
    """Stands in for a role."""


class SharedVariable:
    """Stands in for the one of Theano."""

    def __init__(self, name, value, **tag):
        self.name = name
        self.container = Stand(storage=[np.array(value) if isinstance(value, float) else value])
        self.tag = Stand(**tag)


def truth(version):
    with np.load(FILES / KINDS[version][2]) as npz:
        return {name.replace("|", "/"): npz[name] for name in npz.files}


def write_npz(path, names):
    np.savez(path, **{name: np.full(2, float(place)) for place, name in enumerate(names)})


def npy(value):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(value))
    return buffer.getvalue()


def write_zip(path, names, pickled):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for place, name in enumerate(names):
            archive.writestr(name, npy(np.full(2, float(place))))
        archive.writestr("pkl", pickled)


def write_tar(path, names, pickled=None, **others):
    parameters = io.BytesIO()
    write_npz(parameters, names)
    contents = {"_parameters": parameters.getvalue(), "_pkl": pickled, **others}
    with tarfile.open(path, "w") as archive:
        for name, content in contents.items():
            if content is not None:
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))


def pickled_main_loop(log, **others):
    loop = MainLoop()
    loop.__dict__.update(others, log=log)
    return as_of_blocks(loop)


def as_of_blocks(thing):
    """Pickle as if the classes were those of Blocks."""
    content = pickle.dumps(thing, 2)
    old = f"c{MainLoop.__module__}\nMainLoop\n".encode()
    return content.replace(old, b"cblocks.main_loop\nMainLoop\n").replace(
        b"cblocks_checkpoint.miniblocks.log\n", b"cblocks.log.log\n"
    )


class Canary:
    def __reduce__(self):
        return os.system, ("touch canary",)


def make_log():
    log = TrainingLog()
    log[2]["cost"] = np.float32(0.5)
    log.status["iterations_done"] = 2
    return log
