"""The routes of the API that only Skep has, and how a server is known to be Skep."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Set

import httpx
from e2b.connection_config import ConnectionConfig
from e2b.exceptions import (
    AuthenticationException,
    NotFoundException,
    RateLimitException,
    SandboxException,
    TimeoutException,
)

from skep.errors import NotSkepError

# Servers that have shown that they are Skep. What one was not is asked again: another may be there by then.
_SKEP: Set[str] = set()
_JSON = {"Accept": "application/json"}
_NEXT = "X-Next-Token"
_MOST_PER_PAGE = 100


def _headers(config: ConnectionConfig) -> Dict[str, str]:
    return {**config.headers, "X-API-Key": config.api_key or ""}


def _options(config: ConnectionConfig) -> Dict[str, Any]:
    return {"base_url": config.api_url, "proxy": config.proxy, "timeout": config.request_timeout}


def is_skep(response: httpx.Response) -> bool:
    """Whether the answer to `GET /health`, asked for as JSON, is that of a Skep server.

    E2B's is the same sentence whatever is asked for.
    """
    try:
        status = response.json().get("status")
    except (ValueError, AttributeError):
        return False
    return response.status_code == 200 and status in ("ok", "degraded")


def require(config: ConnectionConfig, wanted: str) -> None:
    """Raises `NotSkepError` unless the server of this configuration is Skep."""
    if config.api_url in _SKEP:
        return
    with httpx.Client(**_options(config)) as client:
        answered = _known(config, wanted, _sent(client, "GET", "/health", headers=_JSON))
    _SKEP.add(answered)


async def require_async(config: ConnectionConfig, wanted: str) -> None:
    """As `require`, without blocking."""
    if config.api_url in _SKEP:
        return
    async with httpx.AsyncClient(**_options(config)) as client:
        answered = _known(config, wanted, await _sent_async(client, "GET", "/health", headers=_JSON))
    _SKEP.add(answered)


def _known(config: ConnectionConfig, wanted: str, response: httpx.Response) -> str:
    if not is_skep(response):
        raise NotSkepError(wanted, config.api_url)
    return config.api_url


def call(config: ConnectionConfig, wanted: str, method: str, path: str, **options: Any) -> httpx.Response:
    """A request to a route that only Skep has."""
    require(config, wanted)
    with httpx.Client(headers=_headers(config), **_options(config)) as client:
        return checked(_sent(client, method, path, **options))


async def call_async(config: ConnectionConfig, wanted: str, method: str, path: str, **options: Any) -> httpx.Response:
    """As `call`, without blocking."""
    await require_async(config, wanted)
    async with httpx.AsyncClient(headers=_headers(config), **_options(config)) as client:
        return checked(await _sent_async(client, method, path, **options))


def _sent(client: httpx.Client, method: str, path: str, **options: Any) -> httpx.Response:
    try:
        return client.request(method, path, **options)
    except httpx.TimeoutException as late:
        raise _late() from late


async def _sent_async(client: httpx.AsyncClient, method: str, path: str, **options: Any) -> httpx.Response:
    try:
        return await client.request(method, path, **options)
    except httpx.TimeoutException as late:
        raise _late() from late


def _late() -> TimeoutException:
    return TimeoutException("Request timed out: the 'request_timeout' option allows it more")


def checked(response: httpx.Response) -> httpx.Response:
    """The answer, if it is a good one; the official SDK's exception for it if not."""
    if response.is_success:
        return response
    try:
        message = str(response.json()["message"])
    except (ValueError, KeyError, TypeError):
        message = response.text
    kinds = {401: AuthenticationException, 404: NotFoundException, 429: RateLimitException}
    raise kinds.get(response.status_code, SandboxException)(f"{response.status_code}: {message}")


def page_of_records(token: Optional[str]) -> Dict[str, str]:
    """The parameters that ask for a page of the record, the ended sandboxes included."""
    asked = {"all": "true", "limit": str(_MOST_PER_PAGE)}
    return asked if token is None else {**asked, "nextToken": token}


def next_page(response: httpx.Response) -> Optional[str]:
    token = response.headers.get(_NEXT)
    return None if token is None else str(token)


def record_in(page: List[Mapping[str, Any]], sandbox_id: str) -> Optional[Mapping[str, Any]]:
    return next((record for record in page if record["sandboxID"] == sandbox_id), None)
