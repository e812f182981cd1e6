"""The kernel between cells: requests in, executions run, everything on the main thread and one event loop.

Cells run inside a callback of the loop, so that `asyncio.create_task` works in any cell, and the loop
goes on while the kernel waits for its next request, so that such tasks make progress.
"""

from __future__ import annotations

import asyncio
import atexit
import builtins
import getpass
import json
import os
import platform
import signal
import socket
import sys
import traceback
from collections import deque
from typing import Any

import IPython

from . import PROTOCOL_VERSION, __version__
from .after_fork import renew_identity, renew_randomness
from .blas import restore_threads
from .copies import CannotFork, make_copy
from .environment import Environment, InvalidEnvironment
from .execution import Execution, flush_c_streams
from .input import Input, StandardInput
from .interrupts import Interrupts, SignalBell, UserSignals
from .outlet import Outlet
from .pump import Pump
from .questions import QUESTIONS
from .shell import ZMQInteractiveShell, safe_text
from .streams import OutStream
from .wire import FrameReader, Wire, receive

RECEIVE_SIZE = 1 << 18

QUIET_SECONDS = 0.05

SANDBOX_ID = "E2B_SANDBOX_ID"


class Server:
    """One kernel, one peer."""

    def __init__(self, shell: ZMQInteractiveShell, sock: socket.socket) -> None:
        self.shell = shell
        self.outlet = Outlet(Wire(sock))
        self.environment = Environment()
        self.streams = [OutStream("stdout", 1, self.outlet), OutStream("stderr", 2, self.outlet)]
        self.in_child = False
        self._sock = sock
        self._requests = FrameReader()
        # Those that came with requests, in the order of the requests.
        self._descriptors: deque[int] = deque()
        self._copying = False
        self._exit_now = os._exit
        self.input = Input(sock, self._requests, self.outlet)
        self._execution: Execution | None = None
        self.user_signals = UserSignals()
        self._finished = False
        self._pump_end: asyncio.TimerHandle | None = None

    def run(self) -> int:
        """Serve until the end; returns the exit status."""
        renew_identity(self.shell)
        self._take_descriptors()
        self._open_loop()
        self._say_hello()
        # Starting the threads of a BLAS takes longer than all of the above, so it waits for a quiet moment.
        self.loop.call_later(QUIET_SECONDS, restore_threads)
        while not self._finished:
            try:
                self.loop.run_forever()
            except BaseException as error:
                self._survive(error)
            if self.loop.is_closed():
                self._open_loop()
        self._leave()
        return 0

    def _survive(self, error: BaseException) -> None:
        """An exception ended the loop: from a callback of the user's, or from a signal handler of the user's."""
        if self._execution is not None:
            # A cell is awaiting, and it was meant.
            self._execution.cancel()
        elif not isinstance(error, (KeyboardInterrupt, SystemExit)):
            traceback.print_exception(error)

    def _take_descriptors(self) -> None:
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0, inheritable=True)
        self.bell = SignalBell()
        self.bell.install()
        self.pump = Pump(self.outlet, self.streams, self.bell)
        self.outlet.settle = self.flush_streams
        for stream in self.streams:
            stream.before_text = self.pump.sync
        sys.stdout, sys.stderr = self.streams
        for original in (sys.__stdout__, sys.__stderr__):
            if original is not None:
                original.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        self.shell.input = self.input
        sys.stdin = StandardInput(self.input)
        builtins.input = self.shell.raw_input  # type: ignore[assignment]
        getpass.getpass = self.shell.getpass
        self.shell.connect(self.outlet)
        os.register_at_fork(after_in_child=self._continue_in_child)
        self._flush_before_sudden_exit()

    def _flush_before_sudden_exit(self) -> None:
        """`os._exit` skips every clean-up, but what was written before it shall arrive."""

        def exit_after_output(status: int) -> None:
            self.flush_streams()
            self._exit_now(status)

        os._exit = exit_after_output  # type: ignore[assignment]

    def _open_loop(self) -> None:
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.interrupts = Interrupts(self.loop)
        self.interrupts.install()
        self.shell.interrupted = lambda: self.interrupts.requested
        for reader in self.pump.readers:
            self.loop.add_reader(reader, self.pump.sync)
        self._wait_for_line_ends_on_loop()
        self.accept_requests()

    def _say_hello(self) -> None:
        self.outlet.hello(
            {
                "protocol": PROTOCOL_VERSION,
                "kernel": f"skep_kernel {__version__}",
                "pid": os.getpid(),
                "python": platform.python_version(),
                "ipython": IPython.__version__,
                "forks": True,
            }
        )

    # Requests.

    def accept_requests(self) -> None:
        """Listen to the peer again, and look at what it has sent meanwhile."""
        self.loop.add_reader(self._sock, self._receive)
        self.loop.call_soon(self._handle_received)

    def _receive(self) -> None:
        try:
            data = self._receive_data(socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if not data:
            self._stop()
            return
        self._requests.feed(data)
        self._handle_received()

    def _receive_data(self, flags: int) -> bytes:
        try:
            data, descriptors = receive(self._sock, RECEIVE_SIZE, flags)
        except ConnectionError:
            return b""
        self._descriptors += descriptors
        return data

    def _handle_received(self) -> None:
        while self._execution is None and not self._finished:
            message = self._requests.next_message()
            if message is None:
                return
            self._handle(json.loads(message))

    def _handle(self, request: dict[str, Any]) -> None:
        kind = request.get("type")
        if kind == "execute":
            self._execute(request)
        elif kind == "environment":
            self._answer(request, lambda: self._set_environment(request["layer"], request["variables"]))
        elif kind == "chdir":
            self._answer(request, lambda: self._change_directory(request["path"]))
        elif kind == "shutdown":
            self._answer(request, self._stop)
        elif kind == "fork":
            self._fork(request)
        elif kind == "input_reply":
            # The cell that asked was interrupted, and waits no more.
            return
        elif kind in QUESTIONS:
            self._answer_question(request, QUESTIONS[kind])
        else:
            self._answer(request, lambda: _refuse(f"there is no request {kind!r}"))

    def _answer(self, request: dict[str, Any], action: Any) -> None:
        reply: dict[str, Any] = {"status": "ok"}
        try:
            action()
        except (OSError, InvalidEnvironment, KeyError, TypeError, ValueError) as error:
            reply = {"status": "error", "ename": type(error).__name__, "evalue": str(error)}
        self.outlet.answer(request.get("id"), reply)

    def _answer_question(self, request: dict[str, Any], question: Any) -> None:
        self.interrupts.arm()
        try:
            try:
                reply = {"status": "ok", **question(self.shell, request)}
            finally:
                self.interrupts.disarm()
        except (Exception, KeyboardInterrupt) as error:
            # The user's own code may be asked, and raise anything.
            reply = {"status": "error", "ename": type(error).__name__, "evalue": safe_text(error)}
        self.flush_streams()
        self.outlet.answer(request.get("id"), reply)

    def _set_environment(self, layer: str, variables: dict[str, str]) -> None:
        before = os.environ.get(SANDBOX_ID)
        self.environment.set_layer(layer, variables)
        if before not in (None, os.environ.get(SANDBOX_ID)):
            # This process is a copy of what another sandbox had, and must not draw the same numbers.
            renew_randomness()

    def _change_directory(self, path: str) -> None:
        os.chdir(path)
        self.shell.user_ns["_dh"] = [os.getcwd()]

    # Copies.

    def _fork(self, request: dict[str, Any]) -> None:
        if self._make_copy(request):
            self._stand()

    def _make_copy(self, request: dict[str, Any]) -> bool:
        """True in the copy; the original answers."""
        reply: dict[str, Any] = {"status": "ok"}
        descriptor = self._descriptors.popleft() if self._descriptors else None
        try:
            if descriptor is None:
                raise CannotFork("no socket came with the request")
            self._prepare_fork()
            self._copying = True
            if make_copy(self, descriptor, self._exit_now):
                return True
        except (CannotFork, OSError) as error:
            reply = {"status": "error", "ename": "CannotFork", "evalue": str(error)}
        finally:
            self._copying = False
        if descriptor is not None:
            os.close(descriptor)
        self.outlet.answer(request.get("id"), reply)
        return False

    def _prepare_fork(self) -> None:
        """Have one thread, and nothing in buffers that would be said twice."""
        if self._pump_end is not None:
            self._pump_end.cancel()
        flush_c_streams()
        self._stop_pump()

    def _stand(self) -> None:
        """As a copy: hold still until told to go on. The loop does not run, so no task of the user's does."""
        self._say_hello()
        while True:
            request = self._next_request()
            kind = request.get("type")
            if kind == "continue":
                if request.get("another") is True:
                    # Two contexts must not draw the same numbers; a state that is gone back to must.
                    renew_randomness()
                self.outlet.answer(request.get("id"), {"status": "ok"})
                return
            if kind != "fork":
                self._answer(request, lambda: _refuse("this copy stands still"))
            elif self._make_copy(request):
                # This is the copy of a copy now, and stands as well.
                self._say_hello()

    def _next_request(self) -> dict[str, Any]:
        while True:
            message = self._requests.next_message()
            if message is not None:
                request: dict[str, Any] = json.loads(message)
                return request
            data = self._receive_data(0)
            if not data:
                self._exit_now(0)
            self._requests.feed(data)

    def take_socket(self, descriptor: int) -> None:
        """As a copy: speak over another socket, under the number of the former."""
        os.dup2(descriptor, self._sock.fileno(), inheritable=False)
        os.close(descriptor)
        self._requests.clear()
        while self._descriptors:
            os.close(self._descriptors.popleft())

    # Executions.

    def _execute(self, request: dict[str, Any]) -> None:
        if not isinstance(request.get("id"), str) or not isinstance(request.get("code"), str):
            self._answer(request, lambda: _refuse("an execution needs a string as id and a string as code"))
            return
        execution = self._execution = Execution(self, request)
        try:
            is_over = execution.start()
        except BaseException as error:
            # Only a signal handler of the user's can raise there, in the instant after the cell.
            execution.finish(error)
            is_over = True
        if is_over:
            self.finish_execution()
        else:
            # The cell awaits; the loop must not offer us the next request meanwhile.
            self.loop.remove_reader(self._sock)

    def finish_execution(self) -> None:
        """The running execution is over, and has said so to the peer."""
        self._execution = None
        self._pump_end = self.loop.call_later(QUIET_SECONDS, self._stop_pump)
        if self.shell.exit_now:
            self._stop()

    def flush_streams(self) -> None:
        """Everything printed so far is on the wire afterwards, in order."""
        if not self.in_child:
            self.pump.sync()
        for stream in self.streams:
            stream.flush()

    def start_pump(self) -> None:
        """A cell begins: somebody else than the main thread must look after its output."""
        if self._pump_end is not None:
            self._pump_end.cancel()
        self.pump.start()
        for stream in self.streams:
            stream.line_pending = self.pump.nudge

    def _stop_pump(self) -> None:
        """No cell followed soon: back to one thread. The loop now sends unfinished lines of threads and tasks."""
        self._wait_for_line_ends_on_loop()
        self.pump.stop()
        self.flush_streams()

    def _wait_for_line_ends_on_loop(self) -> None:
        loop = self.loop

        def soon() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self.flush_streams)

        for stream in self.streams:
            stream.line_pending = soon

    # Ends.

    def _continue_in_child(self) -> None:
        """After a fork by user code: the child keeps the text streams, and nothing else of the kernel."""
        if self._copying:
            return
        self.in_child = True
        self.input.allowed = False
        for stream in self.streams:
            stream.continue_in_child()
        self.shell.connect(None)
        self.pump.leave_in_child()
        self.bell.leave_in_child()
        self._sock.close()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def _stop(self) -> None:
        self._finished = True
        self.loop.stop()

    def _leave(self) -> None:
        atexit._run_exitfuncs()
        self.flush_streams()
        self.pump.finish_characters()


def _refuse(reason: str) -> None:
    raise ValueError(reason)
