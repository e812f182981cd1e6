"""What an execution produced, with what it used and why it failed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Literal, Mapping, Optional

from e2b_code_interpreter.models import Execution as OfficialExecution
from e2b_code_interpreter.models import ExecutionError as OfficialExecutionError

from skep.errors import NotSkepError

Kind = Literal[
    "syntax", "runtime", "interrupted", "timeout", "out_of_memory", "kernel_died", "disk_full", "killed"
]
Outcome = Literal[
    "ok", "syntax", "runtime", "interrupted", "timeout", "out_of_memory", "kernel_died", "disk_full", "killed"
]


@dataclass(frozen=True)
class Usage:
    """What an execution used, with everything that the code started. `None` is not known."""

    wall: float
    """How long it ran, in seconds."""
    queued: float
    """How long it waited for its turn and for its kernel, in seconds."""
    cpu: Optional[float]
    """Processor time, in seconds."""
    memory: Optional[int]
    """Memory that it has now, in bytes; only while it runs."""
    peak_memory: Optional[int]
    """The most memory that it had at once, in bytes."""
    read: Optional[int]
    """Bytes read from storage."""
    written: Optional[int]
    """Bytes written to storage."""
    out_of_memory_kills: int
    """How many of its processes were killed for want of memory."""

    @staticmethod
    def fields_of(data: Mapping[str, Any]) -> Dict[str, Any]:
        """The fields, from what a server says."""
        cpu = data.get("cpu_us")
        return {
            "wall": data["wall_us"] / 1e6,
            "queued": data["queued_us"] / 1e6,
            "cpu": None if cpu is None else cpu / 1e6,
            "memory": data.get("memory_bytes"),
            "peak_memory": data.get("peak_memory_bytes"),
            "read": data.get("read_bytes"),
            "written": data.get("written_bytes"),
            "out_of_memory_kills": data.get("out_of_memory_kills", 0),
        }


@dataclass(frozen=True)
class Receipt(Usage):
    """What an execution used in the end, measured by the host's kernel, and how it ended."""

    outcome: Outcome
    """`ok`, or the kind of its error."""

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> Receipt:
        return cls(outcome=data["outcome"], **cls.fields_of(data))


@dataclass(frozen=True)
class RunningExecution(Usage):
    """An execution that waits or runs."""

    id: str
    """By this it can be interrupted."""
    context_id: str
    """The context that it runs in."""
    state: Literal["queued", "running"]

    @classmethod
    def from_wire(cls, data: Mapping[str, Any]) -> RunningExecution:
        return cls(id=data["id"], context_id=data["context_id"], state=data["state"], **cls.fields_of(data))


class ExecutionError(OfficialExecutionError):
    """Why code failed: the official error, and a kind that is the same in every language."""

    def __init__(
        self,
        name: str,
        value: str,
        traceback: str,
        kind: Optional[Kind] = None,
        exit_status: Optional[int] = None,
        server: str = "the server",
    ) -> None:
        super().__init__(name, value, traceback)
        self.exit_status = exit_status
        """The exit status of the kernel, if the code ended that."""
        self._kind = kind
        self._server = server

    @property
    def kind(self) -> Kind:
        """What happened, in a word for programs. Raises `NotSkepError` where the server is not Skep."""
        if self._kind is None:
            raise NotSkepError("`error.kind`", self._server)
        return self._kind


class Execution(OfficialExecution):
    """What code produced: the official execution, and its receipt."""

    error: Optional[ExecutionError]

    id: Optional[str] = None
    """By this id the server knew it."""
    restarted: Optional[str] = None
    """Why variables of earlier executions were gone when this one began, if they were."""
    lost_output: int = 0
    """Bytes of output that were neither delivered nor kept, because there was no connection."""
    _receipt: Optional[Receipt] = None
    _server: str = "the server"

    @property
    def receipt(self) -> Receipt:
        """What it used. Raises `NotSkepError` where the server is not Skep."""
        if self._receipt is None:
            raise NotSkepError("`execution.receipt`", self._server)
        return self._receipt
