"""The clients that people have: Jupyter's own in front of the gateway, papermill above them, and Open WebUI's."""

import asyncio
import functools
import importlib
import json
import os
import pathlib
import subprocess
import sys
import types
import urllib.request

import nbformat
import papermill
import pytest
import websocket
from jupyter_server.gateway.gateway_client import GatewayClient
from jupyter_server.gateway.managers import GatewayKernelManager

from chromium import Page
from connections import KEY, TIMEOUT, URL, Connection, of_kind, rest, sandboxes, text, wait_for

pytestmark = pytest.mark.feature("jupyter.clients")
NOTEBOOKS = pathlib.Path(__file__).resolve().parent.parent / "notebooks" / "notebooks"
# What `jupyter lab --gateway-url` reads.
GATEWAY = {"JUPYTER_GATEWAY_URL": URL, "JUPYTER_GATEWAY_AUTH_TOKEN": KEY}


@pytest.fixture
def gateway(monkeypatch):
    """This process as a client of the gateway."""
    for name, value in GATEWAY.items():
        monkeypatch.setenv(name, value)
    # Its client for programs opens the WebSocket without the token that it is told.
    opened = functools.partial(websocket.create_connection, header={"Authorization": f"token {KEY}"})
    monkeypatch.setattr(websocket, "create_connection", opened)
    GatewayClient.clear_instance()
    yield
    GatewayClient.clear_instance()


def test_a_kernel_manager_of_jupyter_drives_a_kernel(gateway):
    async def drive():
        manager = GatewayKernelManager()
        await manager.start_kernel(kernel_name="python3", env={"KERNEL_MARK": "told"})
        assert manager.kernel_id in sandboxes()
        client = manager.client()
        await client.start_channels()
        try:
            await client.wait_for_ready(timeout=TIMEOUT)
            reply, said = await executed(client, "import os\nprint(os.environ['KERNEL_MARK'])\n6 * 7")
            assert reply["status"] == "ok"
            assert text(said) == "told\n" and of_kind(said, "execute_result")[0]["data"]["text/plain"] == "42"
            completed = await client.complete("impo", reply=True, timeout=TIMEOUT)
            assert "import" in completed["content"]["matches"]
            inspected = await client.inspect("len", reply=True, timeout=TIMEOUT)
            assert inspected["content"]["found"]
            assert (await client.is_complete("for x in y:", reply=True, timeout=TIMEOUT))["content"]["status"] == "incomplete"
            info = await client.kernel_info(reply=True, timeout=TIMEOUT)
            assert info["content"]["language_info"]["name"] == "python"
            assert (await client.history(reply=True, timeout=TIMEOUT))["content"]["history"] == []
            assert (await client.comm_info(reply=True, timeout=TIMEOUT))["content"]["comms"] == {}
            client.execute("import time\ntime.sleep(600)")
            while (await client.get_iopub_msg(timeout=TIMEOUT))["msg_type"] != "execute_input":
                pass
            await manager.interrupt_kernel()
            reply = await client.get_shell_msg(timeout=TIMEOUT)
            assert reply["content"]["ename"] == "KeyboardInterrupt"
            await manager.restart_kernel()
            assert await manager.is_alive()
            reply, _ = await executed(client, "os")
            assert reply["ename"] == "NameError"
        finally:
            client.stop_channels()
            await manager.shutdown_kernel()
        assert manager.kernel_id not in sandboxes()

    asyncio.run(drive())


async def executed(client, code):
    """The reply to code, and what was said because of it."""
    identity, said = client.execute(code), []
    while not (said and said[-1]["content"].get("execution_state") == "idle"):
        message = await client.get_iopub_msg(timeout=TIMEOUT)
        if message["parent_header"].get("msg_id") == identity:
            said.append(message)
    reply = await client.get_shell_msg(timeout=TIMEOUT)
    assert reply["parent_header"]["msg_id"] == identity
    return reply["content"], said


def test_papermill_runs_a_notebook(gateway, tmp_path):
    """One of several kinds of outputs, whose last cell fails."""
    output = tmp_path / "out.ipynb"
    manager = "jupyter_server.gateway.managers.GatewayKernelManager"
    before = set(sandboxes())
    with pytest.raises(papermill.PapermillExecutionError, match="ZeroDivisionError"):
        papermill.execute_notebook(NOTEBOOKS / "plain.ipynb", output, kernel_manager_class=manager, progress_bar=False)
    notebook = nbformat.read(output, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    assert len(cells) > 5 and all(cell.execution_count for cell in cells)
    kinds = {shown.output_type for cell in cells for shown in cell.outputs}
    assert {"stream", "execute_result", "display_data", "error"} <= kinds
    assert set(sandboxes()) <= before


@pytest.fixture
def jupyter_server(tmp_path):
    """`jupyter lab --gateway-url`; the address of its server, and a header for it."""
    token = "of-the-local-server"
    program = [sys.executable, "-m", "jupyterlab", "--no-browser", "--port=0", "--allow-root"]
    options = [f"--gateway-url={URL}", f"--ServerApp.root_dir={tmp_path}", f"--IdentityProvider.token={token}"]
    places = {f"JUPYTER_{name}_DIR": str(tmp_path / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    environment = {**os.environ, **GATEWAY, **places, "HOME": str(tmp_path)}
    process = subprocess.Popen([*program, *options], env=environment, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    try:
        url = wait_for(lambda: served(tmp_path / "RUNTIME"), "the server of Jupyter serves")
        yield url.rstrip("/"), {"Authorization": f"token {token}"}
    finally:
        process.terminate()
        process.communicate(timeout=TIMEOUT)


def served(runtime):
    for file in runtime.glob("jpserver-*.json"):
        try:
            url = json.loads(file.read_text())["url"]
            urllib.request.urlopen(url + "api", timeout=5).close()
            return url
        except (OSError, ValueError):
            pass


def test_a_server_of_jupyter_passes_its_pages_on(jupyter_server):
    url, headers = jupyter_server
    status, listed = rest("GET", "/api/kernelspecs", headers=headers, url=url)
    assert status == 200 and listed["kernelspecs"]["python3"]["spec"]["display_name"] == "Python 3"
    # As the page of a notebook does.
    body = {"name": "", "path": "a.ipynb", "type": "notebook", "kernel": {"name": "python3"}}
    status, session = rest("POST", "/api/sessions", body, headers, url)
    assert status == 201, session
    kernel = session["kernel"]["id"]
    assert kernel in sandboxes()
    with Local(url, kernel, headers) as client:
        assert client.ask("kernel_info_request")["status"] == "ok"
        said, reply = client.run("print(input('? '))", answer="typed")
        assert reply["status"] == "ok" and text(said) == "typed\n"
    with Local(url, kernel, headers) as client:
        assert rest("POST", f"/api/kernels/{kernel}/restart", {}, headers, url)[0] == 200
        assert text(client.run("print('again')")[0]) == "again\n"
    assert rest("DELETE", f"/api/sessions/{session['id']}", headers=headers, url=url)[0] == 204
    assert kernel not in sandboxes()


def test_jupyterlab_runs_a_cell_in_a_sandbox(jupyter_server, tmp_path):
    """By mouse and keys, in the page of a notebook."""
    url, headers = jupyter_server
    cell = nbformat.v4.new_code_cell("import os, matplotlib.pyplot as plt\nprint(os.environ['E2B_SANDBOX_ID'])\nplt.plot([1, 3, 2])\nplt.show()")
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=[cell], metadata=kernel), tmp_path / "a.ipynb")
    before = set(sandboxes())
    with Page(tmp_path, f"{url}/lab/tree/a.ipynb?token={headers['Authorization'].split()[1]}") as page:
        page.click(".jp-Notebook .jp-CodeCell .cm-content")
        wait_for(lambda: set(sandboxes()) - before, "the notebook has a kernel")
        wait_for(lambda: page.value("document.querySelector('.jp-Notebook-ExecutionIndicator')?.dataset.status === 'idle'"), "the kernel is idle")
        page.shift_enter()
        printed = wait_for(lambda: page.value("document.querySelector('.jp-OutputArea-output pre')?.textContent"), "the cell prints")
        assert printed.strip() in sandboxes().values()
        assert wait_for(lambda: page.value("document.querySelector('.jp-RenderedImage img')?.naturalWidth"), "the plot is shown") > 100
    for kernel in set(sandboxes()) - before:
        assert rest("DELETE", f"/api/kernels/{kernel}")[0] == 204


class Local(Connection):
    """A WebSocket of a server of Jupyter."""

    def __init__(self, url, kernel, headers):
        address = f"{url.replace('http', 'ws', 1)}/api/kernels/{kernel}/channels?session_id=s"
        self.socket = websocket.create_connection(address, timeout=TIMEOUT, header=headers)
        self.parts = False


@pytest.fixture
def open_webui(monkeypatch):
    """The module of Open WebUI as published.

    It imports a setting of the application, and its choice among libraries for JSON; both would bring the application.
    """
    folder = pathlib.Path(os.environ["CONFORMANCE_OPEN_WEBUI"]) / "open_webui"
    for name, values in {
        "open_webui": {"__path__": [str(folder)]},
        "open_webui.utils": {"__path__": [str(folder / "utils")]},
        "open_webui.env": {"AIOHTTP_CLIENT_ALLOW_REDIRECTS": True},
        "open_webui.utils.json_codec": {"JSONCodec": json},
    }.items():
        module = types.ModuleType(name)
        vars(module).update(values)
        monkeypatch.setitem(sys.modules, name, module)
    return importlib.import_module("open_webui.utils.code_interpreter")


def test_open_webui_runs_code_with_its_own_class(open_webui):
    run = functools.partial(open_webui.execute_code_jupyter, URL, token=KEY, timeout=TIMEOUT)
    before = set(sandboxes())
    done = asyncio.run(run("import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7"))
    assert (done["stdout"], done["stderr"], done["result"]) == ("out", "err", "42")
    failed = asyncio.run(run("1 / 0"))
    assert "ZeroDivisionError" in failed["stderr"]
    refused = asyncio.run(open_webui.execute_code_jupyter(URL, "1", token="wrong", timeout=TIMEOUT))
    assert "401" in refused["stderr"]
    assert set(sandboxes()) <= before
