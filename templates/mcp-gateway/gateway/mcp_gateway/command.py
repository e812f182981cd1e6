"""The command `mcp-gateway`.

    mcp-gateway --config JSON      start the servers, and return when the gateway answers
    mcp-gateway restore            start it again as it was configured last
    mcp-gateway pull NAME …        fetch servers ahead, while a template is built
    mcp-gateway catalogue          the names of servers that can be had
    mcp-gateway refused            the names of those that cannot, each with the reason
"""

import argparse
import asyncio
import contextlib
import json
import logging
import os
import pathlib
import signal
import subprocess
import sys
import time
import uuid

from . import gateway, installing, servers

CONFIG = pathlib.Path("/etc/mcp-gateway/config.json")
TOKEN = pathlib.Path("/etc/mcp-gateway/.token")
PROCESS = pathlib.Path("/run/mcp-gateway.pid")
LOG = pathlib.Path("/var/log/mcp-gateway/gateway.log")
# The SDKs give the command a minute.
START_SECONDS = 55
# A sandbox that comes back waits for it no longer than for anything else.
RESTORE_SECONDS = 55


def main():
    parser = argparse.ArgumentParser(prog="mcp-gateway", description="A gateway to MCP servers in this sandbox.")
    parser.add_argument("--config", help="the servers and their options, as JSON")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("restore")
    commands.add_parser("catalogue")
    commands.add_parser("refused")
    commands.add_parser("pull").add_argument("names", nargs="*")
    options = parser.parse_args()
    try:
        if options.command == "catalogue":
            print("\n".join(servers.CATALOGUE))
        elif options.command == "refused":
            print("\n".join(f"{name}: {servers.reason(name)}" for name in servers.REFUSED))
        elif options.command == "pull":
            pull(options.names)
        elif options.command == "restore":
            start(json.loads(CONFIG.read_text()), TOKEN.read_text(), RESTORE_SECONDS)
        elif options.config is None:
            parser.error("--config is missing")
        else:
            configure(options.config)
    except (servers.ConfigError, OSError) as error:
        print(f"mcp-gateway: {error}", file=sys.stderr)
        return 1
    return 0


def configure(text):
    """Takes a configuration, and starts what it says in place of what runs."""
    try:
        config = json.loads(text)
    except ValueError as error:
        raise servers.ConfigError(f"the configuration is not JSON: {error}") from None
    servers.of_config(config)
    token = os.environ.get("GATEWAY_ACCESS_TOKEN") or str(uuid.uuid4())
    write(CONFIG, json.dumps(config))
    write(TOKEN, token)
    try:
        start(config, token, START_SECONDS)
    except servers.ConfigError:
        # Nothing that does not start is brought back after a pause.
        CONFIG.unlink()
        raise


def write(path, text):
    """Writes a file for root alone; options of servers are secrets, too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)
    new.rename(path)


def start(config, token, seconds):
    """Starts a gateway that outlives this command, and waits until it answers."""
    stop()
    LOG.parent.mkdir(parents=True, exist_ok=True)
    told, tells = os.pipe()
    with open(LOG, "a") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", SERVE, str(tells)],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            pass_fds=[tells],
            start_new_session=True,
            env={**os.environ, "GATEWAY_ACCESS_TOKEN": ""},
        )
    os.close(tells)
    write(PROCESS, str(process.pid))
    with contextlib.suppress(BrokenPipeError), process.stdin:
        process.stdin.write(json.dumps({"config": config, "token": token}).encode())
    try:
        errors = answer(told, time.monotonic() + seconds, seconds)
    finally:
        os.close(told)
    if errors:
        stop()
        raise servers.ConfigError("; ".join(errors))


SERVE = "import sys; sys.path.insert(0, '/opt/mcp-gateway'); from mcp_gateway.command import serve; serve(int(sys.argv[1]))"


def answer(told, deadline, seconds):
    """What the gateway says of its start."""
    os.set_blocking(told, False)
    said = b""
    while time.monotonic() < deadline:
        try:
            part = os.read(told, 65536)
        except BlockingIOError:
            time.sleep(0.02)
            continue
        if not part:
            return json.loads(said) if said else [f"the gateway has ended; see {LOG}"]
        said += part
    return [f"not all servers were ready within {seconds} s; see {LOG.parent}"]


def serve(tells):
    """Runs a gateway with what comes on standard input: neither arguments nor variables keep a secret."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    order = json.load(sys.stdin)

    def tell(errors):
        gateway.LOGGER.info("started" if not errors else "not started: %s", *errors[:1])
        os.write(tells, json.dumps(errors).encode())
        os.close(tells)

    asyncio.run(gateway.serve(servers.of_config(order["config"]), order["token"], tell))


def stop():
    """Ends the gateway that runs, with its servers."""
    try:
        process = int(PROCESS.read_text())
        command = pathlib.Path(f"/proc/{process}/cmdline").read_bytes()
    except (OSError, ValueError):
        return
    if b"mcp_gateway" not in command:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGTERM)
        for _ in range(100):
            os.killpg(process, 0)
            time.sleep(0.02)
        os.killpg(process, signal.SIGKILL)


def pull(names):
    """Fetches servers, so that the sandboxes of a template need not."""
    for name in names:
        server = servers.of_name(name, {})
        installing.install(server, sys.stdout)
        print(f"{name} is installed")
