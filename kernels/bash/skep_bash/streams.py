"""What the shell and its children print: bytes from a pipe, put together to characters."""

from __future__ import annotations

import codecs
import fcntl
import os
import struct
import termios

READ_SIZE = 1 << 16
"""Bytes of one read, and so the most characters of one message."""


class Stream:
    """Standard output or standard error of the shell."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read(self, limit: int = READ_SIZE) -> str:
        """What is there, up to `limit` bytes. Part of a character is kept for the next read."""
        try:
            data = os.read(self.reader, min(limit, READ_SIZE - 4))
        except BlockingIOError:
            return ""
        return self._decoder.decode(data)

    def waiting(self) -> int:
        """Bytes in the pipe. To have all of a cell is to read these: something in the background may write for ever."""
        return unread(self.reader)

    def finish(self) -> str:
        """What is left of an unfinished character: a cell does not end in the middle of one."""
        rest = self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return rest


def unread(pipe: int) -> int:
    """Bytes in a pipe, of which this is either end."""
    answer = fcntl.ioctl(pipe, termios.FIONREAD, b"\0\0\0\0")
    return int(struct.unpack("i", answer)[0])
