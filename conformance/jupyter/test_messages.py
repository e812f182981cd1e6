"""Kernels and their messages, one by one."""

import json

import pytest
import websocket

from connections import API, KEY, Connection, Kernel, of_kind, rest, sandboxes, text, wait_for

pytestmark = pytest.mark.feature("jupyter.messages")


@pytest.fixture(scope="module")
def kernel():
    with Kernel() as kernel:
        yield kernel


@pytest.fixture
def client(kernel):
    with kernel.connect() as client:
        yield client


@pytest.mark.parametrize("parts", (False, True))
def test_a_cell_is_told_in_both_forms_of_messages(kernel, parts):
    with kernel.connect(parts=parts) as client:
        said, reply = client.run("import sys\nprint('é'); print('e', file=sys.stderr)\n6 * 7")
    assert reply["status"] == "ok" and reply["execution_count"] >= 1 and reply["user_expressions"] == {}
    assert (text(said), text(said, "stderr")) == ("é\n", "e\n")
    [result] = of_kind(said, "execute_result")
    assert result["data"]["text/plain"] == "42" and result["execution_count"] == reply["execution_count"]
    [given] = of_kind(said, "execute_input")
    assert given["code"].endswith("6 * 7") and given["execution_count"] == reply["execution_count"]
    states = [content["execution_state"] for content in of_kind(said, "status")]
    assert states == ["busy", "idle"]
    channels = {message["msg_type"]: message["channel"] for message in said}
    assert channels["execute_reply"] == "shell" and channels["stream"] == "iopub"


def test_values_displays_and_errors_are_told_as_kernels_do(client):
    said, _ = client.run(
        "from IPython.display import HTML, display, clear_output\n"
        "handle = display(HTML('<b>x</b>'), display_id='d')\nhandle.update(HTML('y'))\nclear_output(wait=True)"
    )
    [shown] = of_kind(said, "display_data")
    assert shown["data"]["text/html"] == "<b>x</b>" and shown["transient"] == {"display_id": "d"}
    [updated] = of_kind(said, "update_display_data")
    assert updated["data"]["text/html"] == "y"
    assert of_kind(said, "clear_output") == [{"wait": True}]
    said, reply = client.run("1 / 0")
    [error] = of_kind(said, "error")
    assert reply["status"] == "error" and reply["ename"] == error["ename"] == "ZeroDivisionError"
    assert error["traceback"] and reply["traceback"] == error["traceback"]


def test_silent_code_leaves_no_trace(client):
    said, reply = client.run("print('p'); 1", silent=True)
    assert reply["status"] == "ok" and text(said) == "p\n"
    assert of_kind(said, "execute_input") == of_kind(said, "execute_result") == []


def test_questions_are_answered(client):
    info = client.ask("kernel_info_request")
    assert info["status"] == "ok" and info["protocol_version"].startswith("5.")
    assert info["language_info"]["name"] == "python" and info["language_info"]["file_extension"] == ".py"
    assert client.ask("kernel_info_request", channel="control") == info
    client.run("éa = 'text'")
    completed = client.ask("complete_request", {"code": "éa.upp", "cursor_pos": 6})
    assert any(match.endswith("upper") for match in completed["matches"]), completed
    assert completed["cursor_end"] == 6
    inspected = client.ask("inspect_request", {"code": "len", "cursor_pos": 3, "detail_level": 0})
    assert inspected["found"] and "text/plain" in inspected["data"]
    assert client.ask("is_complete_request", {"code": "if x:"})["status"] == "incomplete"
    assert client.ask("is_complete_request", {"code": "1"})["status"] == "complete"
    assert client.ask("history_request", {"hist_access_type": "tail"})["history"] == []
    assert client.ask("comm_info_request")["comms"] == {}
    refused = client.ask("debug_request", channel="control")
    assert refused["status"] == "error" and refused["ename"] == "NotSupported"


def test_an_unknown_comm_is_closed(client):
    identity = client.send("comm_open", {"comm_id": "c", "target_name": "jupyter.widget", "data": {}})
    while (message := client.receive())["msg_type"] != "comm_close":
        assert message["parent_header"]["msg_id"] == identity
    assert message["content"]["comm_id"] == "c"


def test_code_that_asks_is_answered_by_who_was_asked(client):
    said, reply = client.run("import getpass\n(input('Name? '), getpass.getpass('Word? '))", answer="Ada")
    assert reply["status"] == "ok" and "('Ada', 'Ada')" in of_kind(said, "execute_result")[0]["data"]["text/plain"]
    asked = of_kind(said, "input_request")
    assert asked == [{"prompt": "Name? ", "password": False}, {"prompt": "Word? ", "password": True}]
    _, refused = client.run("input()")
    assert refused["ename"] == "StdinNotImplementedError"


def test_who_leaves_while_asked_ends_the_input(kernel, client):
    with kernel.connect() as leaving:
        leaving.send("execute_request", {"code": "input('?')", "allow_stdin": True})
        while leaving.receive()["msg_type"] != "input_request":
            pass
    # What is asked before the input has ended waits behind code that then fails.
    assert client.run("1")[1]["status"] in ("ok", "aborted")
    assert client.run("1")[1]["status"] == "ok"


@pytest.mark.parametrize("way", ("message", "route"))
def test_code_is_interrupted_and_what_waited_behind_it_is_not_run(kernel, client, way):
    running = client.send("execute_request", {"code": "print('on', flush=True)\nwhile True: pass"})
    while client.receive()["msg_type"] != "stream":
        pass
    waiting = client.send("execute_request", {"code": "left = 1"})
    assert kernel.model()[1]["execution_state"] == "busy"
    if way == "message":
        client.send("interrupt_request", {}, "control")
    else:
        assert rest("POST", f"/api/kernels/{kernel.id}/interrupt", {})[0] == 204
    _, reply = client.until_idle(running)
    assert reply["status"] == "error" and reply["ename"] == "KeyboardInterrupt"
    assert client.until_idle(waiting)[1]["status"] == "aborted"
    _, reply = client.run("left")
    assert reply["ename"] == "NameError"


def test_variables_outlive_a_connection_and_all_clients_see_output(kernel, client):
    with kernel.connect() as other:
        other.run("kept = 5")
    with kernel.connect() as again, kernel.connect(parts=True) as watching:
        said, _ = again.run("print(kept)")
        assert text(said) == "5\n"
        while (message := watching.receive())["msg_type"] != "stream":
            pass
        assert message["content"]["text"] == "5\n"
        assert kernel.model()[1]["connections"] == 3


def test_a_restart_loses_variables_and_keeps_connections(kernel, client):
    client.run("gone = 1")
    running = client.send("execute_request", {"code": "import time; time.sleep(600)"})
    while client.receive()["msg_type"] != "execute_input":
        pass
    assert rest("POST", f"/api/kernels/{kernel.id}/restart", {})[0] == 200
    assert client.until_idle(running)[1]["status"] == "error"
    _, reply = client.run("gone")
    assert reply["ename"] == "NameError"


def test_much_output_reaches_a_slow_reader_whole(client):
    count = 5_000
    said, reply = client.run(f"for i in range({count}): print(i)")
    assert reply["status"] == "ok"
    assert text(said) == "".join(f"{number}\n" for number in range(count))
    said, _ = client.run("from IPython.display import HTML; HTML('x' * (12 << 20))")
    assert of_kind(said, "execute_result") == [] and "too large" in text(said, "stderr")


def test_every_language_is_a_kernelspec_and_runs():
    status, listed = rest("GET", "/api/kernelspecs")
    assert status == 200 and listed["default"] == "python3"
    specs = listed["kernelspecs"]
    assert {"python3", "javascript", "typescript", "bash"} <= set(specs)
    for name, spec in specs.items():
        assert spec["name"] == name and spec["spec"]["display_name"] and spec["spec"]["language"]
    assert rest("GET", "/api/kernelspecs/bash")[1] == specs["bash"]
    assert rest("GET", "/api/kernelspecs/cobol")[0] == 404
    with Kernel("bash") as kernel, kernel.connect() as client:
        assert kernel.model()[1]["name"] == "bash"
        assert text(client.run("echo $((6 * 7))")[0]) == "42\n"


def test_a_kernel_is_a_sandbox_until_it_is_shut_down():
    kernel = Kernel()
    assert kernel.id in sandboxes()
    status, listed = rest("GET", "/api/kernels")
    assert status == 200 and kernel.id in [model["id"] for model in listed]
    with kernel.connect() as client:
        assert rest("DELETE", f"/api/kernels/{kernel.id}")[0] == 204
        said = []
        # It is empty when the connection ends.
        while message := client.socket.recv():
            said.append(json.loads(message))
        assert said[-1]["content"] == {"execution_state": "dead"}
    assert kernel.id not in sandboxes()
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/interrupt"), ("POST", "/restart")):
        assert rest(method, f"/api/kernels/{kernel.id}{path}")[0] == 404
    with pytest.raises(websocket.WebSocketBadStatusException, match="404"):
        Connection(kernel.id)


def test_a_shutdown_request_ends_the_sandbox():
    kernel = Kernel()
    with kernel.connect() as client:
        client.send("shutdown_request", {"restart": False}, "control")
        while (message := client.receive())["msg_type"] != "shutdown_reply":
            pass
        assert message["content"] == {"status": "ok", "restart": False}
    wait_for(lambda: kernel.id not in sandboxes(), "the sandbox ends")


def test_what_cannot_be_started_is_said():
    status, said = rest("POST", "/api/kernels", {"name": "cobol"})
    assert status == 400 and "cobol" in said["message"]
    assert rest("GET", "/api")[1]["version"]
    assert rest("GET", "/api/status")[0] == 200
    assert rest("GET", "/api/contents")[0] == 404


def test_a_kernel_whose_sandbox_is_killed_is_dead():
    with Kernel() as kernel, kernel.connect() as client:
        sandbox = sandboxes()[kernel.id]
        assert rest("DELETE", f"/sandboxes/{sandbox}", headers={"X-API-Key": KEY}, url=API)[0] == 204
        _, reply = client.run("1")
        assert reply["status"] == "error" and reply["ename"] in ("KernelEnded", "KernelUnreachable")
        while client.receive()["content"].get("execution_state") != "dead":
            pass
        assert kernel.model()[0] == 404
