"""Running one cell in the shell: the part of IPython's `run_cell` that a kernel needs, in two halves.

A cell without top-level await runs to its end at once. One with it becomes a task on the kernel's loop.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from IPython.core.async_helpers import _pseudo_sync_runner
from IPython.core.error import UsageError
from IPython.core.interactiveshell import ExecutionResult

from .shell import ZMQInteractiveShell, safe_text
from .tracebacks import hide_own_frames


@dataclass
class Cell:
    """A cell that has been transformed to Python and waits to be run."""

    shell: ZMQInteractiveShell
    coroutine: Coroutine[Any, Any, ExecutionResult]
    awaits: bool

    def run(self) -> ExecutionResult:
        """Run a cell that does not await."""
        result = None
        try:
            result = _pseudo_sync_runner(self.coroutine)
        finally:
            self._after(result)
        return result

    async def run_on_loop(self) -> ExecutionResult:
        """Run a cell that awaits."""
        result = None
        try:
            result = await self.coroutine
        finally:
            self._after(result)
        return result

    def _after(self, result: ExecutionResult | None) -> None:
        # Open figures are shown by a callback of this event.
        self.shell.events.trigger("post_execute")
        self.shell.events.trigger("post_run_cell", result)


def make_cell(shell: ZMQInteractiveShell, code: str) -> Cell:
    """Transform `code`. A failure of the transformation is reported when the cell runs."""
    failure = None
    transformed = code
    try:
        transformed = shell.transform_cell(code)
    except Exception:
        failure = sys.exc_info()
    coroutine = shell.run_cell_async(
        code, store_history=True, transformed_cell=transformed, preprocessing_exc_tuple=failure
    )
    awaits = shell.should_run_async(code, transformed_cell=transformed, preprocessing_exc_tuple=failure)
    return Cell(shell, coroutine, awaits)


def failure_of(result: ExecutionResult | None) -> BaseException | None:
    """The exception that ended a cell."""
    if result is None:
        return None
    return result.error_before_exec or result.error_in_exec


def report_unshown_error(shell: ZMQInteractiveShell, error: BaseException, shown_before: int) -> None:
    """IPython prints usage errors and exception groups as plain text; the peer must hear of them too."""
    if shell.errors_shown != shown_before:
        return
    shell.report_error(type(error), error, _format(error))


def _format(error: BaseException) -> list[str]:
    summary = [f"{type(error).__name__}: {safe_text(error)}"]
    if isinstance(error, UsageError):
        return summary
    try:
        hide_own_frames(error)
        # The outermost frame is IPython's.
        outermost = error.__traceback__
        return traceback.format_exception(type(error), error, outermost and outermost.tb_next)
    except Exception:
        # Python itself cannot print where code failed that was made without a table of lines.
        return summary
