"""The names of arrays in what Blocks wrote, and what they meant.

A parameter of a brick is ``/mlp/linear_0.W`` to a model: the bricks on the
way to it, and its own name. No writer of Blocks stored it so. Slashes became
``-`` in 2015 and ``|`` from 2016 on, and from then on nobody can tell a slash
from a character that was there before. It can be told in three cases: the
bricks have the names that Blocks gives by itself; the file has a pickle, in
which the names of the bricks stand whole; or a model asks, which knows its
own names. Else it is a guess, and is said to be one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

__all__ = ["DELIMITERS", "Names", "delimiter_of", "read_names"]

#: What stood for the slash; the last is the slash itself.
DELIMITERS = ("-", "|", "/")

#: Names that Blocks gives to bricks whose user gave none: the class in lower
#: case, or what a brick calls its children. A number may follow.
_GIVEN_BY_BLOCKS = frozenset(
    """
    activation att_trans attention averagepooling backward batchnormalization
    batchnormalizedmlp bias bidirectional children convolutional
    convolutionalactivation convolutionallayer convolutionalsequence
    convolutionaltranspose distribute emitter energy_comp fakeattentionrecurrent
    feedback feedforward feedforwardsequence flattener fork fork_gate_inputs
    fork_inputs forward gatedrecurrent identity layer leakyrectifier linear
    linearmaxout logistic lookupfeedback lookuptable lstm maxout maxpooling merge
    merged mlp ndimensionalsoftmax parallel post_merge preprocess readout rectifier
    recurrentstack sequence sequencecontentattention sequencegenerator
    shallowenergycomputer simplerecurrent softmax softmaxemitter softplus
    source_selector spatialbatchnormalization state_trans states tanh transition
    trivialemitter trivialfeedback with_fake_attention
    """.split()
)

#: Longest path that is looked at for other readings.
MAX_BRICKS = 32

#: Finds out which of some brick names stand whole in a pickle of the file.
Evidence = Callable[[Iterable[str]], "set[str]"]


@dataclass
class Names:
    """What the arrays of a file are called.

    Attributes
    ----------
    stored : dict of str to str
        From the true name of each array to the name in the file.
    parameters : set of str
        True names of those that are parameters of bricks, as far as a name
        can tell.
    doubtful : dict of str to str
        True names that are guesses, and what else each may have been.
    """

    stored: dict[str, str] = field(default_factory=dict)
    parameters: set[str] = field(default_factory=set)
    doubtful: dict[str, str] = field(default_factory=dict)


def delimiter_of(stored: Iterable[str]) -> str:
    """Return the character that stands for the slash in some names of a file.

    Those of bricks begin with it. A slash decides, because it is in no name
    that another character was put into.
    """
    first = {name[:1] for name in stored}
    return next((mark for mark in ("/", "|", "-") if mark in first), "/")


def read_names(
    stored: Iterable[str],
    delimiter: str,
    *,
    leading: bool = True,
    evidence: Evidence | None = None,
) -> Names:
    """Find out what the arrays of a file are called.

    Parameters
    ----------
    stored : iterable of str
        Their names in the file.
    delimiter : {'-', '|', '/'}
        What stands for the slash.
    leading : bool
        The path of a brick begins with it. If not, a name with a dot in it is
        taken for one of a brick.
    evidence : callable, optional
        From possible names of bricks to those that there are; None if the
        file cannot tell.

    Returns
    -------
    Names
    """
    stored = list(stored)
    paths = {
        name: _split(name, delimiter, leading)
        for name in stored
        if _is_path(name, delimiter, leading)
    }
    known = _known_bricks(paths.values(), delimiter, evidence)
    names = Names()
    others: dict[str, str] = {}
    true_names: dict[str, str] = {}
    for name in stored:
        bricks, own_name = paths.get(name, ([], ""))
        joined, other = _join(bricks, delimiter, known, evidence is not None)
        # Where a path is known by its dot alone, the pickle has the last word.
        unheard_of = not leading and evidence is not None and not _is_known(joined, known)
        if not bricks or unheard_of:
            true_names[name] = name
            continue
        true_names[name] = "/" + "/".join(joined) + own_name
        if other is not None:
            others[name] = "/" + "/".join(other) + own_name
    unchanged = {name for name in stored if true_names[name] == name}
    for name, true_name in true_names.items():
        other_name = others.get(name)
        if true_name != name and (true_name in names.stored or true_name in unchanged):
            # Two names that differ only in a character that was replaced.
            # Both arrays are kept, this one under its name in the file.
            true_name, other_name = name, true_name
        while true_name in names.stored:
            true_name += "'"
        names.stored[true_name] = name
        if name not in unchanged or name.startswith("/"):
            names.parameters.add(true_name)
        if other_name is not None:
            names.doubtful[true_name] = other_name
    return names


def stored_forms(parameter_name: str, delimiter: str) -> tuple[str, ...]:
    """Return how a model's name for a parameter can stand in a file."""
    if not parameter_name.startswith("/"):
        return (parameter_name,)
    mangled = parameter_name.replace("/", delimiter)
    return (mangled, mangled[1:])


def _is_path(name: str, delimiter: str, leading: bool) -> bool:
    return name.startswith(delimiter) if leading else bool(re.match(r"[^./][^./]*\.", name))


def _split(name: str, delimiter: str, leading: bool) -> tuple[list[str], str]:
    """Take a stored name apart: the bricks, and the rest from the dot on."""
    path = name[1:] if leading else name
    # The name of a parameter may have dots; that of a brick may, too, but
    # Blocks' own selectors do not find such a one.
    last = path.rfind(delimiter) + 1
    dot = path.find(".", last)
    end = len(path) if dot < 0 else dot
    return path[:end].split(delimiter), path[end:]


def _compounds(bricks: list[str], delimiter: str) -> list[str]:
    """List the names that one brick on this path may have had, if it had the delimiter."""
    count = len(bricks) if len(bricks) <= MAX_BRICKS else 0
    return [
        delimiter.join(bricks[first:end])
        for first in range(count)
        for end in range(first + 2, count + 1)
    ]


def _known_bricks(
    paths: Iterable[tuple[list[str], str]], delimiter: str, evidence: Evidence | None
) -> set[str]:
    asked = {
        name
        for bricks, _ in paths
        if delimiter != "/" and not _all_given(bricks)
        for name in (*bricks, *_compounds(bricks, delimiter))
    }
    return evidence(asked) if evidence is not None and asked else set()


def _is_known(bricks: list[str], known: set[str]) -> bool:
    return _all_given(bricks) or known.issuperset(bricks)


def _all_given(bricks: list[str]) -> bool:
    return all(re.sub(r"_\d+$", "", name) in _GIVEN_BY_BLOCKS for name in bricks)


def _join(
    bricks: list[str], delimiter: str, known: set[str], can_tell: bool
) -> tuple[list[str], list[str] | None]:
    """Return the bricks of a path, and how else they may have been called.

    Every way to put neighbours together again is a reading of the path. Those
    whose names all stand in the pickle are possible; the one of the most
    bricks is the likeliest.
    """
    if delimiter == "/" or len(bricks) <= 1 or _all_given(bricks):
        return bricks, None
    if not can_tell:
        # Nobody calls a brick something with a bar in it; with a hyphen, many
        # do. An empty name is no brick's.
        whole = [delimiter.join(bricks)]
        return bricks, whole if delimiter == "-" or "" in bricks else None
    readings = _readings(bricks, delimiter, known)
    if not readings:
        return bricks, [delimiter.join(bricks)] if known else None
    readings.sort(key=len, reverse=True)
    return readings[0], readings[1] if len(readings) > 1 else None


def _readings(bricks: list[str], delimiter: str, known: set[str]) -> list[list[str]]:
    """List at most two ways to read a path as names that are known."""
    # From the end of the path: ways[i] reads bricks[i:].
    ways: list[list[list[str]]] = [[] for _ in bricks] + [[[]]]
    for first in reversed(range(len(bricks) if len(bricks) <= MAX_BRICKS else 0)):
        for end in range(first + 1, len(bricks) + 1):
            name = delimiter.join(bricks[first:end])
            if name in known:
                ways[first] += [[name, *rest] for rest in ways[end]]
        ways[first] = sorted(ways[first], key=len, reverse=True)[:2]
    return ways[0]
