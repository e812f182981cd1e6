"""Copies of a running kernel: forks between cells that stand still until they are told to go on.

A copy has the memory of its origin and nothing else of it: a socket, output pipes, an event queue and a session of its
own. It is made in two steps, and the process between ends at once, so that the copy is nobody's child in the sandbox:
user code that waits for its children never meets it, and it outlives its origin.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import select
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from .server import Server

THREADS_LEFT = 3
"""Exit status of the process between when its parent has threads, which no fork would have."""

FAILED = 4

THREADS_PATIENCE = 0.05
"""Seconds for which threads that are being ended by their library may still be seen."""


class CannotFork(Exception):
    """There would be something in this process that its copy lacks."""


def make_copy(server: Server, descriptor: int, exit_now: Callable[[int], NoReturn]) -> bool:
    """Fork. False in the original, true in the copy, which has only memory in common with it."""
    _check_loop(server.loop)
    _end_monitor_of_tqdm()
    _check_threads()
    wakeup = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    randomness = random.getstate()
    between = os.fork()
    if between:
        _hear_from(between)
        return False
    try:
        if _threads_remain(os.getppid()):
            exit_now(THREADS_LEFT)
        between = os.getpid()
        if os.fork():
            exit_now(0)
    except OSError:
        exit_now(FAILED)
    try:
        os.setsid()
        # Python seeds it anew in every fork, but a state that is gone back to draws the numbers that it drew.
        random.setstate(randomness)
        _renew(server, descriptor)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        while os.getppid() == between:
            # It gives its memory back meanwhile, a millisecond or two.
            time.sleep(0.0001)
    except BaseException:
        exit_now(FAILED)
    return True


def _check_loop(loop: asyncio.AbstractEventLoop) -> None:
    selector = getattr(loop, "_selector", None)
    if not isinstance(loop, asyncio.SelectorEventLoop) or not isinstance(selector, selectors.EpollSelector):
        raise CannotFork(f"its event loop is a {type(loop).__name__}, which cannot be copied")


def _end_monitor_of_tqdm() -> None:
    """Every progress bar leaves a thread that redraws slow ones. The next bar starts another."""
    bars = sys.modules.get("tqdm.std")
    monitor = getattr(getattr(bars, "tqdm", None), "monitor", None)
    if monitor is not None:
        with contextlib.suppress(Exception):
            monitor.exit()


def _check_threads() -> None:
    names = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    if names:
        shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        raise CannotFork(f"threads of the code are running, which a copy would lack: {shown}")


def _threads_remain(process: int) -> bool:
    """Whether it has threads that its libraries have not ended for the fork, as a BLAS does."""
    deadline = time.monotonic() + THREADS_PATIENCE
    while len(os.listdir(f"/proc/{process}/task")) > 1:
        if time.monotonic() > deadline:
            return True
        time.sleep(0.001)
    return False


def _hear_from(between: int) -> None:
    try:
        status = os.waitstatus_to_exitcode(os.waitpid(between, 0)[1])
    except ChildProcessError:
        # The user ignores SIGCHLD, and nobody knows how it ended; the copy says hello or does not.
        return
    if status == THREADS_LEFT:
        raise CannotFork("a library of the code runs threads, which a copy would lack")
    if status:
        raise CannotFork("there is no room for another process")


def _renew(server: Server, descriptor: int) -> None:
    """Put descriptors of the copy's own under the numbers of those that it shares with its origin."""
    server.take_socket(descriptor)
    server.bell.renew()
    server.pump.renew()
    _renew_loop(server.loop)


def _renew_loop(loop: Any) -> None:
    """The loop goes on with its tasks. Its queue of events was one with the origin's: both would have changed it."""
    selector = loop._selector
    queue: select.epoll = selector._selector
    replace(queue.fileno(), select.epoll())
    reader, writer = socket.socketpair()
    for end in (reader, writer):
        end.setblocking(False)
    replace(loop._ssock.fileno(), reader)
    replace(loop._csock.fileno(), writer)
    for number, key in selector.get_map().items():
        events = (select.EPOLLIN if key.events & selectors.EVENT_READ else 0) | (
            select.EPOLLOUT if key.events & selectors.EVENT_WRITE else 0
        )
        # The user may have closed it without a word.
        with contextlib.suppress(OSError):
            queue.register(number, events)
    # Python has forgotten both in the fork, and this is a callback of the loop.
    asyncio.set_event_loop(loop)
    asyncio._set_running_loop(loop)


def replace(number: int, new: Any) -> None:
    """Let a number stand for another open file."""
    os.dup2(new.fileno(), number, inheritable=False)
    new.close()
