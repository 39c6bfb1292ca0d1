"""From a shared variable to its names.

A variable has three:

- its *name*, for people: the path of bricks it hangs in and its own name,
  ``mlp/linear_0/W``; a buffer of an algorithm hangs under the parameter it
  belongs to, ``mlp/linear_0/W.mean``;
- its *parameter name*, for programs: the one that the model's
  ``get_parameter_dict`` gives it, ``/mlp/linear_0.W``;
- its *member name*, for files: the name, changed only where a file system or
  another member stands in the way, and ``.npy``.

Everything here is a function of names and places; no file is touched.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .engines import identity
from .format import RESERVED

__all__ = ["VariableNames", "brick_of", "kind_of", "member_names", "name_variables", "numbered"]

#: Folder of the arrays that no variable owns.
ANONYMOUS_FOLDER = "arrays"

_FORBIDDEN = frozenset('<>:"|?*\\')
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", "conin$", "conout$"]
    + [f"{device}{digit}" for device in ("com", "lpt") for digit in range(10)]
)
_COMPONENT_BYTES = 180
_NAME_BYTES = 1000


@dataclass(frozen=True)
class VariableNames:
    """The two names of a variable, and what it is.

    Attributes
    ----------
    name : str
        ``mlp/linear_0/W``
    parameter_name : str
        ``/mlp/linear_0.W``
    kind : {'parameter', 'buffer', 'shared'}
        A parameter is what training changes; a buffer is what the algorithm
        keeps beside it; anything else is shared.
    """

    name: str
    parameter_name: str
    kind: str


def numbered(names: Sequence[str]) -> list[str]:
    """Make names distinct by numbering those that occur more than once.

    A name that occurs once is kept. The others are all numbered from 0, in
    their order. A number that would make a name that really occurs is left
    out.

    Parameters
    ----------
    names : sequence of str

    Returns
    -------
    list of str
        As many, all different.

    Examples
    --------
    >>> numbered(["b", "W", "W"])
    ['b', 'W_0', 'W_1']
    >>> numbered(["W", "W", "W_1"])
    ['W_0', 'W_2', 'W_1']
    """
    counts = Counter(names)
    taken = set(names)
    following: dict[str, int] = {}
    result = []
    for name in names:
        if counts[name] > 1:
            number = following.get(name, 0)
            while f"{name}_{number}" in taken:
                number += 1
            following[name] = number + 1
            name = f"{name}_{number}"
            taken.add(name)
        result.append(name)
    return result


def true_name(parameter_name: str) -> str:
    """Turn a parameter name into a name, as far as the string alone tells.

    Examples
    --------
    >>> true_name("/mlp/linear_0.W")
    'mlp/linear_0/W'
    >>> true_name("V")
    'V'
    """
    if not parameter_name.startswith("/"):
        return parameter_name
    path, dot, own = parameter_name[1:].rpartition(".")
    return f"{path}/{own}" if dot and path else parameter_name


def brick_of(variable: Any) -> Any:
    """Return the brick that a variable belongs to, or None."""
    for annotation in getattr(getattr(variable, "tag", None), "annotations", ()):
        # A variable is annotated with its brick and with the application of
        # a brick that made it; only the brick has children.
        if hasattr(annotation, "children") and hasattr(annotation, "parents"):
            return annotation
    return None


def _brick_path(brick: Any) -> list[str]:
    if hasattr(brick, "get_unique_path"):
        return [str(each.name) for each in brick.get_unique_path()]
    return [str(brick.name)]


def _role_names(variable: Any) -> set[str]:
    roles = getattr(getattr(variable, "tag", None), "roles", ())
    return {cls.__name__ for role in roles for cls in type(role).__mro__}


def kind_of(variable: Any, is_parameter: bool = False) -> str:
    """Tell a parameter from a buffer from another shared variable.

    Parameters
    ----------
    variable : shared variable
        Its ``tag.roles`` and ``tag.for_parameter`` are looked at.
    is_parameter : bool
        The model says that it is one.
    """
    roles = _role_names(variable)
    if is_parameter or "ParameterRole" in roles:
        return "parameter"
    tag = getattr(variable, "tag", None)
    if getattr(tag, "for_parameter", None) is not None or roles & {
        "AlgorithmBufferRole",
        "BatchNormPopulationStatisticsRole",
    }:
        return "buffer"
    return "shared"


def _own_name(variable: Any, kind: str) -> str:
    tag_name = getattr(getattr(variable, "tag", None), "name", None)
    name = tag_name if tag_name is not None else getattr(variable, "name", None)
    return kind if name is None or name == "" else str(name)


def name_variables(
    variables: Sequence[Any], *, parameters: Iterable[Any] = (), given: Mapping[str, Any] | None = None
) -> list[VariableNames]:
    """Name shared variables.

    Parameters
    ----------
    variables : sequence of shared variables
        Distinct. Their order numbers those that would have one name; the
        model's parameters come first, in their own order.
    parameters : iterable of shared variables
        The model's parameters.
    given : mapping of str to shared variable, optional
        What the model's ``get_parameter_dict`` returns. Its names are used
        if it knows every parameter; two parameters of one name that it has
        merged into one are told apart by numbers instead.

    Returns
    -------
    list of VariableNames
        One for each of ``variables``; names are distinct, and so are
        parameter names.
    """
    rank: dict[int, int] = {}
    for parameter in parameters:
        rank.setdefault(identity(parameter), len(rank))
    order = sorted(
        range(len(variables)), key=lambda index: rank.get(identity(variables[index]), len(rank))
    )
    kinds = [kind_of(v, identity(v) in rank) for v in variables]

    given_names = {identity(variable): name for name, variable in (given or {}).items()}
    present = {identity(variable) for variable in variables}
    if any(key in present and key not in given_names for key in rank):
        given_names = {}

    named: dict[int, tuple[str, str]] = {}
    waiting = order
    while waiting:
        # Buffers are named after their parameter's final name, hence after it.
        ready = [i for i in waiting if _owner(variables[i]) not in present.difference(named)]
        ready = ready or waiting
        pairs = [_raw_names(variables[i], kinds[i], named, given_names) for i in ready]
        used = list(named.values())
        # Earlier names take part so that no number runs into one of them.
        names = numbered([name for name, _ in used] + [name for name, _ in pairs])
        parameter_names = numbered([name for _, name in used] + [name for _, name in pairs])
        for index, pair in zip(ready, list(zip(names, parameter_names))[len(used) :]):
            named[identity(variables[index])] = pair
        waiting = [index for index in waiting if identity(variables[index]) not in named]
    return [
        VariableNames(*named[identity(variable)], kind) for variable, kind in zip(variables, kinds)
    ]


def _owner(variable: Any) -> int | None:
    """Identify the parameter that a buffer belongs to."""
    owner = getattr(getattr(variable, "tag", None), "for_parameter", None)
    return None if owner is None else identity(owner)


def _raw_names(
    variable: Any, kind: str, named: Mapping[int, tuple[str, str]], given: Mapping[int, str]
) -> tuple[str, str]:
    own = _own_name(variable, kind)
    owner = _owner(variable)
    if owner is not None and owner in named:
        name, parameter_name = named[owner]
        return f"{name}.{own}", f"{parameter_name}.{own}"
    brick = brick_of(variable)
    if brick is None:
        return own, given.get(identity(variable), own)
    own = str(getattr(variable, "name", None) or own)
    path = _brick_path(brick)
    by_path = "/".join(["", *path]) + "." + own
    return "/".join([*path, own]), given.get(identity(variable), by_path)


def member_names(names: Sequence[str], *, reserved: Iterable[str] = RESERVED) -> list[str]:
    """Find a member name for each array, ``.npy`` included.

    A member name is relative and free of ``..``, can be unpacked on every
    system, and differs from every other one also where case is ignored. A
    name that is all that already is kept as it is.

    Parameters
    ----------
    names : sequence of str
        Any strings, all different.
    reserved : iterable of str
        Members that are not arrays.

    Returns
    -------
    list of str

    Examples
    --------
    >>> member_names(["mlp/W", "MLP/w", "../x", "log"])
    ['mlp/W.npy', 'MLP/w_1.npy', '%2E%2E/x.npy', 'log_1.npy']
    """
    chosen: dict[int, str] = {}
    taken = _Taken(reserved)
    safe = [_safe(name) for name in names]
    # Names that need no change have the first claim to themselves.
    for index in sorted(range(len(names)), key=lambda i: safe[i] != names[i]):
        candidate, number = safe[index], 0
        while not taken.claim(candidate):
            number += 1
            candidate = _with_number(safe[index], number, taken.blocks_folder(safe[index]))
        chosen[index] = candidate + ".npy"
    return [chosen[index] for index in range(len(names))]


def anonymous_member_names(count: int, others: Iterable[str]) -> list[str]:
    """Name ``count`` arrays that no variable owns, beside ``others``."""
    taken = {_folded(name) for name in others}
    result: list[str] = []
    number = 0
    while len(result) < count:
        member = f"{ANONYMOUS_FOLDER}/{number}.npy"
        if member not in taken:
            result.append(member)
        number += 1
    return result


class _Taken:
    """Files and folders that exist already, as a case-blind system sees them."""

    def __init__(self, reserved: Iterable[str]) -> None:
        self._files = {_folded(name) for name in reserved}
        # numpy drops ``.npy`` when it lists members, so that an array
        # ``log.npy`` would hide behind the member ``log``.
        self._listed = set(self._files)
        self._folders: set[str] = set()

    def claim(self, name: str) -> bool:
        key = _folded(name)
        file = key + ".npy"
        folders = _parents(key)
        if (
            key in self._listed
            or file in self._files
            or file in self._folders
            or not self._files.isdisjoint(folders)
        ):
            return False
        self._files.add(file)
        self._listed.add(key)
        self._folders.update(folders)
        return True

    def blocks_folder(self, name: str) -> bool:
        return not self._files.isdisjoint(_parents(_folded(name)))


def _parents(key: str) -> list[str]:
    parts = key.split("/")[:-1]
    return ["/".join(parts[: length + 1]) for length in range(len(parts))]


def _with_number(name: str, number: int, in_folder: bool) -> str:
    if not in_folder:
        return f"{name}_{number}"
    head, _, rest = name.partition("/")
    return f"{head}_{number}/{rest}"


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _safe(name: str) -> str:
    result = "/".join(_safe_component(part) for part in name.split("/"))
    if len(result.encode()) > _NAME_BYTES:
        result = _shortened(result, _NAME_BYTES).replace("/", "_")
    return result


def _safe_component(part: str) -> str:
    if part == "":
        return "_"
    escaped = "".join(_safe_character(character) for character in part)
    if set(part) <= {"."} or part[-1] in ". ":
        # ``.`` and ``..`` lead elsewhere; Windows drops dots and spaces at
        # the end, and two names would become one.
        kept = escaped.rstrip(". ")
        escaped = kept + "".join(f"%{ord(c):02X}" for c in escaped[len(kept) :])
    if part[0] == " ":
        escaped = "%20" + escaped[1:] if not escaped.startswith("%20") else escaped
    if part.split(".")[0].rstrip().casefold() in _DEVICES:
        escaped = f"_{escaped}"
    return _shortened(escaped, _COMPONENT_BYTES)


def _safe_character(character: str) -> str:
    # Categories Cc, Cf, Cs, Co, Cn: control and direction marks, lone
    # surrogates (no UTF-8 has them), characters without a meaning.
    if character in _FORBIDDEN or unicodedata.category(character).startswith("C"):
        return "".join(f"%{octet:02X}" for octet in character.encode("utf-8", "surrogatepass"))
    return unicodedata.normalize("NFC", character)


def _shortened(text: str, limit: int) -> str:
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    digest = hashlib.sha256(encoded).hexdigest()[:12]
    return encoded[: limit - 13].decode(errors="ignore") + "~" + digest
