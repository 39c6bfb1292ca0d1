"""Every exception and warning of the package, one tree each.

An error carries what it speaks of as attributes (``path``, ``member``, ...),
so that a program can act on it without parsing its text. Its text says what
went wrong, where, and what to do about it.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from typing import Any

__all__ = [
    "CheckpointError",
    "CheckpointNotFound",
    "CheckpointWarning",
    "DamagedCheckpoint",
    "DataNotFound",
    "EngineError",
    "HeavyDataWarning",
    "HostileCheckpoint",
    "LoadError",
    "MainModuleError",
    "MainModuleWarning",
    "NameConflict",
    "NoGoodCheckpoint",
    "NotACheckpoint",
    "ParameterMismatch",
    "ParameterWarning",
    "ReadAheadWarning",
    "RefusedClass",
    "SaveError",
    "UnpicklableError",
    "UnsupportedFormat",
]


class CheckpointError(Exception):
    """Base of every error that this package raises on purpose.

    Parameters
    ----------
    message : str
        What went wrong and what to do about it.
    path : str or os.PathLike, optional
        The file it happened in.
    member : str, optional
        The member of the archive it happened in.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | os.PathLike[str] | None = None,
        member: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.path = None if path is None else os.fspath(path)
        self.member = member

    def __str__(self) -> str:
        where = [part for part in (self.path, self.member and f"member {self.member!r}") if part]
        return f"{', '.join(where)}: {self.message}" if where else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors travel between processes; keyword-only arguments would be
        # lost by the default, which calls the class with ``args`` alone.
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(cls: type[CheckpointError], args: tuple[Any, ...], state: dict[str, Any]) -> Any:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class SaveError(CheckpointError):
    """A checkpoint could not be written; the file of before is untouched."""


class NameConflict(SaveError, ValueError):
    """A name is reserved, is given twice, or is not in the file it should be in."""


class UnpicklableError(SaveError, pickle.PicklingError):
    """Something in the object graph cannot be pickled.

    Attributes
    ----------
    offenders : list of blocks_checkpoint.diagnosis.Offender
        Every object found that cannot be pickled, with the place it hangs.
    """

    def __init__(self, message: str, *, offenders: Sequence[Any] = (), **where: Any) -> None:
        super().__init__(message, **where)
        self.offenders = list(offenders)


class LoadError(CheckpointError):
    """A checkpoint, or a part of one, could not be read."""


class CheckpointNotFound(LoadError, FileNotFoundError):
    """There is no checkpoint where one was asked for."""


class NoGoodCheckpoint(LoadError):
    """Of several files that might be checkpoints, none can be used.

    Attributes
    ----------
    rejected : list of (str, str)
        Path and reason of each.
    """

    def __init__(
        self, message: str, *, rejected: Sequence[tuple[str, str]] = (), **where: Any
    ) -> None:
        super().__init__(message, **where)
        self.rejected = list(rejected)


class DataNotFound(LoadError):
    """A run that goes on asks for data, and the file with them is not there.

    It is no ``FileNotFoundError``: whoever starts afresh where there is no
    checkpoint is not to do so where there is one.

    Attributes
    ----------
    file : str
        The data file.
    place : str
        What names it: ``main_loop.data_stream.dataset.path``.
    """

    def __init__(self, message: str, *, file: str = "", place: str = "", **where: Any) -> None:
        super().__init__(message, **where)
        self.file = file
        self.place = place


class NotACheckpoint(LoadError):
    """The file is something else: text, another zip, a folder, nothing."""


class UnsupportedFormat(LoadError):
    """The checkpoint was written in a newer format than this package reads."""


class DamagedCheckpoint(LoadError):
    """Bytes of the checkpoint are not those that were written."""


class HostileCheckpoint(LoadError):
    """The file breaks a rule that no writer of checkpoints breaks by accident."""


class RefusedClass(LoadError):
    """A pickle that may only hold plain values names something else.

    Attributes
    ----------
    refused : str
        Its dotted name.
    """

    def __init__(self, module: str, name: str, **where: Any) -> None:
        self.refused = f"{module}.{name}"
        super().__init__(
            f"it names {self.refused[:200]!r}, which is not among the plain values that it may "
            f"hold. If you trust the file, read it with allow=({self.refused[:200]!r},)",
            **where,
        )


class MainModuleError(LoadError, AttributeError):
    """The main loop needs objects of a ``__main__`` that is not there.

    Attributes
    ----------
    missing : list of str
        Names that the script which saved had, and this process has not.
    """

    def __init__(self, message: str, *, missing: Sequence[str] = (), **where: Any) -> None:
        super().__init__(message, **where)
        self.missing = list(missing)


class ParameterMismatch(LoadError, ValueError):
    """Stored parameters and those of the model do not fit together.

    Attributes
    ----------
    missing, unexpected : list of str
        Names the model has and the file lacks; names only the file has.
    wrong_shape : list of (str, tuple of int, tuple of int)
        Name, stored shape, shape the model expects.
    """

    def __init__(
        self,
        message: str,
        *,
        missing: Sequence[str] = (),
        unexpected: Sequence[str] = (),
        wrong_shape: Sequence[tuple[str, tuple[int, ...], tuple[int, ...]]] = (),
        **where: Any,
    ) -> None:
        super().__init__(message, **where)
        self.missing = list(missing)
        self.unexpected = list(unexpected)
        self.wrong_shape = list(wrong_shape)


class EngineError(CheckpointError, ImportError):
    """No symbolic engine (PyTensor, Theano, Aesara) can be imported."""


class CheckpointWarning(UserWarning):
    """Base of every warning of this package; filter by it or a subclass."""


class HeavyDataWarning(CheckpointWarning):
    """Data sets make up most of a checkpoint."""


class MainModuleWarning(CheckpointWarning):
    """The main loop depends on functions or classes of ``__main__``."""


class ParameterWarning(CheckpointWarning):
    """Some parameters were not loaded, or do not fit."""


class ReadAheadWarning(CheckpointWarning):
    """The data stream has read what was not trained on, and its place cannot be saved."""
