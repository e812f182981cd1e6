"""The asynchronous official sandbox, and what a Skep server can do beyond it. As `sandbox.py`."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, AsyncIterator, Awaitable, Callable, Dict, List, Optional, Sequence, Union

import httpx
from e2b.connection_config import ApiParams, ConnectionConfig
from e2b_code_interpreter.code_interpreter_async import AsyncSandbox as OfficialAsyncSandbox
from e2b_code_interpreter.exceptions import format_request_timeout_error
from e2b_code_interpreter.models import Context as OfficialContext
from e2b_code_interpreter.models import ExecutionError as OfficialExecutionError
from e2b_code_interpreter.models import OutputMessage, Result, aextract_exception

from skep import api, interpreter
from skep.context import AsyncContext
from skep.errors import NotSkepError
from skep.execution import Execution, ExecutionError, RunningExecution
from skep.limits import Limits
from skep.notebook import Notebook
from skep.record import Resumed, SandboxRecord, SandboxRequest, Snapshot, tree
from skep.run import CURRENT, InputRequest, Run, Watch, options
from skep.sandbox import connection_options, secrets_header
from skep.watching import AsyncWatchedClient

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


class AsyncSandbox(OfficialAsyncSandbox):
    """A sandbox, with everything that the official class has."""

    @classmethod
    async def create(  # releases differ in what follows, which is passed on as it is
        cls,
        template: Optional[str] = None,
        timeout: Optional[int] = None,
        metadata: Optional[Dict[str, str]] = None,
        envs: Optional[Dict[str, str]] = None,
        *positional: Any,
        secrets: Optional[Sequence[str]] = None,
        **others: Any,
    ) -> Self:
        """Creates a sandbox; `secrets` as of `Sandbox.create`."""
        if secrets:
            config = ConnectionConfig(**connection_options(cls, others))
            await api.require_async(config, "`secrets`")
            others["headers"] = {**(others.get("headers") or {}), **secrets_header(secrets, envs)}
        return await super().create(template, timeout, metadata, envs, *positional, **others)

    @classmethod
    async def local(cls, template: Optional[str] = None, **others: Any) -> Self:
        """Creates a sandbox on the server of this host, or starts one that ends with this process.

        Starting one blocks for as long as that takes.
        """
        from skep.local import local_server

        return await cls.create(template, **{**local_server(template).connection(), **others})

    @property
    def _jupyter_url(self) -> str:
        # The oldest interpreters know names alone, and not where their own sandboxes are told to be.
        told = vars(self.connection_config).get("_sandbox_url")
        return str(told) if told else str(super()._jupyter_url)

    @property
    def _client(self) -> httpx.AsyncClient:
        watch = CURRENT.get()
        official: httpx.AsyncClient = super()._client
        # They send nothing that leads to a sandbox at such an address either.
        official.headers.update(interpreter.headers(self))
        if watch is None:
            return official
        watched: Any = AsyncWatchedClient(official, watch.run, watch.begin, watch.ask)
        return watched  # type: ignore[no-any-return]

    async def run_code(  # type: ignore[override]  # the official overloads say less than this
        self,
        code: str,
        language: Optional[str] = None,
        context: Optional[OfficialContext] = None,
        on_stdout: Optional[Callable[[OutputMessage], Any]] = None,
        on_stderr: Optional[Callable[[OutputMessage], Any]] = None,
        on_result: Optional[Callable[[Result], Any]] = None,
        on_error: Optional[Callable[[ExecutionError], Any]] = None,
        envs: Optional[Dict[str, str]] = None,
        timeout: Optional[float] = None,
        request_timeout: Optional[float] = None,
        *,
        limits: Optional[Limits] = None,
        secrets: Optional[Sequence[str]] = None,
        secret_envs: Optional[Sequence[str]] = None,
        on_start: Optional[Callable[[str], Any]] = None,
        on_input: Optional[Callable[[InputRequest], Union[Optional[str], Awaitable[Optional[str]]]]] = None,
    ) -> Execution:
        """Runs code, as the official method does. What is beyond it is as of `Sandbox.run_code`; callbacks may be coroutine functions."""
        asked = options(limits, secrets, secret_envs, on_input is not None)
        if asked or on_start is not None:
            await self._require(", ".join(f"`{name}`" for name in asked) or "`on_start`")
        run = Run(self._server, asked)

        async def begin(run: Run) -> None:
            if on_start is not None:
                if run.execution_id is None:
                    raise NotSkepError("`on_start`", self._server)
                told = on_start(run.execution_id)
                if inspect.isawaitable(told):
                    await told

        async def ask(execution_id: str, request: InputRequest) -> None:
            answer = None if on_input is None else on_input(request)
            if inspect.isawaitable(answer):
                answer = await answer
            await self.answer_input(execution_id, answer)

        def failed(error: OfficialExecutionError) -> Any:
            return None if on_error is None else on_error(run.error_of(error))

        # Both of its overloads are meant, and it refuses a context with a language itself.
        official: Any = super().run_code
        place = CURRENT.set(Watch(run, begin, ask))
        try:
            done = await official(
                code,
                language=language,
                context=context,
                on_stdout=on_stdout,
                on_stderr=on_stderr,
                on_result=on_result,
                on_error=failed,
                envs=envs,
                timeout=timeout,
                request_timeout=request_timeout,
            )
        finally:
            CURRENT.reset(place)
        return run.execution_of(done)

    async def executions(self) -> List[RunningExecution]:
        """What waits or runs in this sandbox, with what it has used until now."""
        listed = (await self._ask("`executions`", "GET", "/executions")).json()
        return [RunningExecution.from_wire(data) for data in listed]

    async def interrupt(self, execution: Union[RunningExecution, str]) -> None:
        """Interrupts an execution, as Ctrl-C would. One that waits is not run."""
        name = execution.id if isinstance(execution, RunningExecution) else execution
        await self._ask("`interrupt`", "POST", f"/executions/{interpreter.segment(name)}/interrupt")

    async def answer_input(self, execution_id: str, value: Optional[str]) -> None:
        """Answers an execution that asks for input; `None` is the end of input. `on_input` does that by itself."""
        path = f"/executions/{interpreter.segment(execution_id)}/input"
        await self._ask("`answer_input`", "POST", path, {"value": value})

    async def notebook(self, context: Union[OfficialContext, str, None] = None) -> Notebook:
        """Everything that was run in a context; without one, in the oldest, which is the default one of most sandboxes."""
        if context is None:
            contexts = await self.list_code_contexts()
            if not contexts:
                raise ValueError("no code was run in this sandbox yet, so there is no context with a history")
            context = contexts[0]
        path = f"/contexts/{interpreter.id_of(context)}/notebook"
        return Notebook((await self._ask("`notebook`", "GET", path)).text)

    async def create_code_context(
        self,
        cwd: Optional[str] = None,
        language: Optional[str] = None,
        request_timeout: Optional[float] = None,
        *,
        secrets: Optional[Sequence[str]] = None,
    ) -> AsyncContext:
        """Creates a context; `secrets` are values that are masked in all that its code shows."""
        if not secrets:
            return AsyncContext.of(self, await super().create_code_context(cwd, language, request_timeout))
        body = {"cwd": cwd, "language": language, "skep": options(None, secrets, None, False)}
        asked = {name: value for name, value in body.items() if value is not None}
        return AsyncContext.from_wire(self, (await self._ask("`secrets`", "POST", "/contexts", asked)).json())

    async def list_code_contexts(self) -> List[AsyncContext]:  # type: ignore[override]
        """All contexts, the newest last."""
        listed = (await self._interpreter("GET", "/contexts")).json()
        return [AsyncContext.from_wire(self, data) for data in listed]

    async def record(self, **others: Unpack[ApiParams]) -> SandboxRecord:
        """This sandbox in the server's record: also after its end, with the reason and what it used."""
        return await self.record_of(self.sandbox_id, **self.connection_config.get_api_params(**others))

    @classmethod
    async def record_of(cls, sandbox_id: str, **others: Unpack[ApiParams]) -> SandboxRecord:
        """A sandbox in the server's record, by its id."""
        async for record in cls.records(**others):
            if record.sandbox_id == sandbox_id:
                return record
        raise ValueError(f"there is no sandbox {sandbox_id} in the record of this team, or no longer")

    @classmethod
    async def records(cls, **others: Unpack[ApiParams]) -> AsyncIterator[SandboxRecord]:
        """All sandboxes of the team, the newest first, the ended ones included."""
        config = ConnectionConfig(**connection_options(cls, others))
        token: Optional[str] = None
        while True:
            asked = api.page_of_records(token)
            page = await api.call_async(config, "`record`", "GET", "/skep/sandboxes", params=asked)
            for data in page.json():
                yield SandboxRecord.from_wire(data)
            token = api.next_page(page)
            if token is None:
                return

    async def requests(self, after: int = 0) -> List[SandboxRequest]:
        """What this sandbox asked hosts for that it reaches by name, the oldest first, from behind a number on."""
        path = f"/skep/sandboxes/{interpreter.segment(self.sandbox_id)}/requests"
        asked = await api.call_async(
            self.connection_config, "`requests`", "GET", path, params={"after": str(after)}
        )
        return [SandboxRequest.from_wire(data) for data in asked.json()]

    async def rollback(self, snapshot: Union[Snapshot, str], timeout: Optional[int] = None) -> Resumed:
        """Puts this sandbox back to a snapshot, in place: its id, tokens and deadline stay."""
        name = snapshot.snapshot_id if isinstance(snapshot, Snapshot) else snapshot
        body: Dict[str, Any] = {"snapshotID": name}
        if timeout is not None:
            body["timeout"] = timeout
        path = f"/skep/sandboxes/{interpreter.segment(self.sandbox_id)}/rollback"
        answer = await api.call_async(self.connection_config, "`rollback`", "POST", path, json=body)
        return Resumed.from_wire(answer.json())

    async def snapshot_tree(self) -> List[Snapshot]:
        """The snapshots of this sandbox: the first ones, and below each those that were taken after going on from it."""
        path = f"/skep/sandboxes/{interpreter.segment(self.sandbox_id)}/checkpoints"
        return tree((await api.call_async(self.connection_config, "`snapshot_tree`", "GET", path)).json())

    @property
    def _server(self) -> str:
        return str(self.connection_config.api_url)

    async def _require(self, wanted: str) -> None:
        await api.require_async(self.connection_config, wanted)

    async def _ask(self, wanted: str, method: str, path: str, body: Any = None) -> httpx.Response:
        """A request to a route of the interpreter that only Skep has."""
        await self._require(wanted)
        return await self._interpreter(method, path, body)

    async def _interpreter(self, method: str, path: str, body: Any = None) -> httpx.Response:
        try:
            response = await self._client.request(
                method,
                f"{self._jupyter_url}{path}",
                json=body,
                headers=interpreter.headers(self),
                timeout=self.connection_config.request_timeout,
            )
        except httpx.TimeoutException as late:
            raise format_request_timeout_error() from late
        error = await aextract_exception(response)
        if error is not None:
            raise error
        return response


# Where this is gone, limits would be left out of requests in silence.
if not isinstance(vars(OfficialAsyncSandbox).get("_client"), property):
    raise ImportError("this release of e2b-code-interpreter is not known to skep; install one that its README names")
