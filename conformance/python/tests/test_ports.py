"""What is reached from outside: user ports, signed URLs, and the proxy's own answers."""

import json

import pytest

import web
from flavour import eventually, in_thread

feature = pytest.mark.feature

SERVER = "python3 -m http.server {port} --bind {address} --directory /srv/site"


async def serve(sdk, sandbox, port, address):
    await sdk.call(sandbox.files.write, "/srv/site/index.html", f"served from {port}", user="root")
    return await sdk.start(sandbox, SERVER.format(port=port, address=address), timeout=0)


@feature("sandbox.host")
@pytest.mark.skipif(not web.AUTHORITIES, reason="the server of this mode speaks TLS alone")
async def test_the_name_of_a_port_leads_there_in_clear_text_and_over_tls(sdk, sandbox):
    await serve(sdk, sandbox, 8003, "0.0.0.0")

    async def answers(scheme):
        answer = await in_thread(web.by_name, scheme, sandbox.get_host(8003))
        return answer if answer.status == 200 else None

    for scheme in ("http", "https"):
        answer = await eventually(lambda scheme=scheme: answers(scheme), f"an answer by {scheme}", 15)
        assert answer.text == "served from 8003"


@feature("sandbox.host")
@pytest.mark.parametrize("port, address", [(8000, "0.0.0.0"), (8001, "127.0.0.1"), (8002, "::1")])
async def test_a_server_inside_answers_outside_wherever_it_listens(sdk, sandbox, port, address):
    server = await serve(sdk, sandbox, port, address)

    async def answers():
        answer = await in_thread(web.port, sandbox, port)
        return answer if answer.status == 200 else None

    answer = await eventually(answers, f"an answer from port {port} on {address}", 15)
    assert answer.text == f"served from {port}"
    await sdk.call(server.handle.kill)


STREAM = """
import http.server, os, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"first")
        while not os.path.exists("/tmp/go-on"):
            time.sleep(0.01)
        self.wfile.write(b"second")
http.server.HTTPServer(("127.0.0.1", 8003), Handler).serve_forever()
"""


@feature("sandbox.host")
async def test_a_response_arrives_piece_by_piece(sdk, fresh):
    sandbox = await fresh()
    await sdk.call(sandbox.files.write, "stream.py", STREAM)
    await sdk.start(sandbox, "python3 stream.py", timeout=0)

    async def listens():
        return (await sdk.call(sandbox.commands.run, "ss -ltn | grep -c 8003 || true")).stdout != "0\n"

    await eventually(listens, "a server on port 8003")
    pieces = web.first_pieces(*web.way_to(sandbox, 8003))
    assert await in_thread(next, pieces) == b"first"
    await sdk.call(sandbox.files.write, "/tmp/go-on", "")
    assert await in_thread(next, pieces) == b"second"


@feature("errors.port")
async def test_a_closed_port_says_so_in_json(sdk, sandbox):
    answer = await in_thread(web.port, sandbox, 4567)
    assert answer.status == 502
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.json == {
        "sandboxId": sandbox.sandbox_id,
        "message": "The sandbox is running but port is not open",
        "port": 4567,
        "code": 502,
    }


@feature("errors.port")
async def test_a_browser_gets_a_page_about_the_closed_port(sdk, sandbox):
    browser = {"User-Agent": "Mozilla/5.0 Firefox/140.0", "Accept": "text/html"}
    answer = await in_thread(web.port, sandbox, 4567, headers=browser)
    assert answer.status == 502
    assert answer.headers["content-type"].startswith("text/html")
    assert sandbox.sandbox_id in answer.text and "4567" in answer.text


@feature("errors.port")
async def test_a_killed_sandbox_is_not_found_by_the_proxy(sdk, fresh):
    sandbox = await fresh()
    await sdk.call(sandbox.kill)
    answer = await in_thread(web.port, sandbox, 8000)
    assert answer.status == 502
    assert answer.json == {"sandboxId": sandbox.sandbox_id, "message": "The sandbox was not found", "code": 502}


@feature("errors.port")
async def test_the_agent_s_control_routes_are_closed_to_the_outside(sdk, sandbox):
    answer = await in_thread(web.port, sandbox, 49983, "/init", method="POST", body="{}")
    assert answer.status == 404
    assert "reserved" in answer.json["message"]


@feature("sandbox.urls")
async def test_a_signed_url_downloads_a_file(sdk, sandbox, place):
    await sdk.call(sandbox.files.write, f"{place}/a b.txt", "signed content")
    answer = await in_thread(web.fetch, sandbox.download_url(f"{place}/a b.txt"))
    assert (answer.status, answer.text) == (200, "signed content")


@feature("sandbox.urls")
async def test_a_signed_url_with_time_left_downloads_a_file_as_the_given_user(sdk, sandbox):
    await sdk.call(sandbox.files.write, "/root/secret.txt", "for root", user="root")
    url = sandbox.download_url("secret.txt", user="root", use_signature_expiration=60)
    answer = await in_thread(web.fetch, url)
    assert (answer.status, answer.text) == (200, "for root")


@feature("sandbox.urls")
async def test_a_signed_url_uploads_a_file(sdk, sandbox, place):
    url = sandbox.upload_url(f"{place}/up.txt", use_signature_expiration=60)
    boundary = "conformance-boundary"
    body = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="up.txt"\r\n'
        f"Content-Type: text/plain\r\n\r\nuploaded\r\n--{boundary}--\r\n"
    )
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    answer = await in_thread(web.fetch, url, "POST", headers, body)
    assert answer.status == 200
    assert answer.json == [{"path": f"{place}/up.txt", "name": "up.txt", "type": "file"}]
    assert await sdk.call(sandbox.files.read, f"{place}/up.txt") == "uploaded"


@feature("files.write")
async def test_an_upload_that_is_cut_leaves_the_old_file(sdk, sandbox, place):
    await sdk.call(sandbox.files.write, f"{place}/kept.txt", "the old content")
    url = sandbox.upload_url(f"{place}/kept.txt")
    await in_thread(web.cut_upload, url, b"new" * 50_000, 1_000_000)
    for _ in range(20):
        assert await sdk.call(sandbox.files.read, f"{place}/kept.txt") == "the old content"

    async def alone():
        return [entry.name for entry in await sdk.call(sandbox.files.list, place)] == ["kept.txt"]

    await eventually(alone, "the old file without remains of the new one")


@feature("errors.signature")
async def test_an_expired_signature_is_refused(sdk, sandbox, place):
    await sdk.call(sandbox.files.write, f"{place}/old.txt", "old")
    url = sandbox.download_url(f"{place}/old.txt", use_signature_expiration=-10)
    answer = await in_thread(web.fetch, url)
    assert answer.status == 401
    assert answer.json == {"code": 401, "message": "signature is already expired"}


@feature("errors.signature")
async def test_a_signature_for_another_file_or_for_reading_only_is_refused(sdk, sandbox, place):
    await sdk.call(sandbox.files.write, f"{place}/one.txt", "one")
    target = sandbox.download_url(f"{place}/one.txt").split("/files", 1)[1]
    raw = {"Content-Type": "application/octet-stream"}
    answers = [
        await in_thread(web.port, sandbox, 49983, "/files" + target.replace("one.txt", "two.txt")),
        await in_thread(web.port, sandbox, 49983, "/files" + target, raw, "POST", "overwritten"),
    ]
    for answer in answers:
        assert answer.status == 401
        assert answer.json == {"code": 401, "message": "invalid signature"}
    assert await sdk.call(sandbox.files.read, f"{place}/one.txt") == "one"


@feature("errors.signature")
async def test_without_signature_or_token_nothing_is_read(sdk, sandbox):
    files = await in_thread(web.port, sandbox, 49983, "/files?path=/etc/hostname")
    assert files.status == 401
    assert files.json == {"code": 401, "message": "missing signature query parameter"}
    listing = await in_thread(
        web.port,
        sandbox,
        49983,
        "/filesystem.Filesystem/ListDir",
        {"Content-Type": "application/json"},
        "POST",
        json.dumps({"path": "/"}),
    )
    assert listing.status == 401
