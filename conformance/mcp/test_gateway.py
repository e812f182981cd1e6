"""`Sandbox.create(mcp=…)` of the E2B SDK: servers of others inside a sandbox, behind one gateway."""

import asyncio
import json
import os
import shlex
import uuid

import pytest
from e2b import CommandExitException, Sandbox, SandboxException, SandboxQuery, Template
from mcp import Client
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client
from mcp.shared.exceptions import MCPError

from connections import MODES, asynchronous, post, text

# The URL of the gateway is a name below a domain, whatever else a client is told.
pytestmark = [
    pytest.mark.feature("mcp.gateway"),
    pytest.mark.skipif(not os.environ.get("E2B_DOMAIN"), reason="its URL is a name below a domain"),
]
# One server of npm and one of PyPI.
SERVERS = {"memory": {}, "time": {}}


@pytest.fixture(scope="module")
def sandbox():
    sandbox = Sandbox.create(mcp=SERVERS, timeout=600)
    yield sandbox
    sandbox.kill()


async def use(sandbox, token, mode="auto", timezone="UTC"):
    """The names of the tools, and what one of them answers."""
    async with create_mcp_http_client(headers={"Authorization": f"Bearer {token}"}) as http:
        async with Client(streamable_http_client(sandbox.get_mcp_url(), http_client=http), mode=mode) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            answer = await client.call_tool("get_current_time", {"timezone": timezone})
            return names, text(answer)


@pytest.mark.parametrize("mode", MODES)
@asynchronous
async def test_a_client_outside_uses_the_tools_of_all_servers(sandbox, mode):
    token = Sandbox.connect(sandbox.sandbox_id).get_mcp_token()
    assert token == sandbox.get_mcp_token()
    names, answer = await use(sandbox, token, mode)
    assert {"get_current_time", "convert_time", "create_entities", "read_graph"} <= set(names)
    assert '"timezone": "UTC"' in answer


def test_without_its_token_the_gateway_answers_nobody(sandbox):
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": f"Bearer {uuid.uuid4()}"}):
        status, answered, said = post(body, headers, url=sandbox.get_mcp_url())
        assert status == 401 and said == b"" and answered["www-authenticate"].startswith("Bearer"), headers
    with pytest.raises(CommandExitException):
        sandbox.commands.run("cat /etc/mcp-gateway/.token /etc/mcp-gateway/config.json")
    assert "600 root" in sandbox.commands.run("stat -c '%a %U' /etc/mcp-gateway/.token").stdout
    # Nor do those who can look at the processes of the sandbox see it.
    seen = sandbox.commands.run("cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'; true")
    assert sandbox.get_mcp_token() not in seen.stdout
    assert "started" in sandbox.files.read("/var/log/mcp-gateway/gateway.log")


def test_a_server_that_cannot_be_had_is_named_and_the_sandbox_is_gone():
    # Others make sandboxes at the same time.
    mark = uuid.uuid4().hex
    for config, said in (
        ({"aks": {}}, "`aks` is not available here"),
        ({"github/../x": {"runCmd": "true"}}, "not of the form"),
        ({"time": {}, "github/skep-test/nope": {"runCmd": "false", "installCmd": "false"}}, "github/skep-test/nope"),
    ):
        with pytest.raises(SandboxException, match="Failed to start MCP gateway") as raised:
            Sandbox.create(mcp=config, timeout=120, allow_internet_access=True, metadata={"mark": mark})
        assert said in str(raised.value)
    query = SandboxQuery(metadata={"mark": mark})
    assert Sandbox.list(query=query).next_items() == []


# A server with everything that a server can offer.
PROGRAM = """
import os
from mcp.server.mcpserver import MCPServer
app = MCPServer('own')
@app.tool()
def get_current_time(timezone: str) -> str:
    return f"{timezone} {os.environ['GREETING']} {open('made').read()} {os.environ.get('GATEWAY_ACCESS_TOKEN')}"
@app.prompt()
def review(code: str) -> str:
    return f"review {code}"
@app.resource("note://own/today")
def today() -> str:
    return open('made').read()
@app.resource("user://{name}")
def user(name: str) -> str:
    return f"this is {name}"
app.run()
"""


@pytest.fixture(scope="module")
def own():
    """A gateway to a repository of GitHub, which is played by one inside, since tests stay on this machine."""
    with Sandbox.create("mcp-gateway", timeout=600) as sandbox:
        sandbox.files.write("/srv/own/server.py", PROGRAM, user="root")
        sandbox.commands.run(
            "chown -R user:user /srv/own && cd /srv/own && su user -c 'git init -q -b main && git add . && "
            "git -c user.name=x -c user.email=x@y commit -q -m x' && "
            'git config --system url."file:///srv/own".insteadOf https://github.com/skep-test/own',
            user="root",
        )
        server = "/opt/mcp-gateway/venv/bin/python server.py"
        options = {"run_cmd": server, "install_cmd": "echo -n installed > made", "envs": {"GREETING": "hello"}}
        config = shlex.quote(json.dumps({"memory": {}, "github/skep-test/own": options}))
        sandbox.commands.run(f"mcp-gateway --config {config}", user="root", timeout=60)
        yield sandbox


@asynchronous
async def test_a_repository_is_cloned_installed_and_run(own):
    names, answer = await use(own, own.get_mcp_token(), timezone="a")
    assert "get_current_time" in names and "read_graph" in names
    assert answer == "a hello installed None"


@pytest.mark.parametrize("mode", MODES)
@asynchronous
async def test_prompts_and_resources_of_servers_come_through(own, mode):
    async with create_mcp_http_client(headers={"Authorization": f"Bearer {own.get_mcp_token()}"}) as http:
        async with Client(streamable_http_client(own.get_mcp_url(), http_client=http), mode=mode) as client:
            [prompt] = (await client.list_prompts()).prompts
            assert (prompt.name, [argument.name for argument in prompt.arguments]) == ("review", ["code"])
            [message] = (await client.get_prompt("review", {"code": "x = 1"})).messages
            assert message.content.text == "review x = 1"
            assert "note://own/today" in [str(item.uri) for item in (await client.list_resources()).resources]
            assert "user://{name}" in [item.uri_template for item in (await client.list_resource_templates()).resource_templates]
            for uri, expected in (("note://own/today", "installed"), ("user://ann", "this is ann")):
                [content] = (await client.read_resource(uri)).contents
                assert content.text == expected
            for ask in (client.get_prompt("none"), client.read_resource("none://x"), client.get_prompt("review", {})):
                with pytest.raises(MCPError):
                    await ask


def test_the_token_of_a_neighbour_opens_nothing(sandbox, own):
    """Both are of one team: not even then."""
    for gateway, neighbour in ((sandbox, own), (own, sandbox)):
        initialize = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize}
        for method in ("POST", "GET", "DELETE"):
            status, _, said = post(body, {"authorization": f"Bearer {neighbour.get_mcp_token()}"}, method, gateway.get_mcp_url())
            assert (status, said) == (401, b""), method
        # The control: its own token does.
        status, _, _ = post(body, {"authorization": f"Bearer {gateway.get_mcp_token()}"}, url=gateway.get_mcp_url())
        assert status == 200


@asynchronous
async def test_the_gateway_comes_back_after_a_pause_with_memory_and_without(sandbox):
    token = sandbox.get_mcp_token()
    await asyncio.to_thread(sandbox.pause)
    await asyncio.to_thread(sandbox.connect, timeout=600)
    assert '"UTC"' in (await use(sandbox, token))[1]
    await asyncio.to_thread(sandbox.pause, keep_memory=False)
    again = await asyncio.to_thread(Sandbox.connect, sandbox.sandbox_id, timeout=600)
    assert again.get_mcp_token() == token
    assert '"UTC"' in (await use(sandbox, token))[1]


def test_a_template_has_servers_installed_ahead():
    name = f"ahead-{uuid.uuid4().hex[:8]}"
    Template.build(Template().from_template("mcp-gateway").add_mcp_server(["time"]), name)
    with Sandbox.create(name, mcp={"time": {}}, allow_internet_access=False, timeout=120) as sandbox:
        assert sandbox.get_mcp_token()
        installed = sandbox.commands.run("ls /var/lib/mcp-gateway/packages/time/.installed")
        assert installed.exit_code == 0
