"""Requests to the interpreter of a sandbox, as both SDKs make them."""

from __future__ import annotations

from typing import Any, Dict, Union
from urllib.parse import quote

from e2b_code_interpreter.models import Context as OfficialContext

PORT = 49999


def headers(sandbox: Any) -> Dict[str, str]:
    """What leads a request to the interpreter of a sandbox, and lets it in."""
    said = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": str(PORT)}
    if sandbox._envd_access_token:
        said["X-Access-Token"] = sandbox._envd_access_token
    if sandbox.traffic_access_token:
        said["E2B-Traffic-Access-Token"] = sandbox.traffic_access_token
    return said


def id_of(context: Union[OfficialContext, str]) -> str:
    """The id of a context, as a part of a path, which it cannot leave."""
    return segment(context.id if isinstance(context, OfficialContext) else context)


def segment(name: str) -> str:
    return quote(name, safe="")
