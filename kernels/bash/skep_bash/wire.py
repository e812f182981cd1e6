"""Frames on the socket: four bytes of length, most significant first, then that many bytes of JSON.

Nothing here waits. What the socket does not take stays in a buffer, and while that is full nobody may
read more output from the shell, so that the code that prints waits for the peer.
"""

from __future__ import annotations

import json
import os
import struct
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FULL = 1 << 18
"""Bytes in the buffer from which on no more output is taken. One message may go beyond it."""

_LENGTH = struct.Struct(">I")


class PeerGone(Exception):
    """Nobody reads any more."""


class Wire:
    """Both halves of the connection."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._outgoing = bytearray()
        self._incoming = bytearray()
        # Requests that came while a cell waited for an answer.
        self._kept: list[dict[str, Any]] = []

    def fileno(self) -> int:
        return self._descriptor

    @property
    def has_room(self) -> bool:
        return len(self._outgoing) < FULL

    @property
    def is_flushed(self) -> bool:
        return not self._outgoing

    def send(self, kind: str, /, **fields: Any) -> None:
        """Accept a message and send what the socket takes."""
        body = json.dumps({"type": kind, **fields}).encode("ascii")
        self._outgoing += _LENGTH.pack(len(body))
        self._outgoing += body
        self.flush()

    def flush(self) -> None:
        """Send as much as is possible without waiting."""
        try:
            while self._outgoing:
                sent = os.write(self._descriptor, self._outgoing)
                del self._outgoing[:sent]
        except BlockingIOError:
            return
        except OSError as error:
            raise PeerGone from error

    def receive(self) -> None:
        """Take what the peer has sent."""
        try:
            data = os.read(self._descriptor, 1 << 18)
        except BlockingIOError:
            return
        except OSError as error:
            raise PeerGone from error
        if not data:
            raise PeerGone
        self._incoming += data

    def next_request(self) -> dict[str, Any] | None:
        """The oldest request that is complete."""
        return self._kept.pop(0) if self._kept else self._next_message()

    def next_answer(self, asked: str) -> dict[str, Any] | None:
        """The answer to what was asked under this id, if it has come. Requests before it wait for their turn."""
        while (message := self._next_message()) is not None:
            if message.get("type") != "input_reply":
                self._kept.append(message)
            elif message.get("parent") == asked:
                return message
        return None

    def _next_message(self) -> dict[str, Any] | None:
        if len(self._incoming) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._incoming)
        end = _LENGTH.size + length
        if len(self._incoming) < end:
            return None
        request: dict[str, Any] = json.loads(self._incoming[_LENGTH.size : end])
        del self._incoming[:end]
        return request


def now() -> int:
    """Microseconds since the epoch."""
    return time.time_ns() // 1000
