"""One call of `run_code`: what is asked of the server beyond the contract, and what it says beyond it.

The official method makes the request and reads the answer; the clients of `watching.py` show both to a `Run`.
"""

from __future__ import annotations

import json
import re
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Optional, Sequence

from e2b_code_interpreter.models import Execution as OfficialExecution
from e2b_code_interpreter.models import ExecutionError as OfficialExecutionError

from skep.errors import NotSkepError
from skep.execution import Execution, ExecutionError, Receipt
from skep.limits import Limits

# Lines have their type first, so that the large ones need not be read twice.
_TYPE = re.compile(r'\{"type":"(\w+)"')
_OURS = frozenset(["receipt", "error", "input_request", "context_restarted", "output_lost"])


@dataclass(frozen=True)
class InputRequest:
    """What code asks of whoever runs it."""

    prompt: str
    password: bool
    """Whether what is typed must not be shown."""


@dataclass
class Run:
    """An execution that is asked for, and what is known of it until now."""

    server: str
    options: Dict[str, Any]
    execution_id: Optional[str] = None
    receipt: Optional[Receipt] = None
    restarted: Optional[str] = None
    lost_output: int = 0
    error: Dict[str, Any] = field(default_factory=dict)
    is_sent: bool = False

    def body(self, official: Dict[str, Any]) -> Dict[str, Any]:
        """The body of the request."""
        self.is_sent = True
        return {**official, "skep": self.options} if self.options else official

    def begun(self, execution_id: Optional[str]) -> None:
        """Notes the id from the answer's header, which only a Skep server sends."""
        if execution_id is None and self.options:
            # The server in between was one, and whoever answered is not.
            raise NotSkepError(", ".join(f"`{name}`" for name in self.options), self.server)
        self.execution_id = execution_id

    def see(self, line: str) -> Optional[InputRequest]:
        """Takes what it knows out of a line, and returns what the code asks for."""
        found = _TYPE.match(line)
        if found is not None and found[1] not in _OURS:
            return None
        data = json.loads(line)
        kind = data.get("type")
        if kind == "receipt":
            self.receipt = Receipt.from_wire(data)
        elif kind == "error":
            self.error = data
        elif kind == "context_restarted":
            self.restarted = data["reason"]
        elif kind == "output_lost":
            self.lost_output += data["bytes"]
        elif kind == "input_request":
            return InputRequest(data["prompt"], data["password"])
        return None

    def error_of(self, official: OfficialExecutionError) -> ExecutionError:
        return ExecutionError(
            official.name,
            official.value,
            official.traceback,
            kind=self.error.get("kind"),
            exit_status=self.error.get("exit_status"),
            server=self.server,
        )

    def execution_of(self, official: OfficialExecution) -> Execution:
        if self.options and not self.is_sent:
            raise RuntimeError(
                "this release of e2b-code-interpreter makes its requests in a way that skep does not know, so that limits and secrets did not arrive; use one that skep's README names"
            )
        made = Execution(
            results=official.results,
            logs=official.logs,
            error=None if official.error is None else self.error_of(official.error),
            execution_count=official.execution_count,
        )
        made.id = self.execution_id
        made.restarted = self.restarted
        made.lost_output = self.lost_output
        made._receipt = self.receipt
        made._server = self.server
        return made


@dataclass(frozen=True)
class Watch:
    """A run, and whom to tell when it has begun and when it asks; coroutine functions for the asynchronous SDK."""

    run: Run
    begin: Callable[..., Any]
    ask: Callable[..., Any]


# Set while the official method runs, which asks for its client then. Threads and tasks have one each.
CURRENT: ContextVar[Optional[Watch]] = ContextVar("skep_run", default=None)


def options(
    limits: Optional[Limits],
    secrets: Optional[Sequence[str]],
    secret_envs: Optional[Sequence[str]],
    answers_input: bool,
) -> Dict[str, Any]:
    """The field `skep` of a request, without what was not asked for."""
    if isinstance(secrets, str) or isinstance(secret_envs, str):
        raise TypeError("secrets are a list: `secrets=[value]`, `secret_envs=[name]`")
    said: Dict[str, Any] = {}
    if limits is not None and limits.to_wire():
        said["limits"] = limits.to_wire()
    if secrets:
        said["secrets"] = list(secrets)
    if secret_envs:
        said["secret_envs"] = list(secret_envs)
    if answers_input:
        said["allow_stdin"] = True
    return said
