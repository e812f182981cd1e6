"""Questions about code that is not run: what may follow it, what a name in it is, whether it is whole.

To answer them code of the user's may run all the same: a property, `__dir__`, a `__repr__`. What that raises is the
answer's error, and what it prints belongs to no execution.
"""

from __future__ import annotations

import platform
import warnings
from collections.abc import Callable
from typing import Any

from IPython.core.completer import provisionalcompleter, rectify_completions
from IPython.utils.tokenutil import token_at_cursor

from . import __version__
from .shell import ZMQInteractiveShell

MOST_MATCHES = 1000
"""A person looks at a screenful; a module may have tens of thousands of names."""


def complete(shell: ZMQInteractiveShell, request: dict[str, Any]) -> dict[str, Any]:
    """What could stand between `cursor_start` and `cursor_end` instead."""
    code, cursor = _code_and_cursor(request)
    with provisionalcompleter(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(rectify_completions(code, shell.Completer.completions(code, cursor)))
    start, end = (found[0].start, found[0].end) if found else (cursor, cursor)
    matches = list(dict.fromkeys(completion.text for completion in found))
    return {"matches": matches[:MOST_MATCHES], "cursor_start": start, "cursor_end": end}


def inspect(shell: ZMQInteractiveShell, request: dict[str, Any]) -> dict[str, Any]:
    """What is known of the name at the cursor: its signature and documentation, or its source too."""
    code, cursor = _code_and_cursor(request)
    name = token_at_cursor(code, cursor)
    detail = request.get("detail", 0)
    if detail not in (0, 1):
        raise ValueError("detail is 0 or 1")
    if not name or not shell.object_inspect(name).get("found"):
        return {"found": False, "data": {}}
    return {"found": True, "data": shell.object_inspect_mime(name, detail_level=detail)}


def is_complete(shell: ZMQInteractiveShell, request: dict[str, Any]) -> dict[str, Any]:
    """Whether a prompt should run the code or ask for another line, and how far to indent that."""
    code, _ = _code_and_cursor(request)
    completeness, indent = shell.input_transformer_manager.check_complete(code)
    return {"completeness": completeness, "indent": " " * (indent or 0)}


def info(_shell: ZMQInteractiveShell, _request: dict[str, Any]) -> dict[str, Any]:
    """The language and who speaks it."""
    return {
        "language": "python",
        "version": platform.python_version(),
        "mimetype": "text/x-python",
        "file_extension": ".py",
        "kernel": f"skep_kernel {__version__}",
    }


QUESTIONS: dict[str, Callable[[ZMQInteractiveShell, dict[str, Any]], dict[str, Any]]] = {
    "complete": complete,
    "inspect": inspect,
    "is_complete": is_complete,
    "info": info,
}


def _code_and_cursor(request: dict[str, Any]) -> tuple[str, int]:
    code = request["code"]
    if not isinstance(code, str):
        raise TypeError("code is a string")
    cursor = request.get("cursor", len(code))
    if not isinstance(cursor, int) or not 0 <= cursor <= len(code):
        raise ValueError("the cursor is a number of characters of the code")
    return code, cursor
