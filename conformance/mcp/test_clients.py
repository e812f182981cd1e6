"""The official client for TypeScript, and the inspector as a person runs it."""

import json
import os
import subprocess

import pytest

from connections import KEY, SKEP, STDIO, URL, node


TRANSPORTS = ["http"] if os.environ.get("E2B_DOMAIN") else ["http", "stdio"]


@pytest.mark.feature("mcp.clients")
@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("client", ["1", "auto", "legacy"])
def test_the_clients_for_typescript_run_code(client, transport):
    ran = node("client.mjs", client, transport, URL, KEY, SKEP)
    assert ran["text"] == "step 0\nstep 1\n42"
    assert ran["structured"]["results"] == [{"text/plain": "42"}]
    assert ran["image"] == "image/png"
    assert ran["progress"] > 0
    assert "run_code" in ran["tools"]
    assert ran["resource"] == "hello"
    assert (ran["version"] >= "2026") == (client == "auto"), ran["version"]


def inspect(*arguments):
    """Runs the inspector's command line; what it prints, and what it says beside."""
    program = os.path.join(os.environ["CONFORMANCE_NODE_MODULES"], ".bin", "mcp-inspector")
    done = subprocess.run(
        [program, "--cli", *arguments], env={**os.environ, **STDIO}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout), done.stderr


@pytest.mark.feature("mcp.clients")
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_lists_and_calls_tools(era):
    server = [URL, "--transport", "http", "--header", f"Authorization: Bearer {KEY}", "--protocol-era", era]
    # Strictly, it says of every schema which clients and models would stumble over it.
    listed, said = inspect(*server, "--method", "tools/list", "--strict")
    assert "run_code" in [tool["name"] for tool in listed["tools"]]
    assert "Warning" not in said and "Error" not in said, said
    called, said = inspect(*server, "--method", "tools/call", "--tool-name", "run_code", "--tool-arg", "code=6*7")
    assert called["content"][0]["text"].endswith("42")
    assert "schema" not in said, said
    templates, _ = inspect(*server, "--method", "resources/templates/list")
    assert templates["resourceTemplates"][0]["uriTemplate"].startswith("skep://")
    if not os.environ.get("E2B_DOMAIN"):
        listed, _ = inspect(SKEP, "mcp", "--protocol-era", era, "--method", "tools/list")
        assert "run_code" in [tool["name"] for tool in listed["tools"]]
