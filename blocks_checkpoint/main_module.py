"""What a checkpoint needs of the script that was running.

Functions and classes of ``__main__`` are pickled by name only, and another
process has another ``__main__``. Here is said what a pickle needs of it, and
where it is found again on loading.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import os
import pickle
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from .diagnosis import MAIN_MODULES
from .errors import CheckpointWarning, LoadError, MainModuleError

__all__ = ["MainModule", "import_script", "mentions_main_module", "needs_of", "script_of_process"]

#: Under this name a script is imported to take functions from it, so that its
#: ``if __name__ == '__main__':`` does not run.
SCRIPT_MODULE_NAME = "__blocks_checkpoint_main__"


def mentions_main_module(pickled: bytes) -> bool:
    """Tell whether a pickle may refer to the main module.

    A search for the name in the bytes costs a twentieth of the pickling.
    That it occurs proves nothing; that it does not, proves all.
    """
    return any(name.encode() in pickled for name in MAIN_MODULES)


class _Nowhere:
    """A file that forgets what is written."""

    def write(self, data: bytes) -> int:
        return len(data)


class _Recorder(pickle.Pickler):
    """Notes the functions and classes of the main module that it meets."""

    def __init__(self, reducers: Mapping[type, Callable[[Any], Any]], protocol: int) -> None:
        super().__init__(_Nowhere(), protocol)  # type: ignore[arg-type]
        self.dispatch_table = dict(reducers)
        self.needed: set[str] = set()

    def reducer_override(self, thing: Any) -> Any:
        if getattr(thing, "__module__", None) in MAIN_MODULES:
            name = getattr(thing, "__qualname__", None)
            if name is not None:
                self.needed.add(name)
        return NotImplemented


def needs_of(
    things: Iterable[Any], reducers: Mapping[type, Callable[[Any], Any]], protocol: int
) -> list[str]:
    """List the names of the main module that pickling ``things`` refers to.

    Returns
    -------
    list of str
        Sorted; qualified names, such as ``Outer.Inner``.
    """
    recorder = _Recorder(reducers, protocol)
    for thing in things:
        recorder.dump(thing)
    return sorted(recorder.needed)


def script_of_process() -> dict[str, Any] | None:
    """Describe the running script.

    Returns
    -------
    dict or None
        ``script`` (its path) and ``sha256`` of its text; None where there is
        no script, as in an interpreter.
    """
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    if path is None or not os.path.isfile(path):
        return None
    return {"script": os.path.abspath(path), "sha256": _digest(path)}


def _digest(path: str | os.PathLike[str]) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


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
    path = os.fspath(path)
    if not os.path.isfile(path):
        raise LoadError("there is no such script", path=path)
    loader = importlib.machinery.SourceFileLoader(SCRIPT_MODULE_NAME, path)
    spec = importlib.util.spec_from_loader(SCRIPT_MODULE_NAME, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    folder = os.path.dirname(os.path.abspath(path))
    sys.modules[SCRIPT_MODULE_NAME] = module
    # A script finds its neighbours because its folder comes first in the path.
    sys.path.insert(0, folder)
    try:
        loader.exec_module(module)
    except Exception as error:
        del sys.modules[SCRIPT_MODULE_NAME]
        raise LoadError(f"importing this script failed: {error!r}", path=path) from error
    finally:
        sys.path.remove(folder)
    return module


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
        running = sys.modules["__main__"]
        names = list(needs.get("names", ()))
        self.module = running
        if main is not None and not all(_has(running, name) for name in names):
            self.module = main if isinstance(main, ModuleType) else import_script(main)
        self._check_unchanged(needs, path)
        missing = [name for name in names if not _has(self.module, name)]
        if missing:
            script = needs.get("script")
            where = f"the script {script}" if script else "an interpreter, without a script"
            raise MainModuleError(
                f"the main loop needs {', '.join(missing)} of the main module of the process "
                f"that saved it, {where}. Either call continue_training from that script, "
                "under its if __name__ == '__main__':, or name it: "
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


def _has(module: ModuleType, name: str) -> bool:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is not None
