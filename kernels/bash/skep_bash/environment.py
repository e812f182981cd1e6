"""Environment variables in layers: process < sandbox < context < execution, as scripts for bash.

A layer touches only the variables whose value it changes: what user code assigned by hand stays.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from .quoting import has_bytes, is_name, word

LAYERS = ("sandbox", "context")

Changes = dict[str, str | None]
"""New values; None removes the variable."""


class InvalidEnvironment(Exception):
    """A name or value that bash cannot hold. Nothing was changed."""


class Environment:
    """The lasting layers of one shell."""

    def __init__(self) -> None:
        self._layers: dict[str, Mapping[str, str]] = {layer: {} for layer in LAYERS}

    def plan(self, layer: str, variables: Mapping[str, str]) -> Changes:
        """What must change for `variables` to be the layer."""
        if layer not in LAYERS:
            raise InvalidEnvironment(f"there is no layer {layer!r}; the layers are {', '.join(LAYERS)}")
        check_values(variables)
        before = self._effective({})
        after = self._effective({layer: variables})
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        changes: Changes = {name: after.get(name, os.environ.get(name)) for name in changed}
        check_names(changes)
        return changes

    def accept(self, layer: str, variables: Mapping[str, str]) -> None:
        """The planned changes were made."""
        self._layers[layer] = dict(variables)

    def _effective(self, replaced: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
        merged: dict[str, str] = {}
        for layer in LAYERS:
            merged.update(replaced.get(layer, self._layers[layer]))
        # What the process has from its start is the sandbox's layer, too.
        return {name: value for name, value in merged.items() if os.environ.get(name) != value}


def assignments(changes: Mapping[str, str | None]) -> bytes:
    """A script that makes the changes, and fails if one of them cannot be made."""
    lines = []
    for name, value in sorted(changes.items()):
        # Removed first, because it may be a list or a number, whose assignment means something else.
        lines.append(b"\\builtin unset -v %s || \\builtin return" % name.encode())
        if value is not None:
            lines.append(b"\\builtin export %s=%s || \\builtin return" % (name.encode(), word(value)))
    return b"\n".join(lines) + b"\n"


def restoration(names: list[str], saved: list[bytes]) -> bytes:
    """A script that gives variables back what `Shell.save` wrote down; nothing means that there was none."""
    lines = []
    for name, declaration in zip(names, saved, strict=True):
        lines.append(b"\\builtin unset -v %s" % name.encode())
        if not declaration:
            continue
        # `declare -ax NAME=([0]="a")`: bash takes a list only as an assignment that stands alone.
        _declare, attributes, assignment = declaration.rstrip(b"\n").split(b" ", 2)
        lines.append(b"\\builtin declare %s %s" % (attributes, name.encode()))
        if b"=" in assignment:
            lines.append(assignment)
    return b"\n".join(lines) + b"\n"


def check_values(variables: object) -> None:
    """Refuse what no environment can hold."""
    if not isinstance(variables, Mapping):
        raise InvalidEnvironment("the environment must be an object of strings")
    for name, value in variables.items():
        if not isinstance(value, str):
            raise InvalidEnvironment(f"the value of {name!r} is not a string")
        if "\0" in value:
            raise InvalidEnvironment(f"the value of {name!r} contains a NUL character")
        if not has_bytes(value):
            raise InvalidEnvironment(f"the value of {name!r} is not valid Unicode")


def check_names(variables: Mapping[str, object]) -> None:
    """Refuse names that a process can have in its environment, but bash not as a variable."""
    for name in variables:
        if not is_name(name):
            raise InvalidEnvironment(f"{name!r} cannot be the name of a variable in bash")
