"""Notebooks of several kinds, run and exported by `skep notebook`, and held to Jupyter's own standard."""

import json
import os
import pathlib
import re
import signal
import subprocess
import urllib.request

import nbclient
import nbformat
import pytest

NOTEBOOKS = pathlib.Path(__file__).parent / "notebooks"
SKEP = os.environ.get("CONFORMANCE_SKEP")
SERVER = os.environ.get("E2B_API_URL")
TIMEOUT = 120
COLOURS = re.compile(r"\x1b\[[0-9;]*m")

pytestmark = [
    pytest.mark.feature("notebooks.run"),
    # Names below a domain are the SDKs' business; a server that somebody else has built has no command for us.
    pytest.mark.skipif(not (SKEP and SERVER), reason="needs the executable and the address of its server"),
]


def skep(*arguments, **options):
    command = [SKEP, "notebook", *map(str, arguments), "--server", SERVER]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, **options)


def run(name, tmp_path, *arguments, code=0):
    """Runs a notebook of ours; what comes out is valid."""
    output = tmp_path / "out.ipynb"
    done = skep("run", NOTEBOOKS / f"{name}.ipynb", "--output", output, *arguments)
    assert done.returncode == code, done.stderr
    return valid(output), done


def valid(path):
    notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    return notebook


def outputs(cell):
    """What a cell shows, without what two runs may differ in: when text is flushed, and colours."""
    shown, streams = [], {}
    for output in cell["outputs"]:
        if output["output_type"] == "stream":
            streams[output["name"]] = streams.get(output["name"], "") + output["text"]
        elif output["output_type"] == "error":
            shown.append({**output, "traceback": COLOURS.sub("", "\n".join(output["traceback"]))})
        else:
            shown.append(dict(output))
    return [streams, *shown]


def text(cell, name="stdout"):
    return outputs(cell)[0].get(name, "")


def code_cells(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def test_a_notebook_comes_out_as_jupyter_itself_would_make_it(tmp_path):
    ours, _ = run("plain", tmp_path)
    theirs = nbformat.read(NOTEBOOKS / "plain.ipynb", as_version=4)
    nbclient.NotebookClient(theirs, timeout=TIMEOUT, kernel_name="python3").execute()
    assert len(code_cells(ours)) == len(code_cells(theirs))
    for our, their in zip(code_cells(ours), code_cells(theirs), strict=True):
        assert outputs(our) == outputs(their), our["source"]
        assert our["execution_count"] == their["execution_count"]
        assert set(our["metadata"].get("execution", {})) == set(their["metadata"].get("execution", {}))


def test_text_of_two_streams_stays_in_its_order(tmp_path):
    notebook, _ = run("plain", tmp_path)
    streams = [output["name"] for output in code_cells(notebook)[1]["outputs"] if output["output_type"] == "stream"]
    assert streams == ["stdout", "stderr", "stdout"]


def test_frames_plots_and_much_text_are_all_there(tmp_path):
    notebook, _ = run("data", tmp_path)
    frame, plot, figure, numbers, long, many = code_cells(notebook)
    assert {"text/html", "text/plain"} == set(outputs(frame)[1]["data"])
    assert outputs(plot)[1]["data"]["image/png"].startswith("iVBORw0KGgo")
    assert {kind["output_type"] for kind in outputs(figure)[1:]} == {"execute_result", "display_data"}
    assert set(outputs(numbers)[1]["data"]) == {"text/plain"}
    assert text(long) == "x" * 200_000 + "\n"
    assert text(many).split() == [str(number) for number in range(20_000)]


def test_the_first_error_ends_the_run_and_what_was_produced_is_written(tmp_path):
    notebook, done = run("failing", tmp_path, code=1)
    first, second, third = code_cells(notebook)
    assert text(first) == "before\n" and text(second) == "half"
    assert outputs(second)[1]["ename"] == "NameError"
    assert third["outputs"] == [] and third["execution_count"] is None
    assert "undefined_name" in done.stderr and notebook["nbformat_minor"] == 2


def test_a_run_goes_on_after_errors_if_it_may(tmp_path):
    notebook, _ = run("failing", tmp_path, "--allow-errors")
    assert text(code_cells(notebook)[2]) == "never\n"


def test_code_that_asks_is_refused_and_told_why(tmp_path):
    notebook, done = run("asking", tmp_path, code=1)
    assert outputs(code_cells(notebook)[0])[1]["ename"] == "StdinNotImplementedError"
    assert "hint:" in done.stderr


def test_what_nobody_asked_about_stays_as_it_was(tmp_path):
    notebook, done = run("strange", tmp_path, "--param", "offset=41", "--json")
    before = json.loads((NOTEBOOKS / "strange.ipynb").read_text())
    after = json.loads((tmp_path / "out.ipynb").read_text())
    assert after["cells"][:2] == before["cells"][:2] and after["metadata"] == before["metadata"]
    assert after["cells"][2]["metadata"]["unheard_of"] == {"deep": [1, 2.5]}
    injected, value, skipped = after["cells"][3:]
    assert injected["metadata"]["tags"] == ["injected-parameters"]
    assert value["outputs"][0]["data"]["text/plain"] == ["42"] and skipped["outputs"] == []
    last = json.loads(done.stdout.splitlines()[-1])
    assert (last["type"], last["outcome"], last["cells"]) == ("notebook", "ok", 3)


def test_a_cell_that_takes_too_long_is_ended(tmp_path):
    source = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("print('a')\nimport time; time.sleep(60)")])
    nbformat.write(source, tmp_path / "slow.ipynb")
    done = skep("run", tmp_path / "slow.ipynb", "--inplace", "--timeout", "1s")
    assert done.returncode == 1, done.stderr
    cell = code_cells(valid(tmp_path / "slow.ipynb"))[0]
    assert text(cell) == "a\n" and outputs(cell)[-1]["ename"] == "ExecutionTimeout"


def test_ctrl_c_interrupts_and_writes_what_there_is(tmp_path):
    cells = ["print('done')", "print('begun', flush=True)\nimport time; time.sleep(60)", "print('never')"]
    source = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    path = tmp_path / "long.ipynb"
    nbformat.write(source, path)
    command = [SKEP, "notebook", "run", path, "--inplace", "--save-every-cell", "--json", "--server", SERVER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        told = json.loads(process.stdout.readline())
        # What was told is on disk.
        saved = path.read_text()
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT) == 130
    assert told["outcome"] == "ok" and '"done\\n"' in saved
    first, second, third = code_cells(valid(path))
    assert text(first) == "done\n" and third["outputs"] == []
    assert outputs(second)[-1]["ename"] == "KeyboardInterrupt"


@pytest.mark.parametrize("language", ["javascript", "bash"])
def test_a_notebook_runs_in_the_language_that_it_names(tmp_path, language):
    # A `code-interpreter-v1` that was built long ago has Python alone.
    notebook, _ = run(language, tmp_path, "--template", "code-interpreter-slim")
    first, second, third = code_cells(notebook)
    if language == "javascript":
        assert text(first) == "total 6\n" and text(first, "stderr") == "careful\n"
        assert outputs(second)[1]["data"]["text/plain"] == "12"
        assert "waited" in outputs(third)[1]["data"]["text/plain"]
    else:
        assert text(second) == "5 /tmp\n" and text(second, "stderr") == "oops\n"
        assert outputs(third)[1]["output_type"] == "error"


@pytest.mark.feature("notebooks.export")
def test_what_was_run_in_a_context_is_a_valid_notebook(tmp_path):
    sandbox = call("POST", "/sandboxes", {"templateID": "code-interpreter-v1", "timeout": 120})
    try:
        execute(sandbox, "import pandas as pd\nframe = pd.DataFrame({'x': [1]})\nframe", {})
        execute(sandbox, "print('it is geheimnis')\n1 / 0", {"secrets": ["geheimnis"]})
        execute(sandbox, "import os; os._exit(3)", {})
        execute(sandbox, "'after'", {})
        done = skep("export", sandbox["sandboxID"], "--output", tmp_path / "export.ipynb")
        assert done.returncode == 0, done.stderr
        notebook = valid(tmp_path / "export.ipynb")
    finally:
        call("DELETE", f"/sandboxes/{sandbox['sandboxID']}")
    frame, secret, death, mark, after = notebook["cells"]
    assert {"text/html", "text/plain"} == set(outputs(frame)[1]["data"])
    assert text(secret) == "it is ***\n" and outputs(secret)[1]["ename"] == "ZeroDivisionError"
    assert "geheimnis" not in (tmp_path / "export.ipynb").read_text()
    assert outputs(death)[1]["ename"] == "ContextRestarting"
    assert mark["cell_type"] == "markdown" and "restarted" in mark["source"]
    assert (after["execution_count"], outputs(after)[1]["data"]["text/plain"]) == (1, "'after'")


def test_an_old_notebook_is_refused_with_a_hint(tmp_path):
    old = tmp_path / "old.ipynb"
    old.write_text(json.dumps({"metadata": {}, "nbformat": 3, "nbformat_minor": 0, "worksheets": []}))
    done = skep("run", old)
    assert done.returncode == 1 and "version 3" in done.stderr and "hint:" in done.stderr


def request(url, method, body, headers):
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(url, data, {**headers, "Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(asked, timeout=TIMEOUT) as answer:
        return answer.read()


def call(method, path, body=None):
    answer = request(SERVER + path, method, body, {"X-API-Key": os.environ["E2B_API_KEY"]})
    return json.loads(answer or "null")


def port_headers(sandbox):
    headers = {"E2b-Sandbox-Id": sandbox["sandboxID"], "E2b-Sandbox-Port": "49999"}
    token = sandbox.get("envdAccessToken")
    return {**headers, "X-Access-Token": token} if token else headers


def execute(sandbox, code, options):
    """Runs code to its end, and hears all of it."""
    body = {"code": code, "skep": options}
    answer = request(SERVER + "/execute", "POST", body, port_headers(sandbox))
    assert b"end_of_execution" in answer
