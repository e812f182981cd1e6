"""The tools that agno gives to its agents, called as its agents call them."""

import json

import pytest
from agno.agent import Agent
from agno.tools.e2b import E2BTools

pytestmark = pytest.mark.feature("frameworks.agno")


@pytest.fixture(scope="module")
def tools():
    made = E2BTools(timeout=120)
    yield made
    made.shutdown_sandbox()


@pytest.fixture
def call(tools):
    """Calls a tool by the name an agent knows."""
    return lambda name, **arguments: tools.functions[name].entrypoint(**arguments)


def test_code_gives_its_value_and_what_it_printed(call):
    said = json.loads(call("run_python_code", code="print('seen')\n6 * 7"))
    assert said == ["Logs:\nLogs(stdout: ['seen\\n'], stderr: [])", "Result 1: 42"]


def test_an_exception_is_told_to_the_agent(call):
    assert call("run_python_code", code="1 / 0").startswith("Error: ZeroDivisionError\ndivision by zero\n")


def test_a_plot_becomes_a_picture(call, tmp_path):
    call("run_python_code", code="import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
    target = tmp_path / "plot.png"
    result = call("download_png_result", agent=Agent(), output_path=str(target))
    assert len(result.images) == 1 and target.read_bytes().startswith(b"\x89PNG")


def test_files_go_in_are_listed_and_read(call, tmp_path):
    (tmp_path / "up.txt").write_text("carried")
    assert call("upload_file", file_path=str(tmp_path / "up.txt")) == "/home/user/up.txt"
    assert call("write_file_content", file_path="/home/user/own.txt", content="written") == "/home/user/own.txt"
    assert "own.txt" in call("list_files", directory_path="/home/user")
    assert call("read_file_content", file_path="up.txt") == "carried"


def test_commands_run_in_the_foreground_as_a_stream_and_behind(call):
    assert json.loads(call("run_command", command="echo out; echo err >&2")) == ["STDOUT:\nout\n", "STDERR:\nerr\n"]
    assert "streamed" in call("stream_command", command="echo streamed")
    handle = call("run_background_command", command="sleep 100")
    assert call("kill_background_command", command_obj=handle) == "Background command terminated successfully."


def test_the_deadline_can_be_moved(call):
    assert call("set_sandbox_timeout", timeout=90) == "90"
