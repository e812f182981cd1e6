"""Output that does not pass through `sys.stdout`: C libraries, child processes, `os.write(1, …)`.

Descriptors 1 and 2 are pipes. While a cell runs the main thread cannot read them, so a thread does; it
ends when the kernel has been idle for a moment, because an idle process must be forkable. The thread
also sends unfinished lines that have waited long enough. It blocks when the peer does not read, the pipes fill, and the
writers block: nothing is thrown away.
"""

from __future__ import annotations

import _thread
import codecs
import contextlib
import os
import select
import signal
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from .interrupts import SignalBell
from .outlet import Outlet
from .streams import OutStream

PIPE_CAPACITY = 65536
"""What a pipe holds: one read of this size takes everything that was written before it."""

PATIENCE_MILLISECONDS = 20
"""How long an unfinished line may wait for its end."""


ROUSE_MILLISECONDS = 10
"""How long after a signal the main thread is roused, and how long after that again."""

ROUSE_ATTEMPTS = 3


def _decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")(errors="replace")


@dataclass
class _Pipe:
    stream: OutStream
    reader: int
    decoder: codecs.IncrementalDecoder = field(default_factory=_decoder)


class Pump:
    """Reads what arrives at descriptors 1 and 2 and forwards it to the outlet."""

    def __init__(self, outlet: Outlet, streams: Sequence[OutStream], signals: SignalBell) -> None:
        self._outlet = outlet
        self._signals = signals
        self._attempts_left = 0
        self._streams = streams
        self._pipes = [self._replace_descriptor(stream) for stream in streams]
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        # Unlike a poll object, this may be asked by several threads at once.
        self._readable = select.epoll()
        self._anything = select.poll()
        for pipe in self._pipes:
            self._readable.register(pipe.reader, select.EPOLLIN)
            self._anything.register(pipe.reader, select.POLLIN)
        self._anything.register(self._wake, select.POLLIN)
        self._anything.register(signals.reader, select.POLLIN)
        # Held from before a read until its text is on the wire.
        self._forwarding = _thread.allocate_lock()
        self._waiting: deque[_thread.LockType] = deque()
        self._ended = _thread.allocate_lock()
        self._running = False
        self._dozing = False
        self._thread = 0

    @staticmethod
    def _replace_descriptor(stream: OutStream) -> _Pipe:
        reader, writer = os.pipe()
        os.dup2(writer, stream.fileno(), inheritable=True)
        os.close(writer)
        os.set_blocking(reader, False)
        return _Pipe(stream, reader)

    @property
    def readers(self) -> list[int]:
        """Descriptors that become readable when something was written."""
        return [pipe.reader for pipe in self._pipes]

    def start(self) -> None:
        """Have a thread. Without one (the process may be at its limit) output waits for the cell's end."""
        if self._running:
            return
        self._running = True
        self._ended.acquire()
        try:
            _thread.start_new_thread(self._run, ())
        except RuntimeError:
            self._running = False
            self._ended.release()

    def stop(self) -> None:
        """End the thread and wait for it."""
        if self._running:
            self._running = False
            os.eventfd_write(self._wake, 1)
            with self._ended:
                pass

    def finish_characters(self) -> None:
        """A cell that ends within a character will not finish it."""
        with self._forwarding:
            for pipe in self._pipes:
                self._send(pipe, pipe.decoder.decode(b"", final=True))
                pipe.decoder.reset()

    def sync(self) -> None:
        """Return when everything that was written before this call is on the wire."""
        if _thread.get_ident() == self._thread:
            return
        if not self._forwarding.locked() and not self._readable.poll(0):
            return
        if not self._running:
            self.forward()
            return
        done = _thread.allocate_lock()
        done.acquire()
        self._waiting.append(done)
        os.eventfd_write(self._wake, 1)
        # The thread may have ended between the check and the request, without having seen it.
        while not done.acquire(timeout=0.1):
            if not self._running:
                self.forward()
                return

    def renew(self) -> None:
        """In a copy of the kernel, which has no thread: pipes of its own, wherever the user has put their ends."""
        for pipe in self._pipes:
            number = pipe.reader
            writers = [held for held in _held_open(number) if held != number]
            reader, writer = os.pipe()
            os.set_blocking(reader, False)
            for held in writers:
                os.dup2(writer, held, inheritable=os.get_inheritable(held))
            os.dup2(reader, number, inheritable=False)
            os.close(reader)
            os.close(writer)
        wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        os.dup2(wake, self._wake, inheritable=False)
        os.close(wake)
        self._readable.close()
        self._readable = select.epoll()
        for pipe in self._pipes:
            self._readable.register(pipe.reader, select.EPOLLIN)

    def leave_in_child(self) -> None:
        """After a fork: the pipes are the parent's to read."""
        self._running = False
        for pipe in self._pipes:
            os.close(pipe.reader)
        os.close(self._wake)
        self._readable.close()

    def nudge(self) -> None:
        """An unfinished line is waiting; see to it that the thread looks at it soon."""
        if self._dozing:
            self._dozing = False
            os.eventfd_write(self._wake, 1)

    def forward(self) -> None:
        """Take what is in the pipes and send it."""
        with self._forwarding:
            for pipe in self._pipes:
                try:
                    data = os.read(pipe.reader, PIPE_CAPACITY)
                except BlockingIOError:
                    continue
                # A line that waits there began before this was written; see `OutStream._hold`.
                pipe.stream.send_unfinished_line()
                self._send(pipe, pipe.decoder.decode(data))

    def _send(self, pipe: _Pipe, text: str) -> None:
        if text:
            self._outlet.post_text(pipe.stream.short_name, text)
            self._outlet.wire.flush()

    def _run(self) -> None:
        self._thread = _thread.get_ident()
        # A signal that this thread took would not end a wait of the main thread.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            while self._running:
                self._wait()
                requests = len(self._waiting)
                self.forward()
                for _ in range(requests):
                    self._waiting.popleft().release()
        finally:
            self._thread = 0
            self._running = False
            self._ended.release()

    def _wait(self) -> None:
        """Sleep until there is something to do, and do what is not reading."""
        self._dozing = True
        patience = self._patience()
        if patience is not None:
            self._dozing = False
        events = self._anything.poll(patience)
        self._dozing = False
        if not events:
            for stream in self._streams:
                stream.send_unfinished_line()
            if self._attempts_left:
                self._attempts_left -= 1
                self._signals.rouse_main_thread()
        ready = {descriptor for descriptor, _ in events}
        if self._wake in ready:
            os.eventfd_read(self._wake)
        if self._signals.reader in ready and self._signals.acknowledge():
            self._attempts_left = ROUSE_ATTEMPTS

    def _patience(self) -> int | None:
        """How long to sleep at most, in milliseconds; None is for ever."""
        if self._attempts_left:
            return ROUSE_MILLISECONDS
        if any(stream.holds_text for stream in self._streams):
            return PATIENCE_MILLISECONDS
        return None


def _held_open(descriptor: int) -> list[int]:
    """All descriptors of this process for the same pipe."""
    meant = os.readlink(f"/proc/self/fd/{descriptor}")
    found = []
    for number in map(int, os.listdir("/proc/self/fd")):
        # The one of the listing itself is gone.
        with contextlib.suppress(FileNotFoundError):
            if os.readlink(f"/proc/self/fd/{number}") == meant:
                found.append(number)
    return found
