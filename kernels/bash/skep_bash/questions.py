"""Questions about code that is not run: what may follow it, what a name in it is, whether it is whole.

The shell itself is asked, because it alone knows its functions, aliases and variables. Only builtins run there.
"""

from __future__ import annotations

import re

from . import __version__, syntax
from .quoting import has_bytes, is_name, word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Ask = Callable[[bytes], list[bytes]]

MOST_MATCHES = 1000
"""A person looks at a screenful; a folder may have tens of thousands of files."""

_VARIABLE = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)?$", re.ASCII)
_WORD = re.compile(r"(?:[^\s;&|()<>`\"'=$\\]|\\.)*$")
_COMMAND_BEGINS = re.compile(r"(?:^|[;&|(`\n]|\$\(|\b(?:then|do|else|elif|if|while|until|time)\s|!)\s*$")
_NAME_AFTER = re.compile(r"[^\s;&|()<>`\"'=$\\/]*")


def complete(ask: Ask, request: dict[str, Any], _options: str) -> dict[str, Any]:
    """What could stand between `cursor_start` and `cursor_end` instead."""
    before, _after = _at_cursor(request)
    variable = _VARIABLE.search(before)
    if variable is not None:
        typed, action = variable[1] or "", b"-A variable"
    else:
        found = _WORD.search(before)
        typed = found[0] if found else ""
        begins = _COMMAND_BEGINS.search(before[: len(before) - len(typed)]) and "/" not in typed
        action = b"-A command" if begins else b"-A file"
    said = b"".join(ask(b"\\builtin compgen %s -- %s" % (action, word(typed))))
    matches = sorted(set(said.decode("utf-8", "replace").splitlines()))
    start = len(before) - len(typed)
    return {"matches": matches[:MOST_MATCHES], "cursor_start": start, "cursor_end": len(before)}


def inspect(ask: Ask, request: dict[str, Any], _options: str) -> dict[str, Any]:
    """What is known of the name at the cursor: a variable, a command, a function; its source if that is asked for."""
    before, after = _at_cursor(request)
    detail = request.get("detail", 0)
    if detail not in (0, 1):
        raise ValueError("detail is 0 or 1")
    variable = _VARIABLE.search(before)
    head = (variable[1] or "") if variable else (_WORD.search(before) or [""])[0]
    name = head + (_NAME_AFTER.match(after) or [""])[0]
    text = _described(ask, name, detail) if name else ""
    return {"found": bool(text), "data": {"text/plain": text} if text else {}}


def _described(ask: Ask, name: str, detail: int) -> str:
    parts = []
    if is_name(name):
        parts += ask(b"\\builtin declare -p %s 2>/dev/null" % name.encode())
    kind, *_ = [*ask(b"\\builtin type -t -- %s" % word(name)), b""]
    if kind.strip() == b"builtin" or kind.strip() == b"keyword":
        parts += ask(b"\\builtin help -- %s 2>/dev/null" % word(name))
    elif kind.strip():
        (said,) = ask(b"\\builtin type -- %s 2>/dev/null" % word(name))
        # The first line says what it is; the body of a function follows.
        parts.append(said if detail == 1 else said.split(b"\n", 1)[0])
    return b"\n".join(part.strip(b"\n") for part in parts if part.strip()).decode("utf-8", "replace")


def is_complete(_ask: Ask, request: dict[str, Any], options: str) -> dict[str, Any]:
    """Whether a prompt should run the code or ask for another line."""
    code = "".join(_at_cursor(request))
    if "\0" in code:
        return {"completeness": "invalid", "indent": ""}
    read = syntax.read(code, options)
    if read.ends_too_early or _is_continued(code):
        last = code.rstrip().rpartition("\n")[2]
        return {"completeness": "incomplete", "indent": last[: len(last) - len(last.lstrip())]}
    return {"completeness": "invalid" if read.is_misspelt else "complete", "indent": ""}


def _is_continued(code: str) -> bool:
    """Whether the last line ends with a backslash that is not escaped itself."""
    line = code.rpartition("\n")[2]
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def info(ask: Ask, _request: dict[str, Any], _options: str) -> dict[str, Any]:
    """The language and who speaks it."""
    version = b"".join(ask(b'\\builtin printf %s "$BASH_VERSION"')).decode("utf-8", "replace")
    return {
        "language": "bash",
        "version": version,
        "mimetype": "text/x-sh",
        "file_extension": ".sh",
        "kernel": f"skep_bash {__version__}",
    }


QUESTIONS: dict[str, Callable[[Ask, dict[str, Any], str], dict[str, Any]]] = {
    "complete": complete,
    "inspect": inspect,
    "is_complete": is_complete,
    "info": info,
}


def _at_cursor(request: dict[str, Any]) -> tuple[str, str]:
    code = request["code"]
    if not isinstance(code, str) or not has_bytes(code):
        raise TypeError("code is a string")
    cursor = request.get("cursor", len(code))
    if not isinstance(cursor, int) or not 0 <= cursor <= len(code):
        raise ValueError("the cursor is a number of characters of the code")
    return code[:cursor], code[cursor:]
