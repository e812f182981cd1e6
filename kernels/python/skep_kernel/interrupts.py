"""SIGINT: what it means depends on what the main thread is doing at that moment."""

from __future__ import annotations

import _signal
import asyncio
import os
import signal
import threading
import traceback
from types import FrameType

_RUN_ONCE = asyncio.BaseEventLoop._run_once.__code__  # type: ignore[attr-defined]
_RUN_HANDLE = asyncio.Handle._run.__code__  # type: ignore[attr-defined]


class SignalBell:
    """Tells another thread that a signal arrived, and lets it rouse the main thread without side effect."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(self._writer, False)
        self._main_thread = threading.main_thread().ident or 0

    def install(self) -> None:
        """Python's own C handler rings from now on. SIGURG is ignored by everybody, and now by us too."""
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGURG, _do_nothing)

    def acknowledge(self) -> bool:
        """Empty the pipe; true if a signal other than our own arrived."""
        return bool(os.read(self.reader, 4096).strip(bytes([signal.SIGURG])))

    def rouse_main_thread(self) -> None:
        """Make the main thread look at its signals, even inside a system call."""
        signal.pthread_kill(self._main_thread, signal.SIGURG)

    def renew(self) -> None:
        """In a copy of the kernel: a bell of its own under the same numbers."""
        for number, end in zip((self.reader, self._writer), os.pipe(), strict=True):
            os.set_blocking(end, False)
            os.dup2(end, number, inheritable=False)
            os.close(end)

    def leave_in_child(self) -> None:
        """After a fork: the bell is the parent's."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGURG, signal.SIG_DFL)


def _do_nothing(signal_number: int, frame: FrameType | None) -> None:
    """A handler, so that the signal interrupts a wait."""


class UserSignals:
    """Keeps signal handlers of the user's out of the kernel's own code, where an exception would do harm.

    An alarm set in one cell may ring after it. While no cell runs, signals that have such a handler wait.
    """

    def __init__(self) -> None:
        self._waiting: list[int] = []

    def hold(self) -> None:
        """The cell is over: from here on handlers wait."""
        self._waiting = [number for number in _HELD_BACK if _is_users(_signal.getsignal(number))]
        if self._waiting:
            _tell_of_exceptions(signal.SIG_BLOCK, self._waiting)

    def release(self) -> None:
        """A cell begins. Handlers that waited run now; what they raise belongs to no cell."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            _tell_of_exceptions(signal.SIG_UNBLOCK, waiting)


_ESSENTIAL = {
    *(signal.SIGINT, signal.SIGURG, signal.SIGKILL, signal.SIGSTOP),
    *(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP),
}
_HELD_BACK = sorted(int(number) for number in signal.valid_signals() - _ESSENTIAL)


def _is_users(handler: object) -> bool:
    # asyncio's own handler does nothing; it must not wait, because the loop runs between cells.
    return callable(handler) and getattr(handler, "__name__", "") != "_sighandler_noop"


def _tell_of_exceptions(how: int, signals: list[int]) -> None:
    try:
        # Runs the handlers of signals that have arrived.
        signal.pthread_sigmask(how, signals)
    except BaseException as error:
        traceback.print_exception(error)


class Interrupts:
    """The handler, and the cell it is aimed at."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.requested = False
        self._armed = False
        # The task of a cell that awaits.
        self.task: asyncio.Task[object] | None = None

    def install(self) -> None:
        """Take SIGINT back if user code took it; each cell starts with the same handler, as under ipykernel."""
        if signal.getsignal(signal.SIGINT) != self._handle:
            signal.signal(signal.SIGINT, self._handle)

    def arm(self) -> None:
        """From here on an interrupt belongs to the cell."""
        self.requested = False
        self._armed = True

    def disarm(self) -> None:
        """The cell is over; a late interrupt must not hit the kernel's own work."""
        self._armed = False

    def _handle(self, signal_number: int, frame: FrameType | None) -> None:
        waiting = self._loop_is_waiting(frame)
        if not self._armed:
            if not waiting and self._in_background_callback(frame):
                raise KeyboardInterrupt
            return
        second = self.requested
        self.requested = True
        if self.task is not None and waiting and not second:
            # The handler runs inside the wait, which only an event ends.
            self.loop.call_soon_threadsafe(self.task.cancel)
            return
        raise KeyboardInterrupt

    @staticmethod
    def _loop_is_waiting(frame: FrameType | None) -> bool:
        """Whether the loop itself was interrupted, and none of its callbacks."""
        if frame is None or frame.f_code is _RUN_ONCE:
            return True
        return frame.f_back is not None and frame.f_back.f_code is _RUN_ONCE and frame.f_code.co_name == "select"

    @staticmethod
    def _in_background_callback(frame: FrameType | None) -> bool:
        """Whether a callback that outlived its cell is keeping the loop from us, and not one of our own."""
        callback = None
        while frame is not None and frame.f_code is not _RUN_ONCE:
            if frame.f_code is not _RUN_HANDLE:
                callback = frame
            frame = frame.f_back
        if frame is None or callback is None:
            return False
        return str(callback.f_globals.get("__name__", "")).partition(".")[0] != "skep_kernel"
