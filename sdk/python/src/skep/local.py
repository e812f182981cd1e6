"""A server on this host: found as `skep run` finds it, or started for this process."""

from __future__ import annotations

import atexit
import json
import os
import select
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Dict, List, Optional, Tuple
from urllib.parse import urlsplit

import httpx

from skep.errors import LocalServerError

_HEALTHY = "Health check successful"
_HEALTH_SECONDS = 3.0
_START_SECONDS = 60.0
_STOP_SECONDS = 30.0
_USUAL = "127.0.0.1:3000"
_FIRST_TEMPLATE = "code-interpreter-slim"
_LISTENING = "0A"

_started: Optional[LocalServer] = None
_lock = threading.Lock()


@dataclass
class LocalServer:
    """A server on this host."""

    url: str
    api_key: str = field(repr=False)
    _process: Optional[subprocess.Popen[bytes]] = field(default=None, repr=False)
    _directory: Optional[tempfile.TemporaryDirectory[str]] = field(default=None, repr=False)

    @property
    def is_own(self) -> bool:
        """Whether it was started for this process, and ends with it."""
        return self._process is not None

    def connection(self) -> Dict[str, Any]:
        """The options that lead `Sandbox.create` and `Sandbox.connect` to it."""
        return {"api_url": self.url, "sandbox_url": self.url, "api_key": self.api_key}

    def stop(self) -> None:
        """Ends a server that was started for this process, with its sandboxes. Another one is left alone."""
        global _started
        if self._process is None or self._directory is None:
            return
        process, directory = self._process, self._directory
        self._process = self._directory = None
        with _lock:
            if _started is self:
                _started = None
        assert process.stdin is not None
        # It ends when its standard input does.
        process.stdin.close()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        directory.cleanup()


def local_server(template: Optional[str] = None) -> LocalServer:
    """The server that `SKEP_SERVER` or `E2B_API_URL` names, or the one of this host, or one that is started.

    The key is `E2B_API_KEY`, or that of this host, which only its operator can read, and which only a server of the
    same user is sent. A server that is started needs root and the executable `skep`; it is gone, with its sandboxes
    and all its data, when this process is. It has the templates that were built on this host; `template` is the one
    that is wanted, without which a small one with an interpreter is built if none is there.
    """
    global _started
    named = os.environ.get("SKEP_SERVER") or os.environ.get("E2B_API_URL")
    if named:
        return LocalServer(*_with_key(named if "://" in named else f"http://{named}"))
    listen = os.environ.get("SKEP_LISTEN") or _USUAL
    url = f"http://{_reachable(listen)}"
    if _is_healthy(url):
        return LocalServer(*_with_key(url))
    with _lock:
        if _started is None:
            _started = _start(url, template)
        return _started


def _is_healthy(url: str) -> bool:
    try:
        # No proxy: it is on this host.
        with httpx.Client(trust_env=False, timeout=_HEALTH_SECONDS) as client:
            return client.get(f"{url}/health").text == _HEALTHY
    except httpx.HTTPError:
        return False


def _reachable(listen: str) -> str:
    host, _, port = listen.rpartition(":")
    return {"0.0.0.0": f"127.0.0.1:{port}", "[::]": f"[::1]:{port}"}.get(host, listen)


def _with_key(url: str) -> Tuple[str, str]:
    given = os.environ.get("E2B_API_KEY")
    if given:
        return url, given
    path = Path(os.environ.get("SKEP_DATA_DIR") or "/var/lib/skep", "local-key")
    try:
        owner = path.stat().st_uid
        key = path.read_text().strip()
    except OSError as error:
        raise LocalServerError(
            f"a server runs at {url}, and the key of this host cannot be read ({error}): set E2B_API_KEY, or run this as its operator"
        ) from error
    others = _listeners(url) - {owner}
    if others:
        raise LocalServerError(
            f"user {min(others)} listens at {url}, and not user {owner}, whom the key of this host belongs to: set E2B_API_KEY"
        )
    if not _listeners(url):
        raise LocalServerError(f"{url} is not on this host, and is not sent its key: set E2B_API_KEY")
    return url, key


def _listeners(url: str) -> set[int]:
    """The users whose sockets take connections to an address of this host."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        wanted = {found[4][0] for found in socket.getaddrinfo(parts.hostname, port, flags=socket.AI_NUMERICHOST)}
    except socket.gaierror:
        wanted = {"127.0.0.1", "::1"} if (parts.hostname or "").endswith("localhost") else set()
    users = set()
    for line in _sockets():
        address, number, state, user = line
        is_any = address in ("0.0.0.0", "::") and wanted & {"127.0.0.1", "::1"}
        if state == _LISTENING and number == port and (address in wanted or is_any):
            users.add(user)
    return users


def _sockets() -> List[Tuple[str, int, str, int]]:
    found = []
    for name in ("tcp", "tcp6"):
        try:
            lines = Path("/proc/self/net", name).read_text().splitlines()[1:]
        except FileNotFoundError:
            # A kernel without the protocol, or another system.
            continue
        for line in lines:
            fields = line.split()
            digits, number = fields[1].split(":")
            found.append((_address(digits), int(number, 16), fields[3], int(fields[7])))
    return found


def _address(digits: str) -> str:
    """An address as the kernel writes it: words of four bytes, each in this host's order."""
    words = [int(digits[start : start + 8], 16) for start in range(0, len(digits), 8)]
    packed = b"".join(struct.pack("=I", word) for word in words)
    if len(packed) == 4:
        return socket.inet_ntop(socket.AF_INET, packed)
    if packed.startswith(b"\0" * 10 + b"\xff\xff"):
        return socket.inet_ntop(socket.AF_INET, packed[12:])
    return socket.inet_ntop(socket.AF_INET6, packed)


def _start(url: str, template: Optional[str]) -> LocalServer:
    executable = shutil.which("skep")
    if executable is None:
        raise LocalServerError(
            f"no server runs at {url}, and there is no executable `skep` to start one with: install it, or set SKEP_SERVER to a server"
        )
    if os.geteuid() != 0:
        raise LocalServerError(
            f"no server runs at {url}, and starting one needs root: `sudo skep up` starts one, or run this with `sudo`"
        )
    # Where it is, a server says so.
    directory = tempfile.TemporaryDirectory(prefix="skep-run-")
    if template is None:
        _build(executable, directory.name)
    command = [executable, "serve", "--json", "--private", "--listen", "127.0.0.1:0", "--data-dir", directory.name]
    log = tempfile.TemporaryFile()
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        # Signals of the terminal do not reach it.
        start_new_session=True,
        env={**os.environ, "SKEP_LOG": "warn"},
    )
    assert process.stdout is not None
    line = process.stdout.readline() if select.select([process.stdout], [], [], _START_SECONDS)[0] else b""
    try:
        ready = json.loads(line)
        server = LocalServer(ready["apiUrl"], ready["apiKey"], process, directory)
    except (ValueError, KeyError) as error:
        process.kill()
        process.wait()
        directory.cleanup()
        raise LocalServerError(f"the server did not become ready:\n{_tail(log)}") from error
    atexit.register(server.stop)
    return server


def _build(executable: str, directory: str) -> None:
    command = [executable, "template", "build", _FIRST_TEMPLATE, "--data-dir", directory]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise LocalServerError(f"the template {_FIRST_TEMPLATE} cannot be built:\n{done.stdout.decode(errors='replace')}")


def _tail(log: IO[bytes]) -> str:
    log.seek(0)
    return "\n".join(log.read().decode(errors="replace").splitlines()[-5:])
