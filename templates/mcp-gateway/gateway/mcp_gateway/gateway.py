"""The gateway itself: the tools of all servers as those of one, behind a token."""

import asyncio
import collections
import contextlib
import hmac
import logging

import mcp.types as types
import uvicorn
from mcp.server import Server

from .child import Child

PORT = 50005
# A session that is silent for so long ends.
IDLE_SECONDS = 1800
MOST_SESSIONS = 256
LOGGER = logging.getLogger("mcp-gateway")


class Gateway:
    """Servers, and which of them has a tool."""

    def __init__(self, servers):
        self.children = [Child(server) for server in servers]

    def tools(self):
        """Every tool by the name that clients use: its own if no other server has it, or with its server's before it."""
        count = collections.Counter(tool.name for child in self.children for tool in child.tools)
        return {
            tool.name if count[tool.name] == 1 else f"{child.server.name.replace('/', '-')}-{tool.name}": (child, tool)
            for child in self.children
            for tool in child.tools
        }

    async def list_tools(self, context, params):
        tools = [tool.model_copy(update={"name": name}) for name, (_, tool) in self.tools().items()]
        return types.ListToolsResult(tools=tools)

    async def call_tool(self, context, params):
        found = self.tools().get(params.name)
        if found is None:
            return failed(f"there is no tool `{params.name}`")
        child, tool = found
        token = (context.meta or {}).get("progress_token")

        async def progress(done, total, message):
            await context.session.send_progress_notification(token, done, total, message, str(context.request_id))

        try:
            return await child.call(tool.name, params.arguments, progress if token is not None else None)
        except Exception as error:
            LOGGER.warning("%s of %s failed: %s", tool.name, child.server.name, error)
            return failed(str(error))

    def server(self):
        return Server("mcp-gateway", version="1", on_list_tools=self.list_tools, on_call_tool=self.call_tool)


def failed(text):
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


class Guarded:
    """Lets those in who show the token. The port of a sandbox is open to whoever knows its name."""

    def __init__(self, app, token):
        self.app = app
        self.expected = f"Bearer {token}".encode()

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http":
            shown = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(shown, self.expected):
                await send({
                    "type": "http.response.start",
                    "status": 401,
                    "headers": [(b"www-authenticate", b'Bearer realm="mcp-gateway"'), (b"content-length", b"0")],
                })
                await send({"type": "http.response.body", "body": b""})
                return
        await self.app(scope, receive, send)


async def serve(servers, token, tell):
    """Serves until it is killed. Tells `tell` when clients can connect, or which servers failed."""
    gateway = Gateway(servers)
    living = [asyncio.create_task(child.live()) for child in gateway.children]
    started = await asyncio.gather(*(child.started for child in gateway.children), return_exceptions=True)
    errors = [str(error) for error in started if error is not None]
    if errors:
        tell(errors)
        return
    # Any name: the sandbox is reached by its own, and the token keeps pages of browsers out.
    app = gateway.server().streamable_http_app(
        host="0.0.0.0", session_idle_timeout=IDLE_SECONDS, max_sessions=MOST_SESSIONS
    )
    config = uvicorn.Config(Guarded(app, token), host="0.0.0.0", port=PORT, log_level="warning", lifespan="on")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started and not serving.done():
        await asyncio.sleep(0.02)
    tell([] if server.started else [f"port {PORT} is taken"])
    with contextlib.suppress(asyncio.CancelledError):
        await serving
    for task in living:
        task.cancel()
