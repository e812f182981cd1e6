"""Everything the kernel says, as messages of `PROTOCOL.md`.

One object knows which execution is running, so that output of threads, tasks and child processes is
attributed in one place: to the execution that runs when the output is made, or to none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from .encoding import bundle_to_json, quote, to_json
from .wire import Wire

LARGEST_TEXT = 65536
"""Characters in one stream message; readers need time quadratic in the length of a line."""


def _now() -> int:
    return time.time_ns() // 1000


def _reply(parent: str, fields: Mapping[str, Any]) -> str:
    return f'{{"type":"reply","parent":{parent}' + "".join(f",{quote(k)}:{to_json(v)}" for k, v in fields.items()) + "}"


class Outlet:
    """Composes messages and hands them to the wire."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self._parent = "null"
        self._stream_heads: dict[str, str] = {}
        # Brings everything that was printed before this moment onto the wire.
        self.settle: Callable[[], None] = lambda: None
        self.set_parent(None)

    def set_parent(self, execution_id: str | None) -> None:
        """From now on output belongs to this execution, or to none."""
        self._parent = to_json(execution_id)
        self._stream_heads = {
            name: f'{{"type":"stream","parent":{self._parent},"name":"{name}","time":' for name in ("stdout", "stderr")
        }

    def post_text(self, name: str, text: str, receipts: list[int] | None = None) -> None:
        """Accept at most LARGEST_TEXT characters of a stream; the caller flushes the wire."""
        quoted = quote(text)
        # As one step: no message may name an execution after the end of that execution was sent.
        with self.wire.lock:
            self.wire.post(f'{self._stream_heads[name]}{_now()},"text":{quoted}}}', receipts=receipts)

    def hello(self, fields: Mapping[str, Any]) -> None:
        self.wire.send(to_json({"type": "hello", **fields}))

    def started(self, execution_count: int) -> None:
        """The execution was accepted under this number."""
        self.wire.post(
            self._status("busy"),
            f'{{"type":"execute_input","parent":{self._parent},"execution_count":{execution_count},"time":{_now()}}}',
        )
        self.wire.flush()

    def finished(self, reply: Mapping[str, Any], receipts: list[int]) -> None:
        """The end of an execution: its reply, and idle. What follows belongs to none.

        May be called again, with the same `receipts`, after an exception from a signal handler.
        """
        message = _reply(self._parent, reply)
        with self.wire.lock:
            if not receipts:
                self.wire.post(message, self._status("idle"), receipts=receipts)
            self.set_parent(None)
        self.wire.flush()

    def answer(self, request_id: Any, reply: Mapping[str, Any]) -> None:
        """The reply to a request that is no execution."""
        self.wire.send(_reply(to_json(request_id), reply))

    def _status(self, state: str) -> str:
        return f'{{"type":"status","parent":{self._parent},"state":"{state}","time":{_now()}}}'

    def display(
        self, data: Mapping[str, Any], metadata: Mapping[str, Any], transient: Mapping[str, Any], update: bool
    ) -> None:
        """Something displayed, or a new version of it."""
        self.settle()
        kind = "update_display_data" if update else "display_data"
        self.wire.send(
            f'{{"type":"{kind}","parent":{self._parent},"time":{_now()},"data":{bundle_to_json(data)},'
            f'"metadata":{to_json(dict(metadata))},"transient":{to_json(dict(transient))}}}'
        )

    def result(self, execution_count: int, data: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        """The value of the cell."""
        self.settle()
        self.wire.send(
            f'{{"type":"execute_result","parent":{self._parent},"time":{_now()},"execution_count":{execution_count},'
            f'"data":{bundle_to_json(data)},"metadata":{to_json(dict(metadata))}}}'
        )

    def error(self, name: str, value: str, traceback: list[str], kind: str) -> None:
        """An exception that ended the cell, or was shown on its way."""
        self.settle()
        self.wire.send(
            f'{{"type":"error","parent":{self._parent},"time":{_now()},"kind":"{kind}","ename":{quote(name)},'
            f'"evalue":{quote(value)},"traceback":{to_json(list(traceback))}}}'
        )

    def input_request(self, identifier: str, prompt: str, password: bool) -> None:
        """The cell waits for a line."""
        self.settle()
        self.wire.send(
            f'{{"type":"input_request","parent":{self._parent},"time":{_now()},"id":{quote(identifier)},'
            f'"prompt":{quote(prompt)},"password":{to_json(password)}}}'
        )

    def clear_output(self, wait: bool) -> None:
        self.settle()
        self.wire.send(f'{{"type":"clear_output","parent":{self._parent},"time":{_now()},"wait":{to_json(wait)}}}')
