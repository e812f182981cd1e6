"""Plain HTTP beside the SDK: user ports, signed URLs and answers that the SDK hides."""

import http.client
import json
import os
from dataclasses import dataclass
from urllib.parse import urlsplit

API_URL = os.environ.get("E2B_API_URL")
SANDBOX_URL = os.environ.get("E2B_SANDBOX_URL")
DOMAIN = os.environ.get("E2B_DOMAIN")


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


def fetch(url, method="GET", headers=None, body=None, timeout=20):
    """One request, no redirects, every status is an answer."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname, parts.port, timeout=timeout)
    try:
        target = parts.path or "/"
        connection.request(method, f"{target}?{parts.query}" if parts.query else target, body, headers or {})
        response = connection.getresponse()
        lowered = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, lowered, response.read())
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
    if SANDBOX_URL:
        routing = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": str(number)}
        return fetch(SANDBOX_URL + path, method, {**routing, **(headers or {})}, body)
    return fetch(f"https://{sandbox.get_host(number)}{path}", method, headers, body)
