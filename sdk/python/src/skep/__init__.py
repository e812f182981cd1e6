"""Skep's client for Python: the official E2B code interpreter SDK, and what a Skep server can do beyond it.

`Sandbox` and `AsyncSandbox` are subclasses of the official ones, so that everything official works, against every
server. What is beyond it raises `NotSkepError` where the server is not Skep.
"""

from e2b_code_interpreter import *  # noqa: F403

from skep.async_sandbox import AsyncSandbox
from skep.context import AsyncContext, Context
from skep.errors import LocalServerError, NotSkepError
from skep.execution import Execution, ExecutionError, Kind, Outcome, Receipt, RunningExecution, Usage
from skep.limits import Limits
from skep.local import LocalServer, local_server
from skep.notebook import Notebook
from skep.record import (
    Checkpoint,
    Resumed,
    SandboxRecord,
    SandboxRequest,
    SandboxUsage,
    Snapshot,
)
from skep.run import InputRequest
from skep.sandbox import Sandbox
from skep.version import __version__

__all__ = [
    "AsyncContext",
    "AsyncSandbox",
    "Checkpoint",
    "Context",
    "Execution",
    "ExecutionError",
    "InputRequest",
    "Kind",
    "Limits",
    "LocalServer",
    "LocalServerError",
    "NotSkepError",
    "Notebook",
    "Outcome",
    "Receipt",
    "Resumed",
    "RunningExecution",
    "Sandbox",
    "SandboxRecord",
    "SandboxRequest",
    "SandboxUsage",
    "Snapshot",
    "Usage",
    "__version__",
    "local_server",
]
