"""Sandboxes of the first generation that do not demand their token, and what must stay closed all the same. Plain HTTP, so once."""

import json
import types

import pytest

import web
from interpreters import TEMPLATE

pytestmark = [pytest.mark.once, pytest.mark.feature("errors.token")]

AGENT, INTERPRETER = 49983, 49999
# What a page of another site, a page of a neighbour's port and a client behind another proxy cannot leave out.
STRANGERS = [
    {"Origin": "https://evil.test"},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"X-Forwarded-For": "203.0.113.7"},
    {"Forwarded": "for=203.0.113.7"},
]


def made(route, **options):
    answer = web.api("POST", route, {"templateID": TEMPLATE, "timeout": 120, **options})
    assert answer.status == 201, answer.text
    return types.SimpleNamespace(sandbox_id=answer.json["sandboxID"], token=answer.json["envdAccessToken"])


@pytest.fixture(scope="module")
def opened():
    """As SDKs 1.x make them."""
    sandbox = made("/sandboxes", secure=False)
    yield sandbox
    web.api("DELETE", f"/sandboxes/{sandbox.sandbox_id}")


def attempts(sandbox, **headers):
    """The statuses of everything that a token opens, without one."""
    sent = {"Content-Type": "application/json", **headers}
    run = json.dumps({"code": "6 * 7", "language": "python"})
    ask = [
        (INTERPRETER, "POST", "/execute", run),
        (INTERPRETER, "GET", "/contexts", None),
        (INTERPRETER, "POST", "/contexts", "{}"),
        (AGENT, "POST", "/process.Process/List", "{}"),
        (AGENT, "GET", "/files?path=/etc/hostname", None),
        (AGENT, "GET", "/metrics", None),
    ]
    return [web.port(sandbox, port, path, sent, method, body).status for port, method, path, body in ask]


def test_an_open_sandbox_demands_no_token_of_programs(opened):
    assert attempts(opened) == [200] * 6
    # As a browser says it when its user typed the address.
    assert attempts(opened, **{"Sec-Fetch-Site": "none"}) == [200] * 6


@pytest.mark.parametrize("stranger", STRANGERS, ids=str)
def test_pages_and_what_another_proxy_passes_on_are_refused(opened, stranger):
    assert attempts(opened, **stranger) == [401] * 6
    # The control: with the token they are served.
    assert attempts(opened, **stranger, **{"X-Access-Token": opened.token}) == [200] * 6


def test_a_wrong_token_and_a_wrong_signature_are_refused(opened):
    assert attempts(opened, **{"X-Access-Token": "0" * 64}) == [401] * 6
    signed = "/files?path=/etc/hostname&signature=v1_wrong"
    assert web.port(opened, AGENT, signed).status == 401
    assert web.port(opened, AGENT, signed.split("&")[0]).status == 200


@pytest.mark.parametrize(
    ("route", "options"),
    [("/sandboxes", {"secure": True}), ("/v2/sandboxes", {}), ("/v2/sandboxes", {"secure": False})],
    ids=str,
)
def test_no_other_sandbox_is_open(route, options):
    sandbox = made(route, **options)
    try:
        assert attempts(sandbox) == [401] * 6
        assert attempts(sandbox, **{"X-Access-Token": sandbox.token}) == [200] * 6
    finally:
        web.api("DELETE", f"/sandboxes/{sandbox.sandbox_id}")


def test_code_inside_an_open_sandbox_needs_the_token(opened):
    code = """import http.client
connection = http.client.HTTPConnection("127.0.0.1", 49983, timeout=20)
connection.request("POST", "/process.Process/List", "{}", {"Content-Type": "application/json"})
print(connection.getresponse().status)"""
    body = json.dumps({"code": code, "language": "python"})
    answer = web.port(opened, INTERPRETER, "/execute", {"Content-Type": "application/json"}, "POST", body)
    assert answer.status == 200 and '"401\\n"' in answer.text, answer.text
