"""Whoever is not let in, and what broken clients cannot do."""

import uuid

import pytest
import websocket

from connections import API, KEY, Connection, Kernel, rest

pytestmark = pytest.mark.feature("jupyter.security")
ROUTES = (
    ("GET", "/api"),
    ("GET", "/api/status"),
    ("GET", "/api/kernelspecs"),
    ("GET", "/api/kernels"),
    ("POST", "/api/kernels"),
    ("GET", "/api/other"),
)


@pytest.fixture(scope="module")
def kernel():
    with Kernel() as kernel:
        yield kernel


def handshake(kernel, headers, query=""):
    """The status of the answer to a handshake: 101 if the client is let in."""
    try:
        with Connection(kernel.id, headers=headers, query=query):
            return 101
    except websocket.WebSocketBadStatusException as refused:
        return refused.status_code


def test_without_a_key_there_is_nothing(kernel):
    wrong = "e2b_" + "0" * 40
    for headers in ({}, {"Authorization": f"token {wrong}"}, {"Authorization": "token "}, {"X-API-Key": wrong}):
        for method, path in (*ROUTES, ("DELETE", f"/api/kernels/{kernel.id}")):
            assert rest(method, path, headers=headers)[0] == 401, (headers, method, path)
        assert handshake(kernel, headers) == 401
    assert rest("GET", f"/api/kernels?token={wrong}", headers={})[0] == 401
    assert handshake(kernel, {}, f"?token={wrong}") == 401
    # The token of a sandbox is no key.
    assert handshake(kernel, {}, f"?token={kernel.id}") == 401


def test_a_key_is_shown_in_four_ways(kernel):
    for headers in ({"Authorization": f"token {KEY}"}, {"Authorization": f"Bearer {KEY}"}, {"X-API-Key": KEY}):
        assert rest("GET", "/api/kernels", headers=headers)[0] == 200
        assert handshake(kernel, headers) == 101
    assert rest("GET", f"/api/kernels?token={KEY}", headers={})[0] == 200
    assert handshake(kernel, {}, f"?session_id=s&token={KEY}") == 101
    # Beside the gateway a key in an address is none.
    assert rest("GET", f"/v2/sandboxes?token={KEY}", headers={}, url=API)[0] == 401


def test_pages_of_others_are_refused_even_with_a_key(kernel):
    port = API.rsplit(":", 1)[1]
    for origin in ("https://evil.example", "null", f"http://3000-{'i' + 'a' * 20}.localhost:{port}"):
        headers = {"Authorization": f"token {KEY}", "Origin": origin}
        assert rest("GET", "/api/kernels", headers=headers)[0] == 403, origin
        try:
            Connection(kernel.id, headers={"Authorization": f"token {KEY}"}, origin=origin)
            raise AssertionError(origin)
        except websocket.WebSocketBadStatusException as refused:
            assert refused.status_code == 403
    assert rest("GET", "/api/kernels", headers={"Authorization": f"token {KEY}", "Origin": API})[0] == 200


def test_ids_are_guessed_in_vain():
    for name in (str(uuid.uuid4()), "x", "..%2f..%2fsandboxes", "a%00b", "%25"):
        assert rest("GET", f"/api/kernels/{name}")[0] in (400, 404), name


def test_a_client_that_sends_what_is_no_message_is_let_go_alone(kernel):
    with kernel.connect() as neighbour:
        for send in (
            lambda socket: socket.send("[]"),
            lambda socket: socket.send("{"),
            lambda socket: socket.send_binary(b"\xff" * 64),
            lambda socket: socket.send_binary(b""),
        ):
            with kernel.connect() as broken:
                send(broken.socket)
                with pytest.raises((websocket.WebSocketConnectionClosedException, ConnectionError)):
                    while broken.receive():
                        pass
        assert neighbour.run("1")[1]["status"] == "ok"


def test_clients_of_a_kernel_have_a_limit(kernel):
    clients = []
    try:
        while len(clients) < 16:
            clients.append(kernel.connect())
        assert handshake(kernel, {"X-API-Key": KEY}) == 429
    finally:
        for client in clients:
            client.socket.close()


def test_a_queue_that_is_full_refuses_and_goes_on(kernel):
    with kernel.connect() as client:
        running = client.send("execute_request", {"code": "import time\ntime.sleep(600)"})
        while client.receive()["msg_type"] != "execute_input":
            pass
        asked = [client.send("comm_info_request", {}) for _ in range(300)]
        replies, idle = {}, set()
        interrupted = False
        while len(replies) < 300 or not set(asked) <= idle | {name for name, said in replies.items() if said != "ok"}:
            message = client.receive()
            parent = message["parent_header"].get("msg_id")
            if message["msg_type"] == "comm_info_reply":
                replies[parent] = message["content"]["status"]
            if message["content"].get("execution_state") == "idle":
                idle.add(parent)
            if not interrupted and len(replies) >= 40:
                assert set(replies.values()) == {"error"}
                client.send("interrupt_request", {}, "control")
                interrupted = True
        assert running in idle and 200 <= list(replies.values()).count("ok") <= 260
