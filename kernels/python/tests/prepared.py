"""Kernels that are forked from a prepared process."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from kernel_client import DEADLINE_SECONDS, KernelClient

PACKAGE_DIRECTORY = Path(__file__).parent.parent


class Zygote:
    """A prepared process from which kernels are forked in milliseconds."""

    def __init__(self, preload: Iterable[str] = ()) -> None:
        self._control, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.zygote", str(theirs.fileno()), *preload],
            pass_fds=[theirs.fileno()],
            cwd=PACKAGE_DIRECTORY,
        )
        theirs.close()
        self._control.settimeout(DEADLINE_SECONDS)
        assert self._control.recv(16) == b"prepared"

    def fork(self) -> KernelClient:
        ours, theirs = socket.socketpair()
        socket.send_fds(self._control, [b"f"], [theirs.fileno()])
        theirs.close()
        return KernelClient(ours, int(self._control.recv(16)))

    def close(self) -> None:
        self._control.close()
        self._process.wait(DEADLINE_SECONDS)
