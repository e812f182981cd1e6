"""Frames on the socket: four bytes of length, most significant first, then that many bytes of JSON.

Any Python statement may be cut off by an exception that a signal handler raises (an interrupt, or the
user's own alarm), and half a frame would ruin everything after it. Therefore the unsent bytes always
live in a `BufferedWriter`: its C code takes a frame whole or not at all, and remembers how far it got
when a flush is cut off. The next writer, whoever it is, sends the rest first.

Writing blocks while the peer does not read. That is the back-pressure on user code, and an interrupt
ends the wait without losing what was accepted.
"""

from __future__ import annotations

import _thread
import array
import io
import os
import select
import socket
import struct
from collections import deque

EVERYDAY_FRAME = 1 << 20
"""Frames from this size on get a buffer of their own."""

PEER_GONE = 76
"""Exit status when nobody reads any more: what cannot be delivered must not be computed either."""

_LENGTH = struct.Struct(">I")

_DESCRIPTORS = socket.CMSG_SPACE(4 * array.array("i").itemsize)


class FrameTooLarge(Exception):
    """A message of 4 GiB or more cannot be framed; the value it carries cannot be shown."""


class _Descriptor(io.FileIO):
    """A raw stream that a dropped BufferedWriter cannot close."""

    def close(self) -> None:
        pass


def _frame(body: str) -> tuple[bytes, bytes]:
    payload = body.encode("ascii")
    if len(payload) >= 1 << 32:
        raise FrameTooLarge
    return _LENGTH.pack(len(payload)), payload


class Wire:
    """The sending half of the connection; safe to use from any thread."""

    def __init__(self, sock: socket.socket) -> None:
        self._raw = _Descriptor(sock.fileno(), "wb", closefd=False)
        self._everyday = io.BufferedWriter(self._raw, EVERYDAY_FRAME)
        self._writer = self._everyday
        # Frames from a signal handler that ran inside the writer itself, in the same thread.
        self._postponed: deque[list[bytes]] = deque()
        # Public for whoever must compose and post as one step.
        self.lock = _thread.RLock()

    def post(self, *bodies: str, receipts: list[int] | None = None) -> None:
        """Accept ASCII messages, all or none. They are on their way only after a `flush`, but cannot be lost any more.

        `receipts` gets an entry in the moment of acceptance. It tells a caller whose call was cut off by
        an exception whether the message was accepted before.
        """
        parts = [part for body in bodies for part in _frame(body)]
        receipts = [] if receipts is None else receipts
        with self.lock:
            try:
                self._accept(parts, receipts)
            except RuntimeError:
                self._postponed.append(parts)
                receipts.append(len(parts))
            except OSError:
                self._exit_if_peer_is_gone()
                raise

    def flush(self) -> None:
        """Wait until everything accepted so far is in the socket."""
        with self.lock:
            try:
                self._writer.flush()
                while self._postponed:
                    self._accept(self._postponed[0], [])
                    self._postponed.popleft()
                    self._writer.flush()
                self._writer = self._everyday
            except RuntimeError:
                # We are a signal handler inside this very flush, which goes on when we return.
                return
            except OSError:
                self._exit_if_peer_is_gone()
                raise

    def send(self, body: str) -> None:
        """`post` and `flush`."""
        self.post(body)
        self.flush()

    def _accept(self, parts: list[bytes], receipts: list[int]) -> None:
        size = sum(map(len, parts))
        if size >= EVERYDAY_FRAME:
            # The large buffer becomes the writer while it is empty: whatever happens afterwards, there
            # is exactly one place where unsent bytes can be.
            self._writer.flush()
            self._writer = io.BufferedWriter(self._raw, size + 1)
        else:
            # In one piece, because the writer may have to flush before it takes the next.
            parts = [b"".join(parts)]
        # One call into C takes everything and writes the receipt; no signal handler can run in between.
        receipts.extend(map(self._writer.write, parts))

    def _exit_if_peer_is_gone(self) -> None:
        """The error may also come from a signal handler of the user's, who may like OSErrors."""
        hung_up = select.poll()
        hung_up.register(self._raw.fileno(), 0)
        if hung_up.poll(0):
            os._exit(PEER_GONE)


def receive(sock: socket.socket, size: int, flags: int) -> tuple[bytes, list[int]]:
    """Bytes, and the descriptors that came with them. No bytes: the peer has hung up."""
    data, ancillary, _, _ = sock.recvmsg(size, _DESCRIPTORS, flags | socket.MSG_CMSG_CLOEXEC)
    descriptors = array.array("i")
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(content[: len(content) // descriptors.itemsize * descriptors.itemsize])
    return data, list(descriptors)


class FrameReader:
    """The receiving half: collects bytes and yields whole messages."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        # Taken out while a cell waited for another, and not handled yet.
        self._kept: deque[bytes] = deque()

    def feed(self, data: bytes) -> None:
        self._bytes += data

    def clear(self) -> None:
        self._bytes.clear()
        self._kept.clear()

    def next_message(self) -> bytes | None:
        """The oldest complete message, if there is one."""
        return self._kept.popleft() if self._kept else self.next_frame()

    def keep(self, message: bytes) -> None:
        """Put back what `next_frame` returned, behind what was put back before."""
        self._kept.append(message)

    def next_frame(self) -> bytes | None:
        """The oldest message that nobody has seen, if there is one."""
        if len(self._bytes) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._bytes)
        end = _LENGTH.size + length
        if len(self._bytes) < end:
            return None
        message = bytes(self._bytes[_LENGTH.size : end])
        del self._bytes[:end]
        return message
