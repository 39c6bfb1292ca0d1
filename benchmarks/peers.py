"""Other ways to put arrays into a file and get them back, where they are installed."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = dict[str, Any]


@dataclass(frozen=True)
class Peer:
    """A library that saves arrays by name.

    Attributes
    ----------
    name : str
    save : callable
        From a path and arrays. Leaves the file to the system to write.
    load : callable
        From a path to arrays in new memory.
    only_loads : bool
        It is a second way to load what another one saves.
    """

    name: str
    save: Callable[[str, Arrays], Any]
    load: Callable[[str], Any]
    only_loads: bool = False


def savers() -> dict[str, Callable[[str, Arrays], Any]]:
    """Return the ways of peers to save, by their names."""
    return {peer.name: peer.save for peer in peers() if not peer.only_loads}


def peers() -> list[Peer]:
    """List the libraries that can be imported."""
    makers = [
        _savez,
        _pickle,
        _torch,
        _torch_mapped,
        _safetensors,
        _joblib,
        _h5py,
        _orbax,
        _blocks,
    ]
    found = []
    for make in makers:
        try:
            found.append(make())
        except ImportError:
            continue
    return found


def _savez() -> Peer:
    def save(path: str, arrays: Arrays) -> None:
        with open(path, "wb") as file:
            np.savez(file, **arrays)

    def load(path: str) -> Arrays:
        with np.load(path) as loaded:
            return {name: loaded[name] for name in loaded.files}

    return Peer("numpy.savez", save, load)


def _pickle() -> Peer:
    def save(path: str, arrays: Arrays) -> None:
        with open(path, "wb") as file:
            pickle.dump(arrays, file, 5)

    def load(path: str) -> Arrays:
        with open(path, "rb") as file:
            return pickle.load(file)  # type: ignore[no-any-return]

    return Peer("pickle 5", save, load)


def _torch() -> Peer:
    import torch

    def save(path: str, arrays: Arrays) -> None:
        torch.save({name: torch.from_numpy(array) for name, array in arrays.items()}, path)

    def load(path: str) -> Any:
        return torch.load(path, weights_only=True)

    return Peer("torch.save", save, load)


def _torch_mapped() -> Peer:
    import torch

    def load(path: str) -> Any:
        mapped = torch.load(path, mmap=True, weights_only=True)
        return {name: tensor.clone() for name, tensor in mapped.items()}

    return Peer("torch.load with mmap", _torch().save, load, only_loads=True)


def _safetensors() -> Peer:
    from safetensors.numpy import load_file, save_file

    return Peer("safetensors", lambda path, arrays: save_file(arrays, path), load_file)


def _joblib() -> Peer:
    import joblib

    return Peer("joblib", lambda path, arrays: joblib.dump(arrays, path), joblib.load)


def _h5py() -> Peer:
    import h5py

    def save(path: str, arrays: Arrays) -> None:
        with h5py.File(path, "w") as file:
            for name, array in arrays.items():
                file.create_dataset(name, data=array)

    def load(path: str) -> Arrays:
        with h5py.File(path, "r") as file:
            return {name: dataset[()] for name, dataset in file.items()}

    return Peer("h5py", save, load)


def _orbax() -> Peer:
    import orbax.checkpoint

    checkpointer = orbax.checkpoint.PyTreeCheckpointer()

    def save(path: str, arrays: Arrays) -> None:
        checkpointer.save(path, arrays, force=True)

    return Peer("Orbax", save, checkpointer.restore)


def _blocks() -> Peer:
    import theano
    from blocks.serialization import dump, load_parameters

    made: dict[int, list[Any]] = {}

    def shared(arrays: Arrays) -> list[Any]:
        # Where Blocks saves, the variables are there already.
        if id(arrays) not in made:
            made.clear()
            made[id(arrays)] = [
                theano.shared(array, name=name, borrow=True) for name, array in arrays.items()
            ]
        return made[id(arrays)]

    def save(path: str, arrays: Arrays) -> None:
        with open(path, "wb") as file:
            dump(None, file, parameters=shared(arrays))

    def load(path: str) -> Any:
        with open(path, "rb") as file:
            return load_parameters(file)

    return Peer("Blocks' dump", save, load)
