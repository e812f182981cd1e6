"""The kernel gateway as clients see it: REST, and a WebSocket in both forms of messages."""

import json
import os
import struct
import time
import urllib.error
import urllib.request
import uuid

import websocket

KEY = os.environ["E2B_API_KEY"]
API = os.environ["E2B_API_URL"]
URL = f"{API}/skep/jupyter"
PARTS = "v1.kernel.websocket.jupyter.org"
BEARER = {"Authorization": f"Bearer {KEY}"}
TIMEOUT = 60


def rest(method, path, body=None, headers=BEARER, url=URL):
    """A request; returns status and body."""
    data = None if body is None else json.dumps(body).encode()
    usual = {"Content-Type": "application/json"} if data else {}
    request = urllib.request.Request(url + path, data=data, headers={**usual, **headers}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            return answer.status, json.loads(answer.read() or "null")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or "null")


class Kernel:
    """A kernel of the gateway, ended at the end of the scope."""

    def __init__(self, name=None):
        status, model = rest("POST", "/api/kernels", name and {"name": name})
        assert status == 201, model
        self.id = model["id"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        rest("DELETE", f"/api/kernels/{self.id}")

    def model(self):
        return rest("GET", f"/api/kernels/{self.id}")

    def connect(self, **options):
        return Connection(self.id, **options)


class Connection:
    """A WebSocket of a kernel."""

    def __init__(self, kernel, parts=False, headers=BEARER, query="", **options):
        url = f"{URL.replace('http', 'ws', 1)}/api/kernels/{kernel}/channels{query}"
        protocols = [PARTS] if parts else None
        self.socket = websocket.create_connection(url, timeout=TIMEOUT, header=headers, subprotocols=protocols, **options)
        assert self.socket.subprotocol == (PARTS if parts else None)
        self.parts = parts

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, kind, content, channel="shell", parent=None):
        identity = uuid.uuid4().hex
        header = {"msg_id": identity, "msg_type": kind, "session": "s", "username": "u", "date": "", "version": "5.3"}
        if self.parts:
            pieces = [channel.encode(), *(json.dumps(part).encode() for part in (header, parent or {}, {}, content))]
            offsets = [8 * (len(pieces) + 2)]
            for piece in pieces:
                offsets.append(offsets[-1] + len(piece))
            front = struct.pack(f"<{len(offsets) + 1}Q", len(offsets), *offsets)
            self.socket.send_binary(front + b"".join(pieces))
        else:
            message = {"header": header, "parent_header": parent or {}, "metadata": {}, "content": content}
            self.socket.send(json.dumps({**message, "channel": channel, "buffers": []}))
        return identity

    def receive(self):
        message = self.socket.recv()
        if not self.parts:
            return json.loads(message)
        assert isinstance(message, bytes)
        (count,) = struct.unpack_from("<Q", message)
        offsets = struct.unpack_from(f"<{count}Q", message, 8)
        pieces = [message[start:end] for start, end in zip(offsets, offsets[1:])]
        header, parent, metadata, content = map(json.loads, pieces[1:])
        return {
            "channel": pieces[0].decode(),
            "header": header,
            "msg_type": header["msg_type"],
            "parent_header": parent,
            "metadata": metadata,
            "content": content,
        }

    def until_idle(self, identity, answer=None):
        """All that is said because of a request, up to its end, with its reply."""
        said, idle, reply = [], False, None
        while not (idle and reply):
            message = self.receive()
            if message["parent_header"].get("msg_id") != identity:
                continue
            said.append(message)
            idle = idle or message["content"].get("execution_state") == "idle"
            reply = message if message["msg_type"].endswith("_reply") else reply
            if message["msg_type"] == "input_request":
                self.send("input_reply", {"value": answer}, "stdin", message["header"])
        return said, reply["content"]

    def ask(self, kind, content=None, channel="shell"):
        return self.until_idle(self.send(kind, content or {}, channel))[1]

    def run(self, code, answer=None, **options):
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": answer is not None, **options}
        return self.until_idle(self.send("execute_request", content), answer)


def text(said, name="stdout"):
    """What was printed."""
    texts = [message["content"]["text"] for message in said if message["msg_type"] == "stream" and message["content"]["name"] == name]
    return "".join(texts)


def of_kind(said, kind):
    return [message["content"] for message in said if message["msg_type"] == kind]


def wait_for(condition, what):
    """Waits until something is true."""
    deadline = time.monotonic() + TIMEOUT
    while not (value := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
    return value


def sandboxes():
    """The kernels of the sandboxes that run."""
    status, found = rest("GET", "/v2/sandboxes", headers={"X-API-Key": KEY}, url=API)
    assert status == 200
    return {item["metadata"].get("skep.jupyter.kernel"): item["sandboxID"] for item in found}
