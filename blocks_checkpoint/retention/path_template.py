"""Paths with fields, such as ``runs/digits-{epochs_done:03d}-{valid_error:.4f}.zip``.

A field takes its value from the state of the training. Whatever the value is,
the name that comes of it is one legal name of a file: a value never leads into
another folder, on any system.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from string import Formatter
from typing import Any

from ..errors import SaveError

__all__ = ["PathTemplate", "is_template", "template_values"]

_SEPARATOR = re.compile(r"[/\\]" if os.sep == "\\" else "/")
_FORBIDDEN = frozenset('<>:"|?*/\\')
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", "conin$", "conout$"]
    + [f"{device}{digit}" for device in ("com", "lpt") for digit in "0123456789¹²³"]
)
#: File systems end at 255 bytes, and other files are named after this one.
_LONGEST_NAME_BYTES = 200
_LONGEST_SUFFIX_BYTES = 16
#: What a name that was too long, or had an end that Windows drops, looks like.
_SHORTENED = re.compile(r"~[0-9a-f]{12}(?:\.[^.]*)?\Z")
_ESCAPED_END = re.compile(r"(?:%2E|%20)+\Z")


def is_template(path: str | os.PathLike[str]) -> bool:
    """Tell whether a path has fields.

    Raises
    ------
    ValueError
        It has something that is nearly one.
    """
    text = os.fspath(path)
    try:
        list(Formatter().parse(text))
    except ValueError:
        # A single brace is a legal part of a file name.
        if not re.search(r"\{[^{}]*\}", text):
            return False
    return bool(PathTemplate(text).fields)


def template_values(
    status: Mapping[str, Any],
    records: Mapping[str, Any],
    *,
    now: datetime,
    host: str,
) -> dict[str, Any]:
    """Put together what the fields of a template may name.

    Parameters
    ----------
    status : mapping
        Of the log; it has the first claim to a name.
    records : mapping of str to object
        The values recorded last; they have the second.
    now : datetime.datetime
        Gives ``date`` (``2024-05-01``) and ``time`` (``14-03-59``).
    host : str
        Of the machine.
    """
    return {
        "date": _Moment(now, "%Y-%m-%d"),
        "time": _Moment(now, "%H-%M-%S"),
        "host": host,
        **records,
        **{name: value for name, value in dict(status).items() if not name.startswith("_")},
    }


@dataclass(frozen=True)
class _Moment:
    """A time that has a form of its own, unless a field gives another."""

    moment: datetime
    form: str

    def __format__(self, spec: str) -> str:
        return self.moment.strftime(spec or self.form)


@dataclass(frozen=True)
class _Field:
    name: str
    spec: str


@dataclass(frozen=True)
class PathTemplate:
    """A path with fields.

    A field is the name of something in the log's status or of a record, and
    may have a format after a colon, as in an f-string. Braces that are none
    are doubled.

    Parameters
    ----------
    text : str

    Raises
    ------
    ValueError
        A brace has no counterpart, or a field is not a plain name.
    """

    text: str

    def __post_init__(self) -> None:
        # Parsed at once, so that a mistake is known before training begins.
        _ = self._components

    @cached_property
    def _components(self) -> list[list[str | _Field]]:
        """The parts of the path between separators: each is texts and fields."""
        components: list[list[str | _Field]] = [[]]
        for part in _parse(self.text):
            if isinstance(part, _Field):
                components[-1].append(part)
                continue
            first, *others = _SEPARATOR.split(part)
            components[-1].append(first)
            components += [[other] for other in others]
        return components

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields, in order, each once."""
        parts = [part for component in self._components for part in component]
        return tuple(dict.fromkeys(part.name for part in parts if isinstance(part, _Field)))

    @property
    def name(self) -> str:
        """The last part of the template, behind the folders."""
        return _SEPARATOR.split(self.text)[-1]

    def format(self, values: Mapping[str, Any]) -> str:
        """Return the path with the values in place of the fields.

        Parameters
        ----------
        values : mapping of str to object
            As :func:`template_values` returns them. None is no value.

        Raises
        ------
        SaveError
            A value is missing, or does not fit the format of its field.
        """
        missing = [name for name in self.fields if values.get(name) is None]
        if missing:
            raise SaveError(self._explain_missing(missing, values))
        return "/".join(self._format_component(parts, values) for parts in self._components)

    def _format_component(self, parts: list[str | _Field], values: Mapping[str, Any]) -> str:
        if not _has_fields(parts):
            return "".join(map(str, parts))
        texts = [
            _escaped(self._format_field(part, values[part.name]))
            if isinstance(part, _Field)
            else part
            for part in parts
        ]
        # What the user wrote himself is left to him.
        return _legal("".join(texts), may_end_in_dot=isinstance(parts[-1], str) and parts[-1] != "")

    def _format_field(self, field: _Field, value: Any) -> str:
        try:
            return format(value, field.spec)
        except (OverflowError, TypeError, ValueError) as error:
            raise SaveError(
                f"the path {self.text!r}: the value of {field.name} is {value!r:.80}, which the "
                f"format {field.spec!r} does not fit ({error})"
            ) from error

    def _explain_missing(self, missing: list[str], values: Mapping[str, Any]) -> str:
        known = sorted(name for name, value in values.items() if value is not None)
        names = ", ".join(f"{{{name}}}" for name in missing)
        close = difflib.get_close_matches(missing[0], known, n=1)
        return (
            f"the path {self.text!r} has {names}, of which nothing is in the log so far. "
            + (f"Do you mean {{{close[0]}}}? " if close else "")
            + f"There are: {', '.join(known)}. A record is there once its extension has run: "
            "save no sooner than that"
        )

    def matches(self, path: str | os.PathLike[str]) -> bool:
        """Tell whether the name of a file may have come of this template, whatever its folder."""
        return _may_be(os.path.basename(os.fspath(path)), self._components[-1])

    def find(self) -> list[str]:
        """List the existing files whose path may have come of this template.

        Folders that cannot be read have none. Symbolic links to files are
        left out.
        """
        *above, last = self._components
        folders = [""]
        for parts in above:
            if _has_fields(parts):
                folders = [
                    f"{folder}{entry.name}/"
                    for folder in folders
                    for entry in _entries(folder)
                    if _may_be(entry.name, parts) and entry.is_dir()
                ]
            else:
                folders = [f"{folder}{''.join(map(str, parts))}/" for folder in folders]
        return sorted(
            f"{folder}{entry.name}"
            for folder in folders
            for entry in _entries(folder)
            if _may_be(entry.name, last) and entry.is_file(follow_symlinks=False)
        )


def _parse(text: str) -> list[str | _Field]:
    parts: list[str | _Field] = []
    try:
        parsed = list(Formatter().parse(text))
    except ValueError as error:
        raise ValueError(
            f"the path {text!r} has a brace without a counterpart ({error}); write a field as "
            "{epochs_done}, and a brace beside fields twice"
        ) from error
    for literal, name, spec, conversion in parsed:
        parts.append(literal)
        if name is None:
            continue
        is_plain = name and not name.isdigit() and not set(name) & set(".[]")
        if not is_plain or conversion or set(spec or "") & set("{}"):
            raise ValueError(
                f"the path {text!r} has the field {name!r}; a field is the name of something in "
                "the log, with or without a format, such as {epochs_done:03d}"
            )
        parts.append(_Field(name, spec or ""))
    return parts


def _has_fields(parts: list[str | _Field]) -> bool:
    return any(isinstance(part, _Field) for part in parts)


def _escaped(value: str) -> str:
    """Write what is no part of a file name, on some system, as ``%2F``."""
    return "".join(
        "".join(f"%{octet:02X}" for octet in character.encode("utf-8", "surrogatepass"))
        # Control and direction marks, lone surrogates, spaces that look like others.
        if character in _FORBIDDEN or not character.isprintable()
        else character
        for character in value
    )


def _legal(name: str, *, may_end_in_dot: bool) -> str:
    """Make a name without separators one that every system takes."""
    if set(name) <= {"."}:
        return "%2E" * len(name) or "_"
    if name[-1] in ". " and not may_end_in_dot:
        # Windows drops them, and two names would become one.
        kept = name.rstrip(". ")
        name = kept + "".join(f"%{ord(character):02X}" for character in name[len(kept) :])
    if name.split(".")[0].rstrip().casefold() in _DEVICES:
        name = f"_{name}"
    raw = name.encode()
    if len(raw) <= _LONGEST_NAME_BYTES:
        return name
    stem, suffix = os.path.splitext(name)
    if len(suffix.encode()) > _LONGEST_SUFFIX_BYTES:
        stem, suffix = name, ""
    digest = hashlib.sha256(raw).hexdigest()[:12]
    room = _LONGEST_NAME_BYTES - len(digest) - 1 - len(suffix.encode())
    return f"{stem.encode()[:room].decode(errors='ignore')}~{digest}{suffix}"


def _may_be(name: str, parts: list[str | _Field]) -> bool:
    """Tell whether :func:`_legal` may have made a name of a component of the path."""
    texts = [""]
    for part in parts:
        if isinstance(part, _Field):
            texts.append("")
        else:
            texts[-1] += part
    suffix = os.path.splitext(texts[-1])[1]
    if _SHORTENED.search(name) and name.endswith(suffix):
        return True
    end = _ESCAPED_END.sub(lambda found: bytes.fromhex(found[0].replace("%", "")).decode(), name)
    return any(
        _has_in_turn(form, texts) or (form[:1] == "_" and _has_in_turn(form[1:], texts))
        for form in (name, end)
    )


def _has_in_turn(name: str, texts: list[str]) -> bool:
    """Tell whether a name is these texts with anything between them."""
    if len(texts) == 1:
        return name == texts[0]
    first, *middle, last = texts
    place, end = len(first), len(name) - len(last)
    if not (name.startswith(first) and name.endswith(last) and place <= end):
        return False
    for text in middle:
        place = name.find(text, place, end)
        if place < 0:
            return False
        place += len(text)
    return True


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder or ".") as entries:
            return list(entries)
    except OSError:
        return []
