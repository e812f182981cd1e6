"""One server that runs behind the gateway."""

import asyncio
import contextlib
import pathlib

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError
from mcp.types import Implementation

from . import installing, servers

LOGS = pathlib.Path("/var/log/mcp-gateway")
# How long a server that has died waits before it is started again, at least and at most.
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30
# How long a server has for a list of what it offers.
LIST_SECONDS = 10


class Child:
    """A server that is started again whenever it dies."""

    def __init__(self, server):
        self.server = server
        # What it offers, as it has said last.
        self.tools, self.prompts, self.resources, self.templates = [], [], [], []
        self.client = None
        self.died = asyncio.Event()
        # Done when it has answered for the first time, or has failed to.
        self.started = asyncio.get_running_loop().create_future()

    async def live(self):
        """Runs it for ever; a failure before its first answer is told and final."""
        pause = FIRST_PAUSE
        with open(LOGS / f"{self.server.name.replace('/', '-')}.log", "a") as log:
            try:
                await asyncio.to_thread(installing.install, self.server, log)
            except Exception as error:
                self.fail(error)
                return
            while True:
                try:
                    async with self.connected(log) as client:
                        await self.list_of(client, "tools")
                        self.client, pause = client, FIRST_PAUSE
                        await self.refresh("prompts", "resources", "templates")
                        if not self.started.done():
                            self.started.set_result(None)
                        await self.died.wait()
                except Exception as error:
                    if not self.started.done():
                        self.fail(error)
                        return
                self.client = None
                self.died.clear()
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    @contextlib.asynccontextmanager
    async def connected(self, log):
        command, *arguments = [*servers.AS_USER, *self.server.words()]
        parameters = StdioServerParameters(
            command=command,
            args=arguments,
            env={**installing.environment(), **self.server.env},
            cwd=self.server.cwd,
        )
        me = Implementation(name="mcp-gateway", version="1")
        # The handshake of old: nearly all servers of the catalogue know no other, and some hang at a question that they
        # do not know.
        async with Client(stdio_client(parameters, errlog=log), mode="legacy", client_info=me) as client:
            yield client

    def fail(self, error):
        log = LOGS / f"{self.server.name.replace('/', '-')}.log"
        said = [line for line in log.read_text(errors="replace").splitlines() if line.strip()][-3:] if log.exists() else []
        reason = error
        if not isinstance(error, servers.ConfigError):
            reason = f"it did not start ({innermost(error)}): {' | '.join(said)}"
        self.started.set_exception(servers.ConfigError(f"{self.server.name}: {reason}"))

    async def ask(self, work):
        """What it answers to `work`, which is done with a client; a server that is gone is missed, and comes back."""
        client = self.client
        if client is None:
            raise servers.ConfigError(f"the server `{self.server.name}` has died and is being started again; call once more")
        try:
            return await work(client)
        except MCPError:
            # Either its own word, or the end of the connection; a question tells them apart.
            try:
                await asyncio.wait_for(client.send_ping(), 5)
            except Exception:
                self.died.set()
            raise
        except Exception:
            self.died.set()
            raise

    async def refresh(self, *kinds):
        """Asks it anew what it offers. Of one that does not say so now, it is what it has said last."""
        client = self.client
        for kind in kinds if client else ():
            with contextlib.suppress(Exception):
                await self.list_of(client, kind)

    async def list_of(self, client, kind):
        capability, field = LISTS[kind]
        if getattr(client.server_capabilities, capability) is None:
            return
        method, found, cursor = getattr(client, f"list_{field}"), [], None
        async with asyncio.timeout(LIST_SECONDS):
            while True:
                page = await method(cursor=cursor, cache_mode="bypass")
                found += getattr(page, field)
                cursor = page.next_cursor
                if not cursor:
                    break
        setattr(self, kind, found)


# What servers list: the capability that says whether one does, and the field of the answer.
LISTS = {
    "tools": ("tools", "tools"),
    "prompts": ("prompts", "prompts"),
    "resources": ("resources", "resources"),
    "templates": ("resources", "resource_templates"),
}


def innermost(error):
    """What really happened, of a group of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"
