"""What a checkpoint needs of the script that was running.

Functions and classes of ``__main__`` are pickled by name only, and another
process has another ``__main__``. Here is said what a pickle needs of it, and
where it is found again on loading.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import io
import os
import pickle
import sys
import threading
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from .errors import CheckpointWarning, LoadError, MainModuleError

__all__ = [
    "MainModule",
    "import_script",
    "is_main_module",
    "may_be_named_in",
    "module_of",
    "names_needed",
    "refuse_while_imported",
    "script_of",
]

#: Under this name, with a number, a script is imported to take functions from
#: it, so that its ``if __name__ == '__main__':`` does not run.
SCRIPT_MODULE_NAME = "__blocks_checkpoint_main_"

_MAIN_MODULES = ("__main__", "__mp_main__")

#: Scripts that are being imported, by thread.
_being_imported: dict[int, str] = {}

#: What all those names have in common.
_IN_ALL_NAMES = b"_main_"


def is_main_module(name: str) -> bool:
    """Tell whether another process has something else under the name of this module."""
    return name in _MAIN_MODULES or name.startswith(SCRIPT_MODULE_NAME)


def names_needed(pickles: Iterable[Sequence[bytes]]) -> dict[str, str]:
    """List what pickles need of the main module.

    Parameters
    ----------
    pickles : iterable of sequences of bytes
        Each sequence is a chain of pickles that is read by one unpickler.

    Returns
    -------
    dict of str to str
        From qualified name, such as ``Outer.Inner``, to module; sorted.
    """
    needed: dict[str, str] = {}
    for chain in pickles:
        if may_be_named_in(*chain):
            _NameReader(b"".join(chain), needed).read()
    return dict(sorted(needed.items()))


def may_be_named_in(*contents: bytes) -> bool:
    """Tell whether pickles may need something of the main module.

    That no such name occurs proves that they do not, at a fraction of the cost
    of pickling. That one does proves nothing.
    """
    return any(_IN_ALL_NAMES in content for content in contents)


class _Anything:
    """Takes the place of every object of a pickle that is read for its names only."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return object.__new__(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def append(self, item: Any) -> None:
        """Forget the item."""

    def extend(self, items: Any) -> None:
        """Forget the items."""

    def add(self, item: Any) -> None:
        """Forget the item."""


class _NameReader(pickle.Unpickler):
    """Reads pickles that were just written, making nothing of what they name."""

    def __init__(self, content: bytes, needed: dict[str, str]) -> None:
        self._file = io.BytesIO(content)
        super().__init__(self._file)
        self._length = len(content)
        self._needed = needed

    def find_class(self, module: str, name: str) -> Any:
        if is_main_module(module):
            self._needed[name] = module
        return _Anything

    def persistent_load(self, identity: Any) -> Any:
        return _Anything()

    def read(self) -> None:
        """Read all pickles of the chain."""
        while self._file.tell() < self._length:
            self.load()


def script_of(module_name: str) -> dict[str, Any] | None:
    """Describe the script that a main module is.

    Returns
    -------
    dict or None
        ``script`` (its path) and ``sha256`` of its text; None where there is
        no script, as in an interpreter.
    """
    path = getattr(sys.modules.get(module_name), "__file__", None)
    if path is None or not os.path.isfile(path):
        return None
    path = os.path.abspath(path)
    # A script that is edited while it runs still runs as it was.
    if path not in _digests:
        _digests[path] = _digest(path)
    return {"script": path, "sha256": _digests[path]}


_digests: dict[str, str] = {}


def _digest(path: str | os.PathLike[str]) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def module_of(main: str | os.PathLike[str] | ModuleType | None) -> ModuleType:
    """Return the module that a user names as the main one; imports a script.

    Parameters
    ----------
    main : str, os.PathLike, module or None
        None, or the path of the running script, stands for ``__main__``.
    """
    running = sys.modules["__main__"]
    if isinstance(main, ModuleType):
        return main
    return running if main is None or _is_file_of(main, running) else import_script(main)


def import_script(path: str | os.PathLike[str]) -> ModuleType:
    """Import a script under another name than ``__main__``.

    What stands under its ``if __name__ == '__main__':`` is not run;
    everything else at its top level is.

    Parameters
    ----------
    path : str or os.PathLike
        The file.

    Raises
    ------
    LoadError
        There is no such file, or it raises an exception.
    """
    path = os.path.abspath(path)
    if not os.path.isfile(path):
        raise LoadError("there is no such script", path=path)
    imported = {n: m for n, m in sys.modules.items() if n.startswith(SCRIPT_MODULE_NAME)}
    digest = _digest(path)
    for module in imported.values():
        # Twice the same functions would be two, and an object of the one
        # would be none of the other's.
        if module.__file__ == path and _digests.get(path) == digest:
            return module
    name = f"{SCRIPT_MODULE_NAME}{len(imported)}__"
    loader = importlib.machinery.SourceFileLoader(name, path)
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    folder = os.path.dirname(path)
    sys.modules[name] = module
    _being_imported[threading.get_ident()] = path
    # A script finds its neighbours because its folder comes first in the path.
    sys.path.insert(0, folder)
    try:
        loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, KeyboardInterrupt):
            raise
        raise LoadError(
            f"importing this script failed with {error!r}. What it does by itself, rather than "
            "offers to others, belongs under if __name__ == '__main__':",
            path=path,
        ) from error
    finally:
        _being_imported.pop(threading.get_ident(), None)
        # What its functions import later is found, too, but hides nothing.
        sys.path.remove(folder)
        if folder not in sys.path:
            sys.path.append(folder)
    _digests[path] = digest
    return module


def refuse_while_imported() -> None:
    """Refuse to take part in a training that the importing of a script has begun.

    It would train, and save over the files of the run that is to go on.

    Raises
    ------
    LoadError
    """
    path = _being_imported.get(threading.get_ident())
    if path is not None:
        raise LoadError("training began when this script was imported", path=path)


class MainModule:
    """Finds what a pickle needs of ``__main__``.

    Parameters
    ----------
    needs : mapping or None
        The manifest's ``main_module``: ``names``, ``script``, ``sha256``.
    main : str, os.PathLike or module, optional
        The script to take them from, or a module. Without it, the running
        ``__main__`` has to have them.
    path : str, optional
        Of the checkpoint, for messages.

    Raises
    ------
    MainModuleError
        Names are missing.
    """

    def __init__(
        self,
        needs: Mapping[str, Any] | None,
        main: str | os.PathLike[str] | ModuleType | None = None,
        path: str | None = None,
    ) -> None:
        needs = needs or {}
        names = list(needs.get("names", ()))
        self.module = module_of(main)
        self._check_unchanged(needs, path)
        missing = [name for name in names if not _has(self.module, name)]
        if missing:
            script = needs.get("script")
            there = f"the script {script}" if script else "an interpreter, without a script"
            given = getattr(main, "__file__", None) or main
            here = f"{given or 'this process'} does not have them"
            raise MainModuleError(
                f"the main loop needs {', '.join(missing)} of the main module of the process "
                f"that saved it, {there}; {here}. Either call continue_training from that "
                "script, under its if __name__ == '__main__':, or name it: "
                f"continue_training(path, main={script or 'train.py'!r}), on the command line "
                f"blocks-continue PATH --main {script or 'train.py'}",
                missing=missing,
                path=path,
            )

    def _check_unchanged(self, needs: Mapping[str, Any], path: str | None) -> None:
        file = getattr(self.module, "__file__", None)
        saved = needs.get("sha256")
        if needs.get("names") and saved and file and os.path.isfile(file):
            same_name = os.path.basename(file) == os.path.basename(str(needs.get("script")))
            if same_name and _digest(file) != saved:
                warnings.warn(
                    f"the script {file} has changed since {path or 'the checkpoint'} was saved; "
                    f"{', '.join(needs['names'])} are taken from it as they are now",
                    CheckpointWarning,
                    stacklevel=4,
                )

    def find(self, name: str) -> Any:
        """Return the function or class of that qualified name."""
        found: Any = self.module
        for part in name.split("."):
            found = getattr(found, part)
        return found


def _is_file_of(path: str | os.PathLike[str], module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    if file is None or not os.path.exists(path) or not os.path.exists(file):
        return False
    return os.path.samefile(path, file)


def _has(module: ModuleType, name: str) -> bool:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is not None
