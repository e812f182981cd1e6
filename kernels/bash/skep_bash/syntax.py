"""What bash makes of code without running it."""

from __future__ import annotations

import os

from .shell import BASH

WAITS = ("unexpected end of file", "unexpected EOF", "here-document at line")
"""Complaints of bash, in its own language, about code that ends in the middle of something."""


class Syntax:
    """What a bash that only reads says of a piece of code."""

    def __init__(self, status: int, complaints: str) -> None:
        self.status = status
        self.complaints = complaints

    @property
    def is_misspelt(self) -> bool:
        """Whether bash cannot even parse this. Its status 2 alone does not say: many programs end with it."""
        return self.status != 0

    @property
    def ends_too_early(self) -> bool:
        """Whether more lines could help. For a here-document without its end bash only warns."""
        return any(complaint in self.complaints for complaint in WAITS)


def read(code: str, options: str) -> Syntax:
    """Have a bash read `code`; `options` are the `$BASHOPTS` of the shell that would run it."""
    extended = "-O" if "extglob" in options.split(":") else "+O"
    memory = os.memfd_create("cell", os.MFD_CLOEXEC)
    errors = os.memfd_create("errors", os.MFD_CLOEXEC)
    try:
        os.write(memory, code.encode("utf-8"))
        path = f"/proc/{os.getpid()}/fd/{memory}"
        nothing = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(2)]
        actions = [*nothing, (os.POSIX_SPAWN_DUP2, errors, 2)]
        command = ["bash", extended, "extglob", "-n", path]
        pid = os.posix_spawn(BASH, command, {"LC_ALL": "C"}, file_actions=actions)
        status = os.waitpid(pid, 0)[1]
        return Syntax(status, os.pread(errors, 1 << 16, 0).decode("utf-8", "replace"))
    finally:
        os.close(memory)
        os.close(errors)
