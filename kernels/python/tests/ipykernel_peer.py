"""The same cells on ipykernel, for comparison."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any

from jupyter_client import KernelManager

Message = dict[str, Any]


class IpykernelPeer:
    """A running ipykernel; `run` gives messages in the form of our own protocol."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = list(arguments)

    def __enter__(self) -> IpykernelPeer:
        self._manager = KernelManager(kernel_name="python3")
        # Under pytest ipykernel does not watch the descriptors.
        environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
        self._manager.start_kernel(env=environment, extra_arguments=self._arguments)
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=60)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)

    def run(self, code: str) -> list[Message]:
        request = self._client.execute(code, allow_stdin=False)
        messages: list[Message] = []
        while True:
            message = self._client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") != request:
                continue
            content = message["content"]
            if message["msg_type"] == "status":
                if content["execution_state"] == "idle":
                    break
                continue
            messages.append({"type": message["msg_type"], **content})
        while True:
            reply = self._client.get_shell_msg(timeout=60)
            if reply["parent_header"].get("msg_id") == request:
                messages.append({"type": "reply", **reply["content"]})
                return messages
