"""What the shell and its children print: bytes from a pipe, put together to characters."""

from __future__ import annotations

import codecs
import fcntl
import os
import struct
import termios

READ_SIZE = 1 << 15
"""Bytes of one read. With what was kept of a line before, a message has less than twice as many characters."""

LINE_SECONDS = 0.02
"""How long the rest of a line is awaited."""


class Stream:
    """Standard output or standard error of the shell."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._line = ""
        self._line_began = 0.0

    def read(self, limit: int) -> str:
        """What is there, up to `limit` bytes. Part of a character is kept for the next read."""
        try:
            data = os.read(self.reader, min(limit, READ_SIZE))
        except BlockingIOError:
            return ""
        return self._decoder.decode(data)

    def waiting(self) -> int:
        """Bytes in the pipe. To have all of a cell is to read these: something in the background may write for ever."""
        return unread(self.reader)

    def lines(self, text: str, now: float) -> str:
        """What of this is to be told at once: programs write a line in pieces, which belong together.

        An unfinished line is kept for a moment; see `seconds_left` and `unfinished`.
        """
        if not self._line:
            self._line_began = now
        text = self._line + text
        end = len(text) if len(text) >= READ_SIZE else text.rfind("\n") + 1
        self._line = text[end:]
        return text[:end]

    def seconds_left(self, now: float) -> float | None:
        """How long the unfinished line may be kept, if there is one."""
        return max(0.0, self._line_began + LINE_SECONDS - now) if self._line else None

    def unfinished(self) -> str:
        """The unfinished line, which is kept no longer."""
        line, self._line = self._line, ""
        return line

    def finish(self) -> str:
        """All that is kept: a cell does not end in the middle of a line, nor of a character."""
        rest = self.unfinished() + self._decoder.decode(b"", final=True)
        self._decoder.reset()
        return rest


def unread(pipe: int) -> int:
    """Bytes in a pipe, of which this is either end."""
    answer = fcntl.ioctl(pipe, termios.FIONREAD, b"\0\0\0\0")
    return int(struct.unpack("i", answer)[0])
