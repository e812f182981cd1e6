"""Lines that a cell asks its peer for: `input`, `getpass` and `sys.stdin`.

A cell may ask only if its request said that somebody answers; otherwise waiting would hang the context.
"""

from __future__ import annotations

import io
import json
import select
import signal
import socket
import threading
from typing import TYPE_CHECKING, Any

from IPython.core.error import StdinNotImplementedError

from .wire import FrameReader

if TYPE_CHECKING:
    from .outlet import Outlet

RECEIVE_SIZE = 1 << 16


class Input:
    """Asks the peer, and waits for its answer."""

    def __init__(self, sock: socket.socket, frames: FrameReader, outlet: Outlet) -> None:
        self._sock = sock
        self._frames = frames
        self._outlet = outlet
        self._main_thread = threading.main_thread().ident
        self._asked = 0
        self.allowed = False
        """Whether the running cell may ask."""

    def ask(self, function: str, prompt: str = "", password: bool = False) -> str:
        """One line without its end. Raises EOFError if the answer is that there is none."""
        if not self.allowed:
            raise StdinNotImplementedError(f"{function} was called, but this frontend does not support input requests.")
        if threading.get_ident() != self._main_thread:
            # The main thread may end the cell, and read the next request, while this one waits.
            raise StdinNotImplementedError(f"{function} was called in a thread, but only the main thread can ask.")
        self._asked += 1
        identifier = f"i{self._asked}"
        self._outlet.input_request(identifier, prompt, password)
        readable = select.poll()
        readable.register(self._sock, select.POLLIN)
        while True:
            # An interrupt ends this wait, and nothing else here.
            readable.poll()
            answer = self._receive(identifier)
            if answer is not None:
                break
        value = answer.get("value")
        if not isinstance(value, str):
            raise EOFError
        return value

    def _receive(self, identifier: str) -> dict[str, Any] | None:
        """The answer, if it has come. Whole or not at all: half a frame would ruin all that follow."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            return self._receive_now(identifier)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _receive_now(self, identifier: str) -> dict[str, Any] | None:
        try:
            data = self._sock.recv(RECEIVE_SIZE, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        except ConnectionError:
            data = b""
        if not data:
            # The kernel ends when the cell has; until then there is no more input.
            return {}
        self._frames.feed(data)
        while (frame := self._frames.next_frame()) is not None:
            message: dict[str, Any] = json.loads(frame)
            if message.get("type") != "input_reply":
                self._frames.keep(frame)
            elif message.get("parent") == identifier:
                return message
        return None


class StandardInput(io.TextIOWrapper):
    """`sys.stdin`: each line is asked for when it is read. It is at its end where nobody can be asked."""

    def __init__(self, source: Input) -> None:
        super().__init__(open(0, "rb", closefd=False), encoding="utf-8")
        self._source = source
        self._rest = ""

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        if not self._rest and self._source.allowed:
            try:
                self._rest = self._source.ask("readline") + "\n"
            except EOFError:
                return ""
        end = self._rest.find("\n") + 1 or len(self._rest)
        return self._take(end if size < 0 else min(size, end))

    def read(self, size: int | None = -1, /) -> str:
        if size is None or size < 0:
            return "".join(iter(self.readline, ""))
        return self.readline(size)

    def __next__(self) -> str:
        line = self.readline()
        if not line:
            raise StopIteration
        return line

    def _take(self, length: int) -> str:
        taken, self._rest = self._rest[:length], self._rest[length:]
        return taken
