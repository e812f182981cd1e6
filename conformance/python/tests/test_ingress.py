"""Who reaches the ports of a sandbox whose owner closed them, and what a service sees of a request."""

import json

import pytest

import web
from flavour import eventually, in_thread
from interpreters import Interpreter

feature = pytest.mark.feature

HEADER = "e2b-traffic-access-token"
BROWSER = {"User-Agent": "Mozilla/5.0 (X11) Firefox/140.0"}

MIRROR = """
import http.server, json
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({name.lower(): value for name, value in self.headers.items()}).encode())
server = http.server.HTTPServer(("127.0.0.1", 8080), Handler)
"""
PLAIN = MIRROR + "server.serve_forever()"
SECURE = MIRROR + """
import ssl, subprocess
subprocess.run("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=self"
               " -keyout /tmp/key.pem -out /tmp/certificate.pem", shell=True, check=True)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/tmp/certificate.pem", "/tmp/key.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


async def serve(sdk, sandbox, program):
    await sdk.call(sandbox.files.write, "/tmp/mirror.py", program)
    await sdk.start(sandbox, "python3 /tmp/mirror.py", timeout=0)


async def seen(sandbox, headers=None):
    async def answers():
        answer = await in_thread(web.port, sandbox, 8080, headers=headers)
        return answer if answer.status == 200 else None

    answer = await eventually(answers, "an answer of the service", 20)
    return json.loads(answer.text)


@feature("ingress.private")
async def test_a_private_port_is_open_to_those_who_show_its_token(sdk, fresh):
    sandbox = await fresh(network={"allow_public_traffic": False})
    token = sandbox.traffic_access_token
    await serve(sdk, sandbox, PLAIN)
    headers = await seen(sandbox, {HEADER: token})
    assert HEADER not in headers and token not in json.dumps(headers)
    missing = await in_thread(web.port, sandbox, 8080)
    assert (missing.status, missing.json["sandboxId"]) == (403, sandbox.sandbox_id)
    assert missing.json["message"] == (
        f"Sandbox is secured with traffic access token. Token header '{HEADER}' is missing"
    )
    wrong = await in_thread(web.port, sandbox, 8080, headers={HEADER: "wrong"})
    assert "Provided token in header" in wrong.json["message"]
    page = await in_thread(web.port, sandbox, 8080, headers=BROWSER)
    assert page.status == 403 and page.text.startswith("<!DOCTYPE html>")
    assert "Missing Traffic Access Token" in page.text and "Missing traffic access token" in page.text
    # The agent has a token of its own, so everything else works as before.
    assert (await sdk.call(sandbox.commands.run, "echo works")).stdout == "works\n"
    connected = await sdk.call(sdk.Sandbox.connect, sandbox.sandbox_id)
    assert connected.traffic_access_token == token


@feature("ingress.private")
@pytest.mark.new_only
@pytest.mark.deadline(120)
async def test_the_token_outlives_a_pause(sdk, fresh):
    sandbox = await fresh(network={"allow_public_traffic": False})
    token = sandbox.traffic_access_token
    await serve(sdk, sandbox, PLAIN)
    await seen(sandbox, {HEADER: token})
    await sdk.call(sandbox.pause)
    resumed = await sdk.call(sdk.Sandbox.connect, sandbox.sandbox_id)
    assert resumed.traffic_access_token == token
    await seen(sandbox, {HEADER: token})
    assert (await in_thread(web.port, sandbox, 8080)).status == 403


@feature("ingress.private")
async def test_code_runs_in_a_private_sandbox(sdk):
    interpreter = await Interpreter.create(sdk, network={"allow_public_traffic": False})
    try:
        execution = await interpreter.run("40 + 2")
        assert execution.text == "42"
        assert (await in_thread(web.port, interpreter.sandbox, 49999, "/contexts")).status == 403
    finally:
        await interpreter.kill()


@feature("ingress.mask")
async def test_a_service_sees_the_masked_host(sdk, fresh):
    sandbox = await fresh(network={"mask_request_host": "custom-host.example.com:${PORT}"})
    await serve(sdk, sandbox, PLAIN)
    headers = await seen(sandbox)
    assert headers["host"] == "custom-host.example.com:8080"
    assert headers["x-forwarded-host"]


@feature("ingress.https")
@pytest.mark.new_only
async def test_a_service_that_speaks_tls_alone_is_reached(sdk, fresh):
    sandbox = await fresh(network={"https_ports": [8080]})
    await serve(sdk, sandbox, SECURE)
    assert "host" in await seen(sandbox)
    info = await sdk.call(sandbox.get_info)
    assert info.network["https_ports"] == [8080]
