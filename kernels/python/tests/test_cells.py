"""What a cell is, and what comes back of it."""

from __future__ import annotations

import pytest
from kernel_client import KernelClient


def test_an_execution_is_busy_input_outputs_reply_idle_and_names_its_request(kernel: KernelClient) -> None:
    identifier = kernel.start("print('p'); 1")
    outcome = kernel.finish()
    assert [message["type"] for message in outcome] == [
        "status",
        "execute_input",
        "stream",
        "execute_result",
        "reply",
        "status",
    ]
    assert {message["parent"] for message in outcome} == {identifier}


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("1 + 1", "2"),
        ("x = 5\nx", "5"),
        ("    y = 1\n    y + 1", "2"),
        ("'a'", "'a'"),
        ("import asyncio\nawait asyncio.sleep(0, 'awaited')", "'awaited'"),
        ("async def f():\n    return 3\nawait f()", "3"),
        ("%pwd", None),
        ("!!echo hi", None),
        ("b'\\xff\\x00'", "b'\\xff\\x00'"),
        ("'\\u2028'", "'\\u2028'"),
        ("'😀'", "'😀'"),
    ],
)
def test_the_last_expression_is_the_value(kernel: KernelClient, code: str, text: str | None) -> None:
    value = kernel.run(code).ok().value
    assert text is None or value["text/plain"] == text


@pytest.mark.parametrize("code", ["None", "1;", "x = 1", "", "# only a comment", "   \n\n"])
def test_some_cells_have_no_value(kernel: KernelClient, code: str) -> None:
    assert kernel.run(code).ok().of_type("execute_result") == []


def test_the_count_starts_at_one_counts_failures_and_skips_empty_cells(kernel: KernelClient) -> None:
    counts = [
        kernel.run(code).of_type("execute_input")[0]["execution_count"] for code in ("1", "1/0", "(", "", "  ", "2")
    ]
    assert counts == [1, 2, 3, 4, 4, 4]


def test_a_fresh_kernel_shows_no_trace_of_its_preparation(kernel: KernelClient) -> None:
    names = kernel.run("print(sorted(n for n in dir() if not n.startswith('_')), In, Out, _, __name__)").text()
    assert (
        names
        == "['In', 'Out', 'exit', 'get_ipython', 'open', 'quit'] ['', \"print(sorted(n for n in dir() if not n.startswith('_')), In, Out, _, __name__)\"] {}  __main__\n"
    )


def test_history_variables_work_without_a_database(kernel: KernelClient) -> None:
    kernel.run("6 * 7")
    assert kernel.run("_, _1, Out[1], In[1], _i").value["text/plain"] == "(42, 42, 42, '6 * 7', '6 * 7')"
    assert "6 * 7" in kernel.run("%history").text()


@pytest.mark.parametrize(
    ("code", "stdout"),
    [
        ("!echo out; echo err >&2", "out\r\nerr\r\n"),
        ("%%bash\necho from bash", "from bash\n"),
        ("%cd -q /\n%pwd\nimport os; print(os.getcwd())", "/\n"),
        ("%env SOME_NAME=some value", "env: SOME_NAME=some value\n"),
        ("%%writefile /dev/null\nx", "Overwriting /dev/null\n"),
        ("%%capture captured\nprint('hidden')", ""),
        ("name = 'py'\n!echo {name} $name", "py py\r\n"),
        ("lines = !printf 'a\\nb\\n'\nprint(lines)", "['a', 'b']\n"),
        ("for i in range(2): print(i)", "0\n1\n"),
    ],
)
def test_magics_and_shell_escapes(kernel: KernelClient, code: str, stdout: str) -> None:
    assert kernel.run(code).ok().text() == stdout


def test_timing_magics_report(kernel: KernelClient) -> None:
    assert "per loop" in kernel.run("%timeit -n 1 -r 1 pass").ok().text()
    assert "Wall time" in kernel.run("%%time\nx = 1").ok().text()


def test_captured_output_can_be_shown_again(kernel: KernelClient) -> None:
    kernel.run("%%capture captured\nprint('hidden')\ndisplay(1)").ok()
    outcome = kernel.run("captured.show()").ok()
    assert outcome.text() == "hidden\n"
    assert outcome.displays == [{"text/plain": "1"}]


def test_help_is_a_payload_of_the_reply_and_no_output(kernel: KernelClient) -> None:
    outcome = kernel.run("len?").ok()
    assert [message["type"] for message in outcome] == ["status", "execute_input", "reply", "status"]
    (payload,) = outcome.reply["payload"]
    assert payload["source"] == "page"
    assert "Return the number of items in a container" in payload["data"]["text/plain"]
    assert kernel.run("1").reply["payload"] == []


def test_bash_failure_is_an_error(kernel: KernelClient) -> None:
    assert kernel.run("%%bash\nexit 3").error["ename"] == "CalledProcessError"


def test_subclasses_pickle_because_cells_live_in_main(kernel: KernelClient) -> None:
    kernel.run("class Point:\n    def __init__(self): self.x = 3").ok()
    assert kernel.run("import pickle; pickle.loads(pickle.dumps(Point())).x").value["text/plain"] == "3"


def test_source_of_a_cell_function_can_be_read(kernel: KernelClient) -> None:
    kernel.run("def f():\n    return 'source'").ok()
    assert kernel.run("import inspect; print(inspect.getsource(f))").text() == "def f():\n    return 'source'\n\n"


def test_store_magic_keeps_values_in_the_home_directory(kernel: KernelClient, tmp_path: object) -> None:
    kernel.run(f"import os; os.environ['HOME'] = {str(tmp_path)!r}").ok()
    assert kernel.run("kept = 3\n%store kept").ok().text() == "Stored 'kept' (int)\n"
    assert kernel.run("del kept\n%store -r kept\nkept").value["text/plain"] == "3"
