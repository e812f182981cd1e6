"""HTTP clients that show a `Run` what the official `run_code` sends and reads."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from typing import Any, AsyncIterator, Awaitable, Callable, Dict, Iterator

import httpx

from skep.run import InputRequest, Run

# The header that names an execution.
EXECUTION_ID = "X-Skep-Execution"


class WatchedResponse:
    """A response whose lines are looked at; everything else is the response's own."""

    def __init__(self, response: httpx.Response, run: Run, ask: Callable[[str, InputRequest], None]) -> None:
        self._response, self._run, self._ask = response, run, ask

    def iter_lines(self) -> Iterator[str]:
        for line in self._response.iter_lines():
            asked = self._run.see(line)
            if asked is not None and self._run.execution_id is not None:
                self._ask(self._run.execution_id, asked)
            yield line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._response, name)


class WatchedClient:
    """A client that adds what a run asks for to the body of its request."""

    def __init__(
        self,
        client: httpx.Client,
        run: Run,
        begin: Callable[[Run], None],
        ask: Callable[[str, InputRequest], None],
    ) -> None:
        self._client, self._run, self._begin, self._ask = client, run, begin, ask

    @contextmanager
    def stream(self, method: str, url: str, *, json: Dict[str, Any], **options: Any) -> Iterator[Any]:
        with self._client.stream(method, url, json=self._run.body(json), **options) as response:
            if response.is_success:
                self._run.begun(response.headers.get(EXECUTION_ID))
                self._begin(self._run)
            yield WatchedResponse(response, self._run, self._ask)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


class AsyncWatchedResponse:
    """As `WatchedResponse`, for the asynchronous client."""

    def __init__(
        self, response: httpx.Response, run: Run, ask: Callable[[str, InputRequest], Awaitable[None]]
    ) -> None:
        self._response, self._run, self._ask = response, run, ask

    async def aiter_lines(self) -> AsyncIterator[str]:
        async for line in self._response.aiter_lines():
            asked = self._run.see(line)
            if asked is not None and self._run.execution_id is not None:
                await self._ask(self._run.execution_id, asked)
            yield line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._response, name)


class AsyncWatchedClient:
    """As `WatchedClient`, asynchronous."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        run: Run,
        begin: Callable[[Run], Awaitable[None]],
        ask: Callable[[str, InputRequest], Awaitable[None]],
    ) -> None:
        self._client, self._run, self._begin, self._ask = client, run, begin, ask

    @asynccontextmanager
    async def stream(self, method: str, url: str, *, json: Dict[str, Any], **options: Any) -> AsyncIterator[Any]:
        async with self._client.stream(method, url, json=self._run.body(json), **options) as response:
            if response.is_success:
                self._run.begun(response.headers.get(EXECUTION_ID))
                await self._begin(self._run)
            yield AsyncWatchedResponse(response, self._run, self._ask)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)
