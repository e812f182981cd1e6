"""Requests other than executions: environment, directory, shutdown; and life around them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from kernel_client import KernelClient, wait_until

from .prepared import PACKAGE_DIRECTORY, Zygote

READ = "import os; os.environ.get('SKEP_TEST', 'absent')"


def read(kernel: KernelClient, **options: object) -> str:
    return kernel.run(READ, **options).ok().value["text/plain"]


def set_layer(kernel: KernelClient, layer: str, variables: dict[str, str]) -> None:
    reply = kernel.ask({"type": "environment", "layer": layer, "variables": variables})
    assert reply["status"] == "ok", reply


def test_layers_override_each_other_and_are_restored(kernel: KernelClient) -> None:
    assert read(kernel) == "'absent'"
    set_layer(kernel, "sandbox", {"SKEP_TEST": "sandbox"})
    assert read(kernel) == "'sandbox'"
    set_layer(kernel, "context", {"SKEP_TEST": "context"})
    assert read(kernel) == "'context'"
    assert read(kernel, env={"SKEP_TEST": "execution"}) == "'execution'"
    assert read(kernel) == "'context'"
    set_layer(kernel, "context", {})
    assert read(kernel) == "'sandbox'"
    assert read(kernel, env={"SKEP_TEST": "execution"}) == "'execution'"
    set_layer(kernel, "sandbox", {})
    assert read(kernel) == "'absent'"


def test_a_copy_in_another_sandbox_draws_other_numbers(kernel: KernelClient) -> None:
    draw = "(random.random(), ssl.RAND_bytes(8))"
    set_layer(kernel, "sandbox", {"E2B_SANDBOX_ID": "original"})
    kernel.run("import random, ssl; random.seed(1); expected = random.random(); random.seed(1)").ok()
    set_layer(kernel, "sandbox", {"E2B_SANDBOX_ID": "original", "SKEP_TEST": "other"})
    assert kernel.run("random.random() == expected").ok().value["text/plain"] == "True"
    kernel.run("random.seed(1)").ok()
    set_layer(kernel, "sandbox", {"E2B_SANDBOX_ID": "copy"})
    assert kernel.run("random.random() == expected").ok().value["text/plain"] == "False"
    assert kernel.run(draw).ok().value["text/plain"] != kernel.run(draw).ok().value["text/plain"]


@pytest.mark.parametrize(
    "value",
    ["", "'\"\\", "line\nline", "😀 漢字", "x" * (1 << 20), "$HOME `id` %s {}", "\ud7ff\ue000\u2028"],
    ids=["empty", "quotes", "newline", "unicode", "mebibyte", "shell", "separators"],
)
@pytest.mark.parametrize("way", ["layer", "execution"])
def test_any_value_arrives_unchanged(kernel: KernelClient, value: str, way: str) -> None:
    options = {}
    if way == "layer":
        set_layer(kernel, "sandbox", {"SKEP_TEST": value})
    else:
        options = {"env": {"SKEP_TEST": value}}
    outcome = kernel.run("import os, hashlib; hashlib.sha256(os.environb[b'SKEP_TEST']).hexdigest()", **options)
    import hashlib

    assert outcome.ok().value["text/plain"] == repr(hashlib.sha256(value.encode()).hexdigest())


def test_child_processes_see_the_variables_of_an_execution(kernel: KernelClient) -> None:
    assert kernel.run("!echo $SKEP_TEST", env={"SKEP_TEST": "seen"}).ok().text() == "seen\r\n"
    assert kernel.run('%%bash\necho "[$SKEP_TEST]"', env={"SKEP_TEST": "in bash"}).ok().text() == "[in bash]\n"
    assert kernel.run("!echo [$SKEP_TEST]").ok().text() == "[]\r\n"


@pytest.mark.parametrize(
    "ending", ["1/0", "raise SystemExit", "(", "del os.environ['SKEP_TEST']", "os.environ['SKEP_TEST'] = 'changed'"]
)
def test_variables_are_restored_however_the_cell_ends(kernel: KernelClient, ending: str) -> None:
    set_layer(kernel, "sandbox", {"SKEP_TEST": "before"})
    kernel.run(f"import os\n{ending}", env={"SKEP_TEST": "during", "SKEP_OTHER": "x"})
    assert read(kernel) == "'before'"
    assert kernel.run("'SKEP_OTHER' in os.environ").value["text/plain"] == "False"


def test_variables_are_restored_after_an_interrupt(kernel: KernelClient) -> None:
    kernel.start("import time; print('go'); time.sleep(60)", env={"SKEP_TEST": "during"})
    kernel.wait_for_text("go")
    kernel.interrupt()
    kernel.finish()
    assert read(kernel) == "'absent'"


def test_what_the_user_assigned_is_not_touched_by_a_layer_that_does_not_change(kernel: KernelClient) -> None:
    set_layer(kernel, "sandbox", {"SKEP_TEST": "given"})
    kernel.run("import os; os.environ['SKEP_TEST'] = 'by hand'").ok()
    set_layer(kernel, "sandbox", {"SKEP_TEST": "given", "SKEP_MORE": "x"})
    assert read(kernel) == "'by hand'"


@pytest.mark.parametrize(
    "variables", [{"": "x"}, {"A=B": "x"}, {"A": "nul\0"}, {"A": 1}, {"A": "\ud800"}, ["A"]], ids=str
)
def test_an_impossible_environment_is_refused_and_nothing_changes(kernel: KernelClient, variables: object) -> None:
    reply = kernel.ask({"type": "environment", "layer": "context", "variables": variables})
    assert (reply["status"], reply["ename"]) == ("error", "InvalidEnvironment")
    if isinstance(variables, dict):
        outcome = kernel.run("print('must not run')", env={"SKEP_TEST": "x", **variables})
        assert (outcome.error["ename"], outcome.error["kind"]) == ("InvalidEnvironment", "request")
        assert outcome.text() == ""
    assert read(kernel) == "'absent'"


def test_the_directory_can_be_changed_and_a_failure_is_told(kernel: KernelClient, tmp_path: Path) -> None:
    directory = tmp_path / "with blank 'and' quote"
    directory.mkdir()
    assert kernel.ask({"type": "chdir", "path": str(directory)})["status"] == "ok"
    assert kernel.run("import os; print(os.getcwd(), _dh[-1])").text() == f"{directory} {directory}\n"
    reply = kernel.ask({"type": "chdir", "path": str(tmp_path / "missing")})
    assert (reply["status"], reply["ename"]) == ("error", "FileNotFoundError")
    assert kernel.run("1").of_type("execute_input")[0]["execution_count"] == 2


def test_imports_find_modules_in_the_current_directory(kernel: KernelClient, tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("NAME = 'next door'")
    kernel.ask({"type": "chdir", "path": str(tmp_path)})
    assert kernel.run("import neighbour; neighbour.NAME").ok().value["text/plain"] == "'next door'"


@pytest.mark.parametrize(
    "request_",
    [
        {"type": "nonsense"},
        {},
        {"type": "chdir"},
        {"type": "execute"},
        {"type": "execute", "code": 5},
        {"type": "environment", "layer": "moon", "variables": {}},
    ],
)
def test_a_request_that_makes_no_sense_is_answered(kernel: KernelClient, request_: dict) -> None:
    assert kernel.ask(request_)["status"] == "error"
    assert kernel.run("1").ok()


def test_requests_sent_at_once_are_handled_in_order(kernel: KernelClient) -> None:
    identifiers = [
        kernel.start(f"print({i})" if i % 2 else f"import asyncio; await asyncio.sleep(0.001); print({i})")
        for i in range(20)
    ]
    outcomes = [kernel.finish() for _ in identifiers]
    assert [outcome.text() for outcome in outcomes] == [f"{i}\n" for i in range(20)]
    assert [outcome.reply["parent"] for outcome in outcomes] == identifiers


def test_shutdown_runs_exit_functions_and_ends_the_process_despite_threads(
    kernel: KernelClient, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    kernel.run(
        "import atexit, threading, time\n"
        f"atexit.register(lambda: open({str(trace)!r}, 'w').write('left'))\n"
        "atexit.register(print, 'bye')\n"
        "threading.Thread(target=time.sleep, args=(1000,)).start()"
    ).ok()
    assert kernel.ask({"type": "shutdown"})["status"] == "ok"
    assert kernel.receive()["text"] == "bye\n"
    wait_until(lambda: not alive(kernel.pid), "the kernel is gone")
    assert trace.read_text() == "left"


def test_a_kernel_whose_peer_hangs_up_ends(zygote: Zygote) -> None:
    idle, printing = zygote.fork(), zygote.fork()
    printing.start("while True: print('x' * 1000)")
    printing.wait_for_text("x")
    for client in (idle, printing):
        client.close()
        wait_until(lambda client=client: not alive(client.pid), "the kernel is gone")


def test_the_module_serves_an_inherited_socket_and_a_path(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "skep_kernel", "--preload", "json"]
    inherited = subprocess.Popen(
        [*command, "--socket-fd", str(theirs.fileno())], pass_fds=[theirs.fileno()], cwd=PACKAGE_DIRECTORY
    )
    theirs.close()
    with socket.socket(socket.AF_UNIX) as listener:
        path = tmp_path / "socket"
        listener.bind(str(path))
        listener.listen()
        connecting = subprocess.Popen([*command, "--connect", str(path)], cwd=PACKAGE_DIRECTORY)
        accepted, _ = listener.accept()
    for connection, process in ((ours, inherited), (accepted, connecting)):
        client = KernelClient(connection, process.pid)
        assert client.hello["type"] == "hello" and client.hello["protocol"] == 1
        assert client.hello["pid"] == process.pid
        assert client.run("1 + 1").ok().value["text/plain"] == "2"
        assert client.ask({"type": "shutdown"})["status"] == "ok"
        assert process.wait(10) == 0
        client.close()


def test_kernels_forked_from_one_zygote_are_strangers(library_zygote: Zygote) -> None:
    first, second = library_zygote.fork(), library_zygote.fork()
    first.run("shared = 1").ok()
    assert second.run("shared").error["ename"] == "NameError"
    code = "import random, numpy, uuid, secrets; (random.random(), numpy.random.rand(), uuid.uuid4(), secrets.token_hex(4))"
    values = [client.run(code).ok().value["text/plain"] for client in (first, second)]
    for one, other in zip(*(value.split(",") for value in values), strict=True):
        assert one != other
    for client in (first, second):
        client.close()


def test_numerical_libraries_get_their_threads_back(library_kernel: KernelClient) -> None:
    if len(os.sched_getaffinity(0)) == 1:
        pytest.skip("one processor needs no second thread")
    library_kernel.run("import numpy; a = numpy.ones((700, 700)); a @ a;").ok()
    library_kernel.start("import time; [a @ a for _ in range(3)]; print('done'); time.sleep(0.5)")
    library_kernel.wait_for_text("done")
    assert library_kernel.thread_count() > 2
    library_kernel.finish()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
