"""Environment variables in layers: process < sandbox < context < execution.

Values arrive as data and are assigned as data, so every value that an environment can hold is fine.
A layer touches only the variables whose value it changes: what user code assigned by hand stays.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

LAYERS = ("sandbox", "context")


class InvalidEnvironment(Exception):
    """A name or value that no process environment can hold. Nothing was changed."""


class Environment:
    """The layers of one kernel, over `os.environ`."""

    def __init__(self) -> None:
        self._layers: dict[str, dict[str, str]] = {layer: {} for layer in LAYERS}
        # What the process had under a layered variable, None for nothing.
        self._beneath: dict[str, str | None] = {}

    def set_layer(self, layer: str, variables: Mapping[str, str]) -> None:
        """Replace one lasting layer."""
        if layer not in LAYERS:
            raise InvalidEnvironment(f"there is no layer {layer!r}; the layers are {', '.join(LAYERS)}")
        check_variables(variables)
        before = self._effective()
        self._layers[layer] = dict(variables)
        after = self._effective()
        for name in before.keys() | after.keys():
            if before.get(name) == after.get(name):
                continue
            if name not in before:
                self._beneath[name] = os.environ.get(name)
            _assign(name, after[name] if name in after else self._beneath.pop(name))

    def enter_execution(self, variables: Mapping[str, str]) -> dict[str, str | None]:
        """Set variables for one execution; returns what `leave_execution` needs to restore them."""
        check_variables(variables)
        saved = {name: os.environ.get(name) for name in variables}
        for name, value in variables.items():
            _assign(name, value)
        return saved

    def leave_execution(self, saved: Mapping[str, str | None]) -> None:
        """Restore what was there before, whatever the cell did to these variables."""
        for name, value in saved.items():
            _assign(name, value)

    def _effective(self) -> dict[str, str]:
        merged: dict[str, str] = {}
        for layer in LAYERS:
            merged.update(self._layers[layer])
        return merged


def check_variables(variables: object) -> None:
    """Refuse what `putenv` would refuse, before anything is changed."""
    if not isinstance(variables, Mapping):
        raise InvalidEnvironment("the environment must be an object of strings")
    for name, value in variables.items():
        if not isinstance(value, str):
            raise InvalidEnvironment(f"the value of {name!r} is not a string")
        if not name or "=" in name or "\0" in name:
            raise InvalidEnvironment(f"{name!r} cannot be the name of an environment variable")
        if "\0" in value:
            raise InvalidEnvironment(f"the value of {name!r} contains a NUL character")
        try:
            os.fsencode(name), os.fsencode(value)
        except UnicodeEncodeError:
            raise InvalidEnvironment(f"{name!r} or its value is not valid Unicode") from None


def _assign(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
