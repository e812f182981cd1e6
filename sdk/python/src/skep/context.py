"""Contexts that can be copied, and gone back in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Mapping, Union

from e2b_code_interpreter.models import Context as OfficialContext

from skep.interpreter import id_of, segment
from skep.notebook import Notebook
from skep.record import Checkpoint

if TYPE_CHECKING:
    from typing_extensions import Self

    from skep.async_sandbox import AsyncSandbox
    from skep.sandbox import Sandbox


class _Bound(OfficialContext):
    """A context that knows its sandbox."""

    _sandbox: Any

    @classmethod
    def of(cls, sandbox: Any, official: OfficialContext) -> Self:
        made = cls(official.id, official.language, official.cwd)
        made._sandbox = sandbox
        return made

    @classmethod
    def from_wire(cls, sandbox: Any, data: Mapping[str, Any]) -> Self:
        made = cls(data["id"], data["language"], data["cwd"])
        made._sandbox = sandbox
        return made

    def _path(self, rest: str) -> str:
        return f"/contexts/{id_of(self)}/{rest}"


def checkpoint_id(checkpoint: Union[Checkpoint, str]) -> str:
    return checkpoint.id if isinstance(checkpoint, Checkpoint) else checkpoint


class Context(_Bound):
    """A session with variables. One of Python can be copied in milliseconds."""

    _sandbox: Sandbox

    def fork(self) -> Context:
        """A second context that has the same variables. Both go on."""
        return Context.from_wire(self._sandbox, self._sandbox._ask("`fork`", "POST", self._path("fork")).json())

    def checkpoint(self) -> Checkpoint:
        """Keeps the present state, so that it can be gone back to."""
        return Checkpoint.from_wire(self._sandbox._ask("`checkpoint`", "POST", self._path("checkpoints")).json())

    def checkpoints(self) -> List[Checkpoint]:
        """All that are kept, the oldest first."""
        listed = self._sandbox._ask("`checkpoints`", "GET", self._path("checkpoints")).json()
        return [Checkpoint.from_wire(data) for data in listed]

    def rollback(self, checkpoint: Union[Checkpoint, str]) -> None:
        """Puts the state of a checkpoint in place of the present one. The checkpoint stays."""
        body = {"checkpoint_id": checkpoint_id(checkpoint)}
        self._sandbox._ask("`rollback`", "POST", self._path("rollback"), body)

    def remove_checkpoint(self, checkpoint: Union[Checkpoint, str]) -> None:
        """Removes a checkpoint, which gives its memory back."""
        path = self._path(f"checkpoints/{segment(checkpoint_id(checkpoint))}")
        self._sandbox._ask("`remove_checkpoint`", "DELETE", path)

    def notebook(self) -> Notebook:
        """Everything that was run in it."""
        return self._sandbox.notebook(self)


class AsyncContext(_Bound):
    """As `Context`, of an `AsyncSandbox`."""

    _sandbox: AsyncSandbox

    async def fork(self) -> AsyncContext:
        """A second context that has the same variables. Both go on."""
        answer = await self._sandbox._ask("`fork`", "POST", self._path("fork"))
        return AsyncContext.from_wire(self._sandbox, answer.json())

    async def checkpoint(self) -> Checkpoint:
        """Keeps the present state, so that it can be gone back to."""
        answer = await self._sandbox._ask("`checkpoint`", "POST", self._path("checkpoints"))
        return Checkpoint.from_wire(answer.json())

    async def checkpoints(self) -> List[Checkpoint]:
        """All that are kept, the oldest first."""
        answer = await self._sandbox._ask("`checkpoints`", "GET", self._path("checkpoints"))
        return [Checkpoint.from_wire(data) for data in answer.json()]

    async def rollback(self, checkpoint: Union[Checkpoint, str]) -> None:
        """Puts the state of a checkpoint in place of the present one. The checkpoint stays."""
        body = {"checkpoint_id": checkpoint_id(checkpoint)}
        await self._sandbox._ask("`rollback`", "POST", self._path("rollback"), body)

    async def remove_checkpoint(self, checkpoint: Union[Checkpoint, str]) -> None:
        """Removes a checkpoint, which gives its memory back."""
        path = self._path(f"checkpoints/{segment(checkpoint_id(checkpoint))}")
        await self._sandbox._ask("`remove_checkpoint`", "DELETE", path)

    async def notebook(self) -> Notebook:
        """Everything that was run in it."""
        return await self._sandbox.notebook(self)
