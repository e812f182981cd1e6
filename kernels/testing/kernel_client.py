"""The peer of a kernel, as small as it can be: it also documents how a peer has to behave. The tests of all kernels use it."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Message = dict[str, Any]

DEADLINE_SECONDS = 60.0


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
        bundle: Message = result["data"]
        return bundle

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
            raise EOFError(f"the kernel hung up: {self.last_words()}")
        body = self._file.read(struct.unpack(">I", header)[0])
        assert body.isascii()
        message: Message = json.loads(body, parse_constant=_no_constant)
        return message

    def last_words(self) -> str:
        """What the process wrote where nobody listens."""
        return ""

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


class KernelProcess(KernelClient):
    """One kernel process, started as the interpreter starts it: the socket is its standard input."""

    def __init__(
        self, command: list[str], environment: dict[str, str] | None = None, directory: str | None = None
    ) -> None:
        ours, theirs = socket.socketpair()
        self.process = subprocess.Popen(
            [*command, "--socket-fd", "0"],
            stdin=theirs,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "HOME": "/nonexistent", **(environment or {})},
            cwd=directory,
            process_group=0,
        )
        theirs.close()
        super().__init__(ours, self.process.pid)

    def last_words(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def interrupt(self) -> None:
        """As the interpreter does: the kernel and its group."""
        os.killpg(self.pid, signal.SIGINT)

    def exit_status(self) -> int:
        return self.process.wait(DEADLINE_SECONDS)

    def close(self) -> None:
        super().close()
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(DEADLINE_SECONDS)
        assert self.process.stderr is not None
        self.process.stderr.close()


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Poll until `condition` holds, or fail with what was awaited."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.005)


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")
