"""What a process must renew that was forked from a prepared one."""

from __future__ import annotations

import os
import random
import sys

from .shell import ZMQInteractiveShell


def renew_identity(shell: ZMQInteractiveShell) -> None:
    """Own randomness, own directory. Harmless in a process that was not forked."""
    random.seed()
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.seed()
    shell.user_ns["_dh"] = [_current_directory()]
    if "" not in sys.path:
        # Imports look into the current directory, as in any notebook.
        sys.path.insert(0, "")


def _current_directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "/"
