"""`sys.stdout` and `sys.stderr` of user code.

A line is on the wire before `write` returns, so that nothing printed is lost when the process dies in
the next statement. Only an unfinished line is held back (a `print` is two writes, and one `print`
should be one message): until its end comes, `flush` is called, or some milliseconds have passed.
"""

from __future__ import annotations

import _thread
import io
import os
from collections.abc import Callable, Iterable
from typing import Any

from .encoding import whole_text
from .outlet import LARGEST_TEXT, Outlet

LARGEST_HELD = 8192
"""An unfinished line of this length is sent as it is."""


class OutStream(io.TextIOBase):
    """One of the two text streams of user code."""

    def __init__(self, name: str, descriptor: int, outlet: Outlet) -> None:
        self.short_name = name
        self._descriptor = descriptor
        self._outlet = outlet
        self._lock = _thread.RLock()
        # The text that waits, and how much of it the wire has accepted.
        self._held = ""
        self._sent = 0
        # The piece that is being posted, and the wire's receipt for it: an exception from a signal
        # handler may keep us from noting the one after we got the other.
        self._piece = 0
        self._receipts: list[int] = []
        # Text of a signal handler that ran while this thread was sending.
        self._sending = False
        self._postponed: list[str] = []
        self._in_child = False
        self._buffer: _DescriptorBuffer | None = None
        # Forwards what was written to the descriptors before, so that order is kept.
        self.before_text: Callable[[], None] = lambda: None
        # Asks somebody to flush an unfinished line soon.
        self.line_pending: Callable[[], None] = lambda: None

    name = property(lambda self: f"<{self.short_name}>")
    mode = property(lambda self: "w")
    encoding = property(lambda self: "utf-8")
    errors = property(lambda self: "replace")
    newlines = property(lambda self: None)
    line_buffering = property(lambda self: True)
    write_through = property(lambda self: False)

    @property
    def buffer(self) -> _DescriptorBuffer:
        """The binary layer, for code that writes bytes."""
        if self._buffer is None:
            self._buffer = _DescriptorBuffer(self)
        return self._buffer

    @property
    def holds_text(self) -> bool:
        """Whether an unfinished line waits here."""
        return bool(self._held)

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return False

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def reconfigure(self, **_options: Any) -> None:
        """Accepted for scripts that ask for UTF-8; it is UTF-8 already."""

    def close(self) -> None:
        """A kernel without output would be of no use, so closing is only flushing."""
        self.flush()

    def __del__(self) -> None:
        """TextIOBase would close here, and flush to a wire that may be gone."""

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        with self._lock:
            if self._sending:
                self._postponed.append(text)
            else:
                self._hold(text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:  # type: ignore[override]
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        with self._lock:
            if self._held and not self._sending:
                self._send_held()

    def send_unfinished_line(self) -> None:
        """Send what waits here, unless another thread is writing at this moment. For the pump's thread."""
        if self._held and self._lock.acquire(blocking=False):
            try:
                self.flush()
            finally:
                self._lock.release()

    def continue_in_child(self) -> None:
        """After a fork: write to the descriptor, which the parent reads. The held text is the parent's."""
        self._lock = _thread.RLock()
        self._held = ""
        self._sent = self._piece = 0
        self._receipts.clear()
        self._sending = False
        self._in_child = True
        self.before_text = self.line_pending = lambda: None

    def _hold(self, text: str) -> None:
        if not self._held:
            # What was written to the descriptor until now comes before this text, what follows after it.
            self.before_text()
        self._note_receipt()
        self._held = self._held[self._sent :] + text
        self._sent = 0
        if "\n" in text or len(self._held) >= LARGEST_HELD:
            self._send_held()
        elif text:
            self.line_pending()

    def _send_held(self) -> None:
        if self._in_child:
            # In one piece, so that lines of several children do not mix.
            held, self._held = self._held, ""
            write_all(self._descriptor, whole_text(held).encode("utf-8"))
            return
        self._sending = True
        try:
            self._note_receipt()
            while self._sent < len(self._held):
                piece = self._held[self._sent : self._sent + LARGEST_TEXT]
                self._piece = len(piece)
                self._outlet.post_text(self.short_name, piece, self._receipts)
                self._note_receipt()
            self._held = ""
            self._sent = 0
            self._outlet.wire.flush()
        finally:
            self._sending = False
        if self._postponed:
            texts, self._postponed = self._postponed, []
            self._hold("".join(texts))

    def _note_receipt(self) -> None:
        if self._receipts:
            self._sent += self._piece
            self._piece = 0
            self._receipts.clear()


class _DescriptorBuffer(io.RawIOBase):
    """`sys.stdout.buffer`: bytes go to the descriptor, behind the text written before."""

    def __init__(self, stream: OutStream) -> None:
        self._stream = stream

    @property
    def raw(self) -> _DescriptorBuffer:
        return self

    def fileno(self) -> int:
        return self._stream.fileno()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._stream.flush()
        return write_all(self._stream.fileno(), data)

    def close(self) -> None:
        """The descriptor is not ours to close."""


def write_all(descriptor: int, data: Any) -> int:
    """Write every byte, waiting as long as the reader needs."""
    view = memoryview(data).cast("B")
    total = len(view)
    while view:
        view = view[os.write(descriptor, view) :]
    return total
