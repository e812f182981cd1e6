"""The ways to the server that a client has, with the official clients for Python and TypeScript."""

import asyncio
import contextlib
import functools
import json
import os
import pathlib
import subprocess
import urllib.error
import urllib.request

from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
from mcp.types import Implementation

HERE = pathlib.Path(__file__).resolve().parent
SKEP = os.environ["CONFORMANCE_SKEP"]
KEY = os.environ["E2B_API_KEY"]
DOMAIN = os.environ.get("E2B_DOMAIN")
API = f"https://api.{DOMAIN}" if DOMAIN else os.environ["E2B_API_URL"]
URL = f"{API}/mcp"
# The program of a client as every host starts it: what it needs is in its environment.
STDIO = {"E2B_API_KEY": KEY, "E2B_API_URL": API, "PATH": os.environ["PATH"]}
# `legacy` begins with a handshake, as all revisions before 2026-07-28 do.
MODES = ("auto", "legacy")


@contextlib.asynccontextmanager
async def over_stdio(mode, *options, name="conformance"):
    program = StdioServerParameters(command=SKEP, args=["mcp", *options], env=STDIO)
    async with Client(program, mode=mode, client_info=Implementation(name=name, version="1")) as client:
        yield client


@contextlib.asynccontextmanager
async def over_http(mode, *, key=KEY, name="conformance"):
    async with create_mcp_http_client(headers={"Authorization": f"Bearer {key}"}) as http:
        transport = streamable_http_client(URL, http_client=http)
        async with Client(transport, mode=mode, client_info=Implementation(name=name, version="1")) as client:
            yield client


def asynchronous(case):
    """Runs a case to its end, or for two minutes."""

    @functools.wraps(case)
    def run(*args, **kwargs):
        return asyncio.run(asyncio.wait_for(case(*args, **kwargs), 120))

    return run


def text(result):
    return "\n".join(block.text for block in result.content if block.type == "text")


def images(result):
    return [block for block in result.content if block.type == "image"]


def post(body, headers, method="POST", url=URL):
    """A request that no client would make; returns status, headers and body."""
    usual = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data if method == "POST" else None, headers={**usual, **headers}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def node(script, *arguments):
    """Runs a script with the clients of npm; returns what it prints, as JSON."""
    modules = os.environ["CONFORMANCE_NODE_MODULES"]
    done = subprocess.run(
        ["node", HERE / script, *arguments],
        env={**os.environ, **STDIO, "CONFORMANCE_NODE_MODULES": modules},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0 and "schema" not in done.stderr, done.stdout + done.stderr
    return json.loads(done.stdout)


def sandboxes():
    """IDs of the sandboxes that run, by their names."""
    request = urllib.request.Request(f"{API}/v2/sandboxes", headers={"X-API-Key": KEY})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return {item["sandboxID"]: item["metadata"].get("skep.mcp.name") for item in json.loads(answer.read())}
