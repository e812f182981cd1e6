"""Skep's Python kernel: IPython's shell behind one Unix socket.

`prepare` imports and builds everything that costs time and leaves the process with one thread and no
socket, so that a zygote may fork it. `serve` turns a prepared process into a kernel and does not
return until the peer asks for the end. The messages are described in `PROTOCOL.md`.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .shell import ZMQInteractiveShell

__all__ = ["PROTOCOL_VERSION", "__version__", "prepare", "serve"]

__version__ = "0.1.0"

PROTOCOL_VERSION = 1
"""Raised when a peer that follows the old `PROTOCOL.md` would misunderstand the new one."""


def prepare(preload: Sequence[str] = ()) -> ZMQInteractiveShell:
    """Build the shell and import `preload`; afterwards the process may be forked.

    Calling it again returns the same shell.
    """
    from .preparation import prepare as build

    return build(preload)


def serve(sock: socket.socket) -> int:
    """Serve one peer over `sock` until it asks for the end or hangs up; returns the exit status.

    Takes over file descriptors 0, 1 and 2, SIGINT and the main thread's event loop. Call it at most
    once in a process.
    """
    from .server import Server

    return Server(prepare(), sock).run()
