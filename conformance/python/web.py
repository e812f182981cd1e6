"""Plain HTTP beside the SDK: user ports, signed URLs and answers that the SDK hides."""

import http.client
import json
import os
import socket
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

API_URL = os.environ.get("E2B_API_URL")
SANDBOX_URL = os.environ.get("E2B_SANDBOX_URL")
DOMAIN = os.environ.get("E2B_DOMAIN")
# Whom to trust over TLS, where the server speaks clear text on the same port.
AUTHORITIES = os.environ.get("CONFORMANCE_CA_BUNDLE")


@dataclass
class Answer:
    status: int
    headers: dict
    body: bytes

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        return json.loads(self.body)


def dial(url):
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return parts, kind(parts.hostname, parts.port, timeout=20)


def fetch(url, method="GET", headers=None, body=None):
    """One request, no redirects, every status is an answer."""
    parts, connection = dial(url)
    try:
        target = parts.path or "/"
        connection.request(method, f"{target}?{parts.query}" if parts.query else target, body, headers or {})
        response = connection.getresponse()
        lowered = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, lowered, response.read())
    finally:
        connection.close()


def side_by_side(count, method, path, body=None):
    """The same request to the API on `count` connections that were there before the first of them is answered."""
    base = API_URL or f"https://api.{DOMAIN}"
    connections = [dial(base)[1] for _ in range(count)]
    try:
        for connection in connections:
            connection.connect()
        headers = {"X-API-Key": os.environ["E2B_API_KEY"], "Content-Type": "application/json"}
        for connection in connections:
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        return [connection.getresponse().status for connection in connections]
    finally:
        for connection in connections:
            connection.close()


def by_name(scheme, name):
    """`GET /` at a name of the server's, which is looked up as a browser does: on this host."""
    host, port = name.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    connection.sock = socket.create_connection(("127.0.0.1", int(port)), 20)
    if scheme == "https":
        trusted = ssl.create_default_context(cafile=AUTHORITIES)
        connection.sock = trusted.wrap_socket(connection.sock, server_hostname=host)
    try:
        connection.request("GET", "/")
        response = connection.getresponse()
        return Answer(response.status, dict(response.getheaders()), response.read())
    finally:
        connection.close()


def cut_upload(url, sent, declared):
    """Begins an upload of `declared` bytes and hangs up after those in `sent`."""
    parts, connection = dial(url)
    connection.putrequest("POST", f"{parts.path}?{parts.query}")
    connection.putheader("Content-Type", "application/octet-stream")
    connection.putheader("Content-Length", str(declared))
    connection.endheaders()
    connection.send(sent)
    connection.close()


def first_pieces(url, headers):
    """A response that is read piece by piece as it arrives."""
    parts, connection = dial(url)
    connection.request("GET", parts.path or "/", headers=headers)
    response = connection.getresponse()
    try:
        while piece := response.read1():
            yield piece
    finally:
        connection.close()


def api(method, path, body=None, key=None, headers=None):
    """A request to the control plane with the key of this run."""
    base = API_URL or f"https://api.{DOMAIN}"
    sent = {"X-API-KEY": os.environ["E2B_API_KEY"] if key is None else key, **(headers or {})}
    if body is not None:
        sent["Content-Type"] = "application/json"
        body = json.dumps(body)
    return fetch(base + path, method, sent, body)


def port(sandbox, number, path="/", headers=None, method="GET", body=None):
    """A request to a port inside a sandbox, by name where there are names and by headers where not."""
    base, routing = way_to(sandbox, number)
    return fetch(base + path, method, {**routing, **(headers or {})}, body)


def way_to(sandbox, number):
    """Base URL and headers that lead to a port inside a sandbox."""
    if SANDBOX_URL:
        return SANDBOX_URL, {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": str(number)}
    return f"https://{sandbox.get_host(number)}", {}
