"""The official client for TypeScript, and the inspector as a person runs it."""

import json
import os
import subprocess

import pytest

from connections import KEY, SKEP, STDIO, URL, node


@pytest.mark.feature("mcp.clients")
@pytest.mark.parametrize("transport", ["http"] if os.environ.get("E2B_DOMAIN") else ["http", "stdio"])
def test_the_client_for_typescript_runs_code(transport):
    ran = node("client.mjs", transport, URL, KEY, SKEP)
    assert ran["text"] == "step 0\nstep 1\n42"
    assert ran["structured"]["results"] == [{"text/plain": "42"}]
    assert ran["image"] == "image/png"
    assert ran["progress"] > 0
    assert "run_code" in ran["tools"]
    assert ran["version"] < "2026"


def inspect(*arguments):
    program = os.path.join(os.environ["CONFORMANCE_NODE_MODULES"], ".bin", "mcp-inspector")
    done = subprocess.run(
        [program, "--cli", *arguments], env={**os.environ, **STDIO}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.feature("mcp.clients")
def test_the_inspector_lists_and_calls_tools():
    server = [URL, "--transport", "http", "--header", f"Authorization: Bearer {KEY}"]
    listed = inspect(*server, "--method", "tools/list")
    assert "run_code" in [tool["name"] for tool in listed["tools"]]
    called = inspect(*server, "--method", "tools/call", "--tool-name", "run_code", "--tool-arg", "code=6*7")
    assert called["content"][0]["text"].endswith("42")
    if not os.environ.get("E2B_DOMAIN"):
        listed = inspect(SKEP, "mcp", "--method", "tools/list")
        assert "run_code" in [tool["name"] for tool in listed["tools"]]
