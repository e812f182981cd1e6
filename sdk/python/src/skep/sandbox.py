"""The official sandbox with an interpreter, and what a Skep server can do beyond it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional, Sequence, Union

import httpx
from e2b.connection_config import ApiParams, ConnectionConfig
from e2b_code_interpreter.code_interpreter_sync import Sandbox as OfficialSandbox
from e2b_code_interpreter.exceptions import format_request_timeout_error
from e2b_code_interpreter.models import Context as OfficialContext
from e2b_code_interpreter.models import ExecutionError as OfficialExecutionError
from e2b_code_interpreter.models import OutputMessage, Result, extract_exception

from skep import api, interpreter
from skep.context import Context
from skep.errors import NotSkepError
from skep.execution import Execution, ExecutionError, RunningExecution
from skep.limits import Limits
from skep.notebook import Notebook
from skep.record import Resumed, SandboxRecord, SandboxRequest, Snapshot, tree
from skep.run import CURRENT, InputRequest, Run, Watch, options
from skep.watching import WatchedClient

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


class Sandbox(OfficialSandbox):
    """A sandbox, with everything that the official class has.

    Example:
    ```python
    from skep import Limits, Sandbox

    sandbox = Sandbox.create()
    run = sandbox.run_code("sum(range(10**6))", limits=Limits(time=10, memory="512M"))
    print(run.text, run.receipt.cpu)
    ```
    """

    @classmethod
    def create(  # releases differ in what follows, which is passed on as it is
        cls,
        template: Optional[str] = None,
        timeout: Optional[int] = None,
        metadata: Optional[Dict[str, str]] = None,
        envs: Optional[Dict[str, str]] = None,
        *positional: Any,
        secrets: Optional[Sequence[str]] = None,
        **others: Any,
    ) -> Self:
        """Creates a sandbox.

        :param secrets: Names of variables in `envs` whose values are masked in all that code shows
        :param others: All that the official method takes
        """
        if secrets:
            config = ConnectionConfig(**connection_options(cls, others))
            api.require(config, "`secrets`")
            others["headers"] = {**(others.get("headers") or {}), **secrets_header(secrets, envs)}
        return super().create(template, timeout, metadata, envs, *positional, **others)

    @classmethod
    def local(cls, template: Optional[str] = None, **others: Any) -> Self:
        """Creates a sandbox on the server of this host, or starts one that ends with this process.

        Takes what `create` takes. See `skep.local_server` for how the server is found.
        """
        from skep.local import local_server

        return cls.create(template, **{**local_server(template).connection(), **others})

    @property
    def _jupyter_url(self) -> str:
        # The oldest interpreters know names alone, and not where their own sandboxes are told to be.
        told = vars(self.connection_config).get("_sandbox_url")
        return str(told) if told else str(super()._jupyter_url)

    @property
    def _client(self) -> httpx.Client:
        watch = CURRENT.get()
        official: httpx.Client = super()._client
        # They send nothing that leads to a sandbox at such an address either.
        official.headers.update(interpreter.headers(self))
        if watch is None:
            return official
        watched: Any = WatchedClient(official, watch.run, watch.begin, watch.ask)
        return watched  # type: ignore[no-any-return]

    def run_code(  # type: ignore[override]  # the official overloads say less than this
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
        on_input: Optional[Callable[[InputRequest], Optional[str]]] = None,
    ) -> Execution:
        """Runs code, as the official method does.

        :param limits: What this execution may use
        :param secrets: Values that are masked in all that code of this context shows from now on
        :param secret_envs: Names of variables in `envs` whose values are such
        :param on_start: Is told the id of the execution, by which `interrupt` knows it
        :param on_input: Answers `input()`; `None` is the end of input

        :raises NotSkepError: if one of these is given and the server is not Skep
        """
        asked = options(limits, secrets, secret_envs, on_input is not None)
        if asked or on_start is not None:
            self._require(", ".join(f"`{name}`" for name in asked) or "`on_start`")
        run = Run(self._server, asked)

        def begin(run: Run) -> None:
            if on_start is not None:
                if run.execution_id is None:
                    raise NotSkepError("`on_start`", self._server)
                on_start(run.execution_id)

        def ask(execution_id: str, request: InputRequest) -> None:
            answer = None if on_input is None else on_input(request)
            self.answer_input(execution_id, answer)

        def failed(error: OfficialExecutionError) -> Any:
            return None if on_error is None else on_error(run.error_of(error))

        # Both of its overloads are meant, and it refuses a context with a language itself.
        official: Any = super().run_code
        place = CURRENT.set(Watch(run, begin, ask))
        try:
            done = official(
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

    def executions(self) -> List[RunningExecution]:
        """What waits or runs in this sandbox, with what it has used until now."""
        listed = self._ask("`executions`", "GET", "/executions").json()
        return [RunningExecution.from_wire(data) for data in listed]

    def interrupt(self, execution: Union[RunningExecution, str]) -> None:
        """Interrupts an execution, as Ctrl-C would. One that waits is not run.

        Whoever reads its answer gets an error of the kind `interrupted`.
        """
        name = execution.id if isinstance(execution, RunningExecution) else execution
        self._ask("`interrupt`", "POST", f"/executions/{interpreter.segment(name)}/interrupt")

    def answer_input(self, execution_id: str, value: Optional[str]) -> None:
        """Answers an execution that asks for input; `None` is the end of input. `on_input` does that by itself."""
        path = f"/executions/{interpreter.segment(execution_id)}/input"
        self._ask("`answer_input`", "POST", path, {"value": value})

    def notebook(self, context: Union[OfficialContext, str, None] = None) -> Notebook:
        """Everything that was run in a context; without one, in the oldest, which is the default one of most sandboxes."""
        if context is None:
            contexts = self.list_code_contexts()
            if not contexts:
                raise ValueError("no code was run in this sandbox yet, so there is no context with a history")
            context = contexts[0]
        path = f"/contexts/{interpreter.id_of(context)}/notebook"
        return Notebook(self._ask("`notebook`", "GET", path).text)

    def create_code_context(
        self,
        cwd: Optional[str] = None,
        language: Optional[str] = None,
        request_timeout: Optional[float] = None,
        *,
        secrets: Optional[Sequence[str]] = None,
    ) -> Context:
        """Creates a context.

        :param secrets: Values that are masked in all that its code shows
        """
        if not secrets:
            return Context.of(self, super().create_code_context(cwd, language, request_timeout))
        body = {"cwd": cwd, "language": language, "skep": options(None, secrets, None, False)}
        asked = {name: value for name, value in body.items() if value is not None}
        return Context.from_wire(self, self._ask("`secrets`", "POST", "/contexts", asked).json())

    def list_code_contexts(self) -> List[Context]:  # type: ignore[override]
        """All contexts, the newest last."""
        return [Context.from_wire(self, data) for data in self._interpreter("GET", "/contexts").json()]

    def record(self, **others: Unpack[ApiParams]) -> SandboxRecord:
        """This sandbox in the server's record: also after its end, with the reason and what it used."""
        return self.record_of(self.sandbox_id, **self.connection_config.get_api_params(**others))

    @classmethod
    def record_of(cls, sandbox_id: str, **others: Unpack[ApiParams]) -> SandboxRecord:
        """A sandbox in the server's record, by its id."""
        for record in cls.records(**others):
            if record.sandbox_id == sandbox_id:
                return record
        raise ValueError(f"there is no sandbox {sandbox_id} in the record of this team, or no longer")

    @classmethod
    def records(cls, **others: Unpack[ApiParams]) -> Iterator[SandboxRecord]:
        """All sandboxes of the team, the newest first, the ended ones included."""
        config = ConnectionConfig(**connection_options(cls, others))
        token: Optional[str] = None
        while True:
            page = api.call(config, "`record`", "GET", "/skep/sandboxes", params=api.page_of_records(token))
            yield from (SandboxRecord.from_wire(data) for data in page.json())
            token = api.next_page(page)
            if token is None:
                return

    def requests(self, after: int = 0) -> List[SandboxRequest]:
        """What this sandbox asked hosts for that it reaches by name, the oldest first, from behind a number on."""
        path = f"/skep/sandboxes/{interpreter.segment(self.sandbox_id)}/requests"
        asked = api.call(self.connection_config, "`requests`", "GET", path, params={"after": str(after)})
        return [SandboxRequest.from_wire(data) for data in asked.json()]

    def rollback(self, snapshot: Union[Snapshot, str], timeout: Optional[int] = None) -> Resumed:
        """Puts this sandbox back to a snapshot, in place: its id, tokens and deadline stay.

        :param timeout: Seconds to live, if it was paused
        """
        name = snapshot.snapshot_id if isinstance(snapshot, Snapshot) else snapshot
        body: Dict[str, Any] = {"snapshotID": name}
        if timeout is not None:
            body["timeout"] = timeout
        path = f"/skep/sandboxes/{interpreter.segment(self.sandbox_id)}/rollback"
        return Resumed.from_wire(api.call(self.connection_config, "`rollback`", "POST", path, json=body).json())

    def snapshot_tree(self) -> List[Snapshot]:
        """The snapshots of this sandbox: the first ones, and below each those that were taken after going on from it."""
        path = f"/skep/sandboxes/{interpreter.segment(self.sandbox_id)}/checkpoints"
        return tree(api.call(self.connection_config, "`snapshot_tree`", "GET", path).json())

    @property
    def _server(self) -> str:
        return str(self.connection_config.api_url)

    def _require(self, wanted: str) -> None:
        api.require(self.connection_config, wanted)

    def _ask(self, wanted: str, method: str, path: str, body: Any = None) -> httpx.Response:
        """A request to a route of the interpreter that only Skep has."""
        self._require(wanted)
        return self._interpreter(method, path, body)

    def _interpreter(self, method: str, path: str, body: Any = None) -> httpx.Response:
        try:
            response = self._client.request(
                method,
                f"{self._jupyter_url}{path}",
                json=body,
                headers=interpreter.headers(self),
                timeout=self.connection_config.request_timeout,
            )
        except httpx.TimeoutException as late:
            raise format_request_timeout_error() from late
        error = extract_exception(response)
        if error is not None:
            raise error
        return response


def connection_options(cls: type, others: Any) -> Dict[str, Any]:
    """What of the options of a call says where the server is, with what is bound to the class."""
    bound = getattr(cls, "_bound_api_params", {})
    known = set(ApiParams.__annotations__)
    return {**bound, **{name: value for name, value in others.items() if name in known and value is not None}}


def secrets_header(names: Sequence[str], envs: Optional[Dict[str, str]]) -> Dict[str, str]:
    """The header that names the variables whose values are secret."""
    if isinstance(names, str):
        raise TypeError("secrets are a list of names: `secrets=['API_KEY']`")
    missing = [name for name in names if name not in (envs or {})]
    if missing:
        raise ValueError(f"secrets are names of variables in `envs`, and {', '.join(missing)} is not there")
    return {"X-Skep-Secret-Envs": ", ".join(names)}


# Where this is gone, limits would be left out of requests in silence.
if not isinstance(vars(OfficialSandbox).get("_client"), property):
    raise ImportError("this release of e2b-code-interpreter is not known to skep; install one that its README names")
