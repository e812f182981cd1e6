"""The gateway itself: the tools, prompts and resources of all servers as those of one, behind a token."""

import asyncio
import collections
import contextlib
import hmac
import logging

import mcp.types as types
import uvicorn
from mcp.server import Server
from mcp.shared.exceptions import MCPError
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS

from .child import Child

PORT = 50005
# A session that is silent for so long ends.
IDLE_SECONDS = 1800
MOST_SESSIONS = 256
LOGGER = logging.getLogger("mcp-gateway")


class Gateway:
    """Servers, and which of them has what a client asks for."""

    def __init__(self, servers):
        self.children = [Child(server) for server in servers]

    def named(self, kind):
        """Every tool or prompt by the name that clients use: its own if no other server has it, or with its server's before it."""
        offered = [(child, thing) for child in self.children for thing in getattr(child, kind)]
        count = collections.Counter(thing.name for _, thing in offered)
        return {
            thing.name if count[thing.name] == 1 else f"{child.server.name.replace('/', '-')}-{thing.name}": (child, thing)
            for child, thing in offered
        }

    async def refresh(self, *kinds):
        await asyncio.gather(*(child.refresh(*kinds) for child in self.children))

    async def list_tools(self, context, params):
        await self.refresh("tools")
        tools = [tool.model_copy(update={"name": name}) for name, (_, tool) in self.named("tools").items()]
        return types.ListToolsResult(tools=tools)

    async def call_tool(self, context, params):
        found = self.named("tools").get(params.name)
        if found is None:
            return failed(f"there is no tool `{params.name}`")
        child, tool = found
        token = (context.meta or {}).get("progress_token")

        async def progress(done, total, message):
            await context.session.send_progress_notification(token, done, total, message, str(context.request_id))

        told = progress if token is not None else None
        try:
            return await child.ask(lambda client: client.call_tool(tool.name, params.arguments, progress_callback=told))
        except Exception as error:
            LOGGER.warning("%s of %s failed: %s", tool.name, child.server.name, error)
            return failed(str(error))

    async def list_prompts(self, context, params):
        await self.refresh("prompts")
        prompts = [prompt.model_copy(update={"name": name}) for name, (_, prompt) in self.named("prompts").items()]
        return types.ListPromptsResult(prompts=prompts)

    async def get_prompt(self, context, params):
        found = self.named("prompts").get(params.name)
        if found is None:
            raise MCPError(INVALID_PARAMS, f"there is no prompt `{params.name}`")
        child, prompt = found
        return await in_words(child.ask(lambda client: client.get_prompt(prompt.name, params.arguments)))

    async def list_resources(self, context, params):
        await self.refresh("resources")
        # Of two with the same URI, the one that is read.
        resources = {item.uri: item for child in reversed(self.children) for item in reversed(child.resources)}
        return types.ListResourcesResult(resources=list(reversed(resources.values())))

    async def list_templates(self, context, params):
        await self.refresh("templates")
        templates = [item for child in self.children for item in child.templates]
        return types.ListResourceTemplatesResult(resource_templates=templates)

    async def read_resource(self, context, params):
        """Asks the server that lists it, or those that have templates, one after another: what a template stands for they alone know."""
        uri = str(params.uri)
        listing = [child for child in self.children if uri in {str(item.uri) for item in child.resources}]
        error = MCPError(INVALID_PARAMS, f"there is no resource `{uri}`")
        for child in listing[:1] or [child for child in self.children if child.resources or child.templates]:
            try:
                return await in_words(child.ask(lambda client: client.read_resource(uri, cache_mode="bypass")))
            except MCPError as refused:
                error = refused
        raise error

    def server(self):
        return Server(
            "mcp-gateway",
            version="1",
            on_list_tools=self.list_tools,
            on_call_tool=self.call_tool,
            on_list_prompts=self.list_prompts,
            on_get_prompt=self.get_prompt,
            on_list_resources=self.list_resources,
            on_list_resource_templates=self.list_templates,
            on_read_resource=self.read_resource,
        )


async def in_words(answer):
    """An answer, or the reason why there is none, which a client would not be told of another kind of error."""
    try:
        return await answer
    except MCPError:
        raise
    except Exception as error:
        raise MCPError(INTERNAL_ERROR, str(error) or type(error).__name__) from error


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
