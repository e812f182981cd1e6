"""One `execute` request, from its acceptance to idle."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import ExecutionResult

from .blas import restore_threads
from .cell import Cell, failure_of, make_cell, report_unshown_error
from .environment import InvalidEnvironment

if TYPE_CHECKING:
    from .server import Server


FINISH_ATTEMPTS = 5


class Execution:
    """The state of a running cell."""

    def __init__(self, server: Server, request: dict[str, Any]) -> None:
        self._server = server
        self._shell = server.shell
        self._id: str = request["id"]
        self._code: str = request["code"]
        self._variables: dict[str, str] = request.get("env") or {}
        self._allows_input = bool(request.get("allow_stdin"))
        self._saved_variables: dict[str, str | None] = {}
        self._errors_before = self._shell.errors_shown
        self._count = self._shell.execution_count
        self._task: asyncio.Task[ExecutionResult] | None = None
        self._payload: list[dict[str, Any]] = []
        # Not empty when the peer has been told of the end.
        self._receipts: list[int] = []

    def start(self) -> bool:
        """Run the cell. True if it is over; False if it awaits and will end on the loop."""
        outlet = self._server.outlet
        outlet.set_parent(self._id)
        outlet.started(self._count)
        try:
            self._saved_variables = self._server.environment.enter_execution(self._variables)
        except InvalidEnvironment as error:
            self._shell.errors_shown += 1
            outlet.error(type(error).__name__, str(error), [], "request")
            self.finish(error)
            return True
        restore_threads()
        self._server.start_pump()
        interrupts = self._server.interrupts
        interrupts.install()
        failure: BaseException | None
        try:
            interrupts.arm()
            self._server.input.allowed = self._allows_input
            # Up to here, and after the cell, no handler of the user's can run.
            self._server.user_signals.release()
            cell = make_cell(self._shell, self._code)
            if cell.awaits:
                self._start_task(cell)
                return False
            failure = failure_of(cell.run())
        except BaseException as error:
            failure = error
        interrupts.disarm()
        self.finish(failure)
        return True

    def cancel(self) -> None:
        """An interrupt hit another callback of the loop while this cell was awaiting."""
        if self._task is not None and not self._task.done():
            self._task.cancel()

    def _start_task(self, cell: Cell) -> None:
        self._task = self._server.loop.create_task(cell.run_on_loop())
        self._server.interrupts.task = self._task
        self._task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[ExecutionResult]) -> None:
        self._server.interrupts.disarm()
        self._server.interrupts.task = None
        failure: BaseException | None
        try:
            failure = failure_of(task.result())
        except BaseException as error:
            failure = error
        self.finish(failure)
        self._server.finish_execution()
        self._server.accept_requests()

    def finish(self, failure: BaseException | None) -> None:
        """Tell the peer that the cell is over, whatever signal handlers of the user's raise meanwhile."""
        for _ in range(FINISH_ATTEMPTS):
            try:
                self._server.user_signals.hold()
                self._finish(failure)
                return
            except BaseException as error:
                failure = failure or error
        self._server.outlet.finished(self._reply(failure), self._receipts)

    def _finish(self, failure: BaseException | None) -> None:
        """Every step can be taken again."""
        self._server.input.allowed = False
        if self._server.in_child:
            # The cell forked and let the child run out of it. Only the parent is the kernel.
            os._exit(0 if failure is None else 1)
        if failure is not None:
            report_unshown_error(self._shell, failure, self._errors_before)
        self._collect_output()
        self._server.environment.leave_execution(self._saved_variables)
        self._payload += self._shell.payload_manager.read_payload()
        self._shell.payload_manager.clear_payload()
        self._server.outlet.finished(self._reply(failure), self._receipts)

    def _reply(self, failure: BaseException | None) -> dict[str, Any]:
        return {
            "status": "ok" if failure is None else "error",
            "execution_count": self._count,
            "payload": self._payload,
            "exiting": bool(self._shell.exit_now),
        }

    def _collect_output(self) -> None:
        """Everything the cell wrote, anywhere, is on the wire afterwards."""
        flush_c_streams()
        self._server.flush_streams()
        self._server.pump.finish_characters()


def flush_c_streams() -> None:
    """C code buffers what it prints into a pipe. Without ctypes there is no way to reach those buffers."""
    ctypes = sys.modules.get("ctypes")
    if ctypes is not None:
        ctypes.pythonapi.fflush(None)
