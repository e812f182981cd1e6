"""What a process must renew that was forked from a prepared one, or is a copy of another sandbox's."""

from __future__ import annotations

import os
import random
import sys

from .shell import ZMQInteractiveShell


def renew_identity(shell: ZMQInteractiveShell) -> None:
    """Own randomness, own directory. Harmless in a process that was not forked."""
    _seed()
    shell.user_ns["_dh"] = [_current_directory()]
    if "" not in sys.path:
        # Imports look into the current directory, as in any notebook.
        sys.path.insert(0, "")


def renew_randomness() -> None:
    """Seeds everything anew that would give the same numbers in every copy of this process's memory."""
    _seed()
    ssl = sys.modules.get("ssl")
    if ssl is not None:
        # OpenSSL notices a fork by itself, but not that its memory was copied otherwise. Not for forks: the first
        # call makes megabytes of it private.
        ssl.RAND_add(os.urandom(32), 32.0)


def _seed() -> None:
    random.seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.seed()


def _current_directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "/"
