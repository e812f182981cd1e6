"""Exceptions: names, values, tracebacks, and the kind that the kernel alone can know."""

from __future__ import annotations

import pytest
from kernel_client import KernelClient


@pytest.mark.parametrize(
    ("code", "name", "value", "kind"),
    [
        ("x = undefined_name", "NameError", "name 'undefined_name' is not defined", "runtime"),
        ("1/0", "ZeroDivisionError", "division by zero", "runtime"),
        ("raise ValueError('a', 2)", "ValueError", "('a', 2)", "runtime"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", "", "runtime"),
        ("raise SystemExit(3)", "SystemExit", "3", "exit"),
        ("import sys; sys.exit('bye')", "SystemExit", "bye", "exit"),
        ("exec('(')", "SyntaxError", None, "runtime"),
        ("x = = 1", "SyntaxError", None, "syntax"),
        ("if True:\nx = 1", "IndentationError", None, "syntax"),
        ("'unterminated", "SyntaxError", None, "syntax"),
        ("print(1", "SyntaxError", None, "syntax"),
        ("if True:", "IndentationError", None, "syntax"),
        ("\0", "SyntaxError", None, "syntax"),
        ("raise ExceptionGroup('g', [ValueError(1)])", "ExceptionGroup", "g (1 sub-exception)", "runtime"),
        ("%no_such_magic", "UsageError", "Line magic function `%no_such_magic` not found.", "runtime"),
        ("await no_such", "NameError", "name 'no_such' is not defined", "runtime"),
        ("import asyncio; asyncio.run(asyncio.sleep(0))", "RuntimeError", None, "runtime"),
    ],
)
def test_an_error_has_name_value_and_kind(
    kernel: KernelClient, code: str, name: str, value: str | None, kind: str
) -> None:
    outcome = kernel.run(code)
    assert outcome.reply["status"] == "error"
    assert (outcome.error["ename"], outcome.error["kind"]) == (name, kind)
    assert value is None or outcome.error["evalue"] == value
    assert kernel.run("1").ok().value["text/plain"] == "1"


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("print(1", "'(' was never closed ("),
        ("if True:", "expected an indented block after 'if' statement on line 1 ("),
    ],
)
def test_code_that_ends_too_early_is_told_what_it_lacks(kernel: KernelClient, code: str, reason: str) -> None:
    assert kernel.run(code).error["evalue"].startswith(reason)


def test_a_traceback_is_ipythons_without_colours(kernel: KernelClient) -> None:
    error = kernel.run("xyz").error
    assert "".join(error["traceback"]) == (
        "-" * 75
        + "NameError                                 Traceback (most recent call last)"
        + "Cell In[1], line 1\n----> 1 xyz\n"
        + "NameError: name 'xyz' is not defined"
    )


def test_line_numbers_are_those_of_the_cell_even_with_variables_set(kernel: KernelClient) -> None:
    error = kernel.run("\n\ndef f():\n    1/0\n\nf()", env={"ANY": "value"}).error
    text = "".join(error["traceback"])
    assert "Cell In[1], line 6\n" in text
    assert "Cell In[1], line 4, in f()\n" in text


def test_a_syntax_error_names_the_line(kernel: KernelClient) -> None:
    error = kernel.run("a = 1\nb = = 2").error
    assert error["evalue"].startswith("invalid syntax (") and error["evalue"].endswith(".py, line 2)")
    assert error["traceback"][0].startswith("  Cell In[1], line 2\n")


def test_an_error_in_an_earlier_cells_function_shows_that_cell(kernel: KernelClient) -> None:
    kernel.run("def broken():\n    raise RuntimeError('inside')").ok()
    assert "Cell In[1], line 2, in broken()" in "".join(kernel.run("broken()").error["traceback"])


def test_system_exit_leaves_the_kernel_alive_and_warns_once(kernel: KernelClient) -> None:
    outcome = kernel.run("import sys; keep = 1; sys.exit(3)")
    assert outcome.error["traceback"] == [
        "An exception has occurred, use %tb to see the full traceback.\n",
        "SystemExit: 3\n",
    ]
    assert "UserWarning: To exit: use 'exit', 'quit', or Ctrl-D." in outcome.text("stderr")
    assert kernel.run("keep").value["text/plain"] == "1"


@pytest.mark.parametrize("call", ["exit()", "quit()", "exit"])
def test_exit_ends_the_execution_well_and_then_the_kernel(kernel: KernelClient, call: str) -> None:
    outcome = kernel.run(call)
    assert outcome.reply["status"] == "ok" and outcome.reply["exiting"] is True
    with pytest.raises(EOFError):
        kernel.receive()


@pytest.mark.parametrize("call", ["input()", "input('name? ')", "import getpass; getpass.getpass()"])
def test_input_is_a_clear_error(kernel: KernelClient, call: str) -> None:
    error = kernel.run(call).error
    assert error["ename"] == "StdinNotImplementedError"
    assert error["evalue"].endswith("was called, but this frontend does not support input requests.")


@pytest.mark.parametrize(
    "code",
    [
        "input()",
        "try:\n    input()\nexcept Exception as error:\n    raise ValueError('second') from error",
        "try:\n    input()\nfinally:\n    1/0",
        "class Shown:\n    def _repr_html_(self): 1/0\nShown()",
        "def f(): input()\nasync def g(): f()\nimport asyncio\nawait asyncio.gather(g())",
        "import asyncio\nasync def g(): input()\nasync with asyncio.TaskGroup() as group:\n    group.create_task(g())",
    ],
)
def test_no_frame_of_the_kernel_is_shown(kernel: KernelClient, code: str) -> None:
    outcome = kernel.run(code)
    shown = "".join("".join(message["traceback"]) for message in outcome.of_type("error"))
    assert "Cell In[1]" in shown or "ipykernel_" in shown
    assert "skep_kernel" not in shown and "hidden" not in shown


def test_an_exception_that_cannot_be_changed_is_reported(kernel: KernelClient) -> None:
    code = "class Fixed(Exception):\n    def __setattr__(self, *_): 1/0\n    with_traceback = __setattr__\nraise Fixed('no')"
    assert kernel.run(code).error["ename"] == "Fixed"
    assert kernel.run("1").ok()


def test_standard_input_is_empty_and_does_not_wait(kernel: KernelClient) -> None:
    assert kernel.run("import sys; sys.stdin.read()").value["text/plain"] == "''"
    assert (
        kernel.run("import subprocess; subprocess.run(['cat'], capture_output=True).stdout").value["text/plain"]
        == "b''"
    )


def test_exceptions_with_broken_methods_are_reported(kernel: KernelClient) -> None:
    code = "class Broken(Exception):\n    def __str__(self): raise RuntimeError('no')\nraise Broken()"
    error = kernel.run(code).error
    assert error["ename"] == "Broken"
    assert "unprintable" in error["evalue"]
    assert kernel.run("1").ok()


WITHOUT_LINES = (
    "def fail(): raise ValueError('no line')\n"
    "table = {table}\n"
    "fail.__code__ = fail.__code__.replace(co_linetable=table)\n"
    "fail()"
)


def test_an_error_of_code_without_lines_is_reported(kernel: KernelClient) -> None:
    # An interrupt may hit an instruction that belongs to no line, too.
    error = kernel.run(WITHOUT_LINES.format(table="b'\\xf8' * 64")).error
    assert (error["ename"], error["evalue"]) == ("ValueError", "no line")
    # Python itself fails when it prints this one.
    assert kernel.run(WITHOUT_LINES.format(table="b''")).error["kind"] == "runtime"
    assert kernel.run("1").ok()


def test_a_huge_traceback_arrives_whole(kernel: KernelClient) -> None:
    error = kernel.run("raise ValueError('v' * 3_000_000)").error
    assert error["evalue"] == "v" * 3_000_000


def test_a_value_whose_repr_fails_is_an_error_like_under_ipykernel(kernel: KernelClient) -> None:
    outcome = kernel.run("class Broken:\n    def __repr__(self): raise RuntimeError('no repr')\nBroken()")
    assert outcome.error["ename"] == "RuntimeError"
    assert kernel.run("1").ok()


def test_deep_recursion_is_an_exception(kernel: KernelClient) -> None:
    assert kernel.run("def f(): f()\nf()").error["ename"] == "RecursionError"
    assert kernel.run("1").ok()
