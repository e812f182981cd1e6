"""The peer of a kernel, as small as it can be: it also documents how a peer has to behave."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Message = dict[str, Any]

PACKAGE_DIRECTORY = Path(__file__).parent.parent
DEADLINE_SECONDS = 30.0


class Outcome(list[Message]):
    """The messages of one execution."""

    def of_type(self, kind: str) -> list[Message]:
        return [message for message in self if message["type"] == kind]

    def text(self, name: str = "stdout") -> str:
        return "".join(message["text"] for message in self.of_type("stream") if message["name"] == name)

    @property
    def value(self) -> Message:
        """The MIME bundle of the cell's value."""
        (result,) = self.of_type("execute_result")
        return result["data"]

    @property
    def displays(self) -> list[Message]:
        return [message["data"] for message in self.of_type("display_data")]

    @property
    def error(self) -> Message:
        (error,) = self.of_type("error")
        return error

    @property
    def reply(self) -> Message:
        (reply,) = self.of_type("reply")
        return reply

    def ok(self) -> Outcome:
        """This outcome, which must be a success."""
        assert self.reply["status"] == "ok", self
        return self


class KernelClient:
    """One connection to one kernel."""

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self.connection = connection
        self.pid = pid
        connection.settimeout(DEADLINE_SECONDS)
        self._file = connection.makefile("rb")
        self._requests = 0
        self.hello = self.receive()

    def receive(self) -> Message:
        header = self._file.read(4)
        if len(header) < 4:
            raise EOFError("the kernel hung up")
        body = self._file.read(struct.unpack(">I", header)[0])
        assert body.isascii()
        return json.loads(body, parse_constant=_no_constant)

    def send(self, request: Message) -> str:
        self._requests += 1
        identifier = f"request-{self._requests}"
        body = json.dumps({"id": identifier, **request}).encode()
        self.connection.sendall(struct.pack(">I", len(body)) + body)
        return identifier

    def ask(self, request: Message) -> Message:
        """Send anything but an execution; returns the reply."""
        identifier = self.send(request)
        while True:
            message = self.receive()
            if message["type"] == "reply" and message["parent"] == identifier:
                return message

    def start(self, code: str, **options: Any) -> str:
        return self.send({"type": "execute", "code": code, **options})

    def finish(self, on_message: Callable[[Message], None] | None = None) -> Outcome:
        """Read until idle."""
        outcome = Outcome()
        while True:
            message = self.receive()
            outcome.append(message)
            if on_message is not None:
                on_message(message)
            if message["type"] == "status" and message["state"] == "idle":
                return outcome

    def run(self, code: str, **options: Any) -> Outcome:
        self.start(code, **options)
        return self.finish()

    def wait_for_text(self, wanted: str) -> str:
        """Read until this text was printed; returns all text read."""
        text = ""
        while wanted not in text:
            message = self.receive()
            if message["type"] == "stream":
                text += message["text"]
        return text

    def interrupt(self) -> None:
        os.kill(self.pid, signal.SIGINT)

    def memory_kib(self, field: str = "VmHWM") -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        (line,) = [line for line in status.splitlines() if line.startswith(f"{field}:")]
        return int(line.split()[1])

    def thread_count(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/task"))

    def close(self) -> None:
        self._file.close()
        self.connection.close()


class Zygote:
    """A prepared process from which kernels are forked in milliseconds."""

    def __init__(self, preload: Iterable[str] = ()) -> None:
        self._control, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.zygote", str(theirs.fileno()), *preload],
            pass_fds=[theirs.fileno()],
            cwd=PACKAGE_DIRECTORY,
        )
        theirs.close()
        self._control.settimeout(DEADLINE_SECONDS)
        assert self._control.recv(16) == b"prepared"

    def fork(self) -> KernelClient:
        ours, theirs = socket.socketpair()
        socket.send_fds(self._control, [b"f"], [theirs.fileno()])
        theirs.close()
        return KernelClient(ours, int(self._control.recv(16)))

    def close(self) -> None:
        self._control.close()
        self._process.wait(DEADLINE_SECONDS)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Poll until `condition` holds, or fail with what was awaited."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.005)


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")
