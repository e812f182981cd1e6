"""Running code: what it gives back, what it prints, what it raises, and what a caller may say."""

import asyncio
import datetime
import json
import time

import e2b_code_interpreter
import pytest

from flavour import failure
from generation import expect_error
from interpreters import AWKWARD, LARGE_OUTPUT

feature = pytest.mark.feature


@feature("interpreter.run")
async def test_the_value_of_the_last_expression_is_the_result(run):
    execution = await run("x = 20\nx + 1")
    assert (execution.text, execution.error) == ("21", None)
    assert (await run("x + 2")).text == "22"


@feature("interpreter.run")
@pytest.mark.parametrize("code", ["x = 1", "None", "1;", "", "# nothing", "import os", "def f(): return 1"])
async def test_code_without_a_value_has_no_result(run, code):
    execution = await run(code)
    assert (execution.results, execution.text, execution.error) == ([], None, None)
    assert (execution.logs.stdout, execution.logs.stderr) == ([], [])


@feature("interpreter.run")
@pytest.mark.parametrize(
    "code, printed",
    [
        ("!echo out; echo err >&2", "out\r\nerr\r\n"),
        ("%%bash\necho in bash", "in bash\n"),
        ("import subprocess\nsubprocess.run(['echo', 'child']);", "child\n"),
        ("import os\nos.write(1, b'descriptor\\n');", "descriptor\n"),
        ("    indented = 'as pasted'\n    print(indented)", "as pasted\n"),
        ("print('a'); print('b')", "a\nb\n"),
        ("print('no newline', end='')", "no newline"),
    ],
)
async def test_whatever_writes_is_heard(interpreter, code, printed):
    assert await interpreter.printed(code) == printed


@feature("interpreter.run")
async def test_await_works_at_the_top_level(run):
    assert (await run("import asyncio\nawait asyncio.sleep(0.01, 'slept')")).text == "slept"


@feature("interpreter.run")
async def test_executions_are_counted_failing_ones_too_and_empty_ones_not(interpreter):
    context = await interpreter.context()
    codes = ["1", "1/0", "(", "", "2"]
    executions = [await interpreter.run(code, context=context) for code in codes]
    assert [execution.execution_count for execution in executions][:3] == [1, 2, 3]
    assert executions[-1].execution_count == 4


@feature("interpreter.run")
async def test_an_execution_can_be_written_as_json(run):
    said = json.loads((await run("print('out')\n1/0")).to_json())
    assert json.loads(said["logs"]) == {"stdout": ["out\n"], "stderr": []}
    assert json.loads(said["error"])["name"] == "ZeroDivisionError"
    assert json.loads((await run("[1, 2]")).to_json())["results"] == [{"text": "[1, 2]", "json": [1, 2]}]


@feature("interpreter.callbacks")
async def test_callbacks_hear_everything_in_order_and_when_it_happens(run):
    seen = []
    start = time.monotonic()
    code = "import sys, time\nprint('a')\ntime.sleep(1)\nprint('b', file=sys.stderr)\ndisplay('shown')\n5"
    execution = await run(
        code,
        on_stdout=lambda message: seen.append(("out", message.line, message.error, time.monotonic() - start)),
        on_stderr=lambda message: seen.append(("err", message.line, message.error)),
        on_result=lambda result: seen.append(("result", result.text, result.is_main_result)),
        on_error=lambda error: seen.append(("error", error.name)),
    )
    assert [entry[:3] for entry in seen] == [
        ("out", "a\n", False),
        ("err", "b\n", True),
        ("result", "shown", False),
        ("result", "5", True),
    ]
    assert seen[0][3] < 0.9, "the first line waited for the rest"
    assert (execution.logs.stdout, execution.logs.stderr) == (["a\n"], ["b\n"])
    assert [result.text for result in execution.results] == ["shown", "5"]


@feature("interpreter.callbacks")
async def test_the_error_is_told_once_and_after_what_was_printed(run):
    seen = []
    await run("print('before')\n1/0", on_stdout=lambda message: seen.append(str(message)), on_error=lambda error: seen.append(error.value))
    assert seen == ["before\n", "division by zero"]


@feature("interpreter.callbacks")
@pytest.mark.async_only
@pytest.mark.own_kernel("ipykernel sends what was printed every 0.2 s, several lines together")
async def test_callbacks_that_are_coroutines_are_awaited_in_order(run):
    seen = []

    async def note(message):
        await asyncio.sleep(0.02)
        seen.append(message.line)

    await run("import time\nfor i in range(3):\n    print(i)\n    time.sleep(0.05)", on_stdout=note)
    assert seen == ["0\n", "1\n", "2\n"]


@feature("interpreter.callbacks")
@pytest.mark.own_kernel("ipykernel sends what was printed every 0.2 s")
async def test_each_line_says_when_it_was_printed(run):
    stamps = []
    code = "import time\nprint(1)\ntime.sleep(0.3)\nprint(2)"
    await run(code, on_stdout=lambda message: stamps.append(message.timestamp))
    first, second = (datetime.datetime.fromisoformat(stamp) for stamp in stamps)
    assert datetime.timedelta(seconds=0.2) < second - first < datetime.timedelta(seconds=5)
    assert first.tzinfo is not None


@feature("interpreter.stream")
@pytest.mark.parametrize(
    "text",
    ["\u2028\u2029\x85\x0b\x0c\x1c\x1d\x1e", "🐝" * 5000, "\x1b[31mred\x1b[0m", "\r\n\t\0", "ü" * 70000, "a\rb\rc"],
    ids=["separators", "emoji", "colours", "control", "long", "returns"],
)
async def test_every_character_arrives(interpreter, text):
    assert await interpreter.printed(f"print({ascii(text)}, end='')") == text


@feature("interpreter.stream")
@pytest.mark.deadline(240)
async def test_a_hundred_mebibytes_of_output_arrive_or_ten_with_tls(run):
    length = 0

    def count(message):
        nonlocal length
        length += len(message.line)

    code = f"for _ in range({LARGE_OUTPUT} * 16): print('x' * 65535)"
    execution = await run(code, on_stdout=count, timeout=200)
    assert (execution.error, length) == (None, LARGE_OUTPUT << 20)


@feature("interpreter.errors")
async def test_an_exception_has_its_name_value_and_traceback(run):
    execution = await run("def f():\n    return x_undefined\nf()")
    error = execution.error
    assert (error.name, error.value) == ("NameError", "name 'x_undefined' is not defined")
    assert "line 2" in error.traceback and "Traceback (most recent call last)" in error.traceback
    assert "\x1b[" not in error.traceback


@feature("interpreter.errors")
@pytest.mark.parametrize(
    "code, name, value",
    [
        ("1 +* 2", "SyntaxError", "invalid syntax"),
        ("input()", "StdinNotImplementedError", "does not support input requests"),
        ("import sys; sys.exit(3)", "SystemExit", "3"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", ""),
        ("raise ValueError('日本語 🐝\\u2028')", "ValueError", "日本語 🐝\u2028"),
        ("import nothing_of_this_name", "ModuleNotFoundError", "No module named 'nothing_of_this_name'"),
        ("class Own(Exception): pass\nraise Own('mine')", "Own", "mine"),
        ("assert 1 == 2, 'not equal'", "AssertionError", "not equal"),
        ("def f(): f()\nf()", "RecursionError", "maximum recursion depth"),
    ],
)
async def test_an_error_is_named_as_in_python_and_the_context_lives(run, code, name, value):
    await run("alive = 1")
    error = (await run(code)).error
    assert error.name == name and value in error.value
    assert (await run("alive + 1")).text == "2"


@feature("interpreter.environment")
async def test_variables_of_the_sandbox_are_seen_from_the_first_line(interpreter):
    context = await interpreter.context()
    printed = await interpreter.printed("%%time\nimport os\nprint(os.environ['GLOBAL'], end='')", context=context)
    assert printed.startswith(AWKWARD)


@feature("interpreter.environment")
async def test_variables_of_an_execution_are_seen_and_restored(interpreter, run):
    await run("import os")
    show = "print(os.environ.get('OWN', 'unset'), os.environ['GLOBAL'][:4], end='')"
    assert await interpreter.printed(show, envs={"OWN": "'\"\n", "GLOBAL": "over"}) == "'\"\n over"
    assert await interpreter.printed(show) == "unset it's"
    assert (await run("len(os.environ['LONG'])", envs={"LONG": "x" * (1 << 20)})).text == str(1 << 20)
    assert (await run("1/0", envs={"OWN": "1"})).error.name == "ZeroDivisionError"
    assert await interpreter.printed(show) == "unset it's"


@feature("interpreter.environment")
async def test_programs_that_a_cell_starts_see_the_variables_too(interpreter):
    assert await interpreter.printed("!printf '%s' \"$OWN\"", envs={"OWN": "of this one"}) == "of this one"


@feature("interpreter.environment")
async def test_the_line_numbers_of_an_error_are_those_of_the_code(run):
    assert "line 2" in (await run("'one'\n1/0", envs={"OWN": "1"})).error.traceback


@feature("interpreter.language")
@pytest.mark.own_kernel("the name is that of the usual kernel")
@pytest.mark.parametrize("language", ["python", " Python ", ""])
async def test_python_by_name_is_the_default_context(run, language):
    await run("shared = 'the same'")
    assert (await run("shared", language=language)).text == "the same"


@feature("interpreter.language")
async def test_a_context_and_a_language_exclude_each_other(interpreter, run):
    context = await interpreter.context()
    error = await failure(run("1", context=context, language="python"))
    expect_error(error, "InvalidArgumentException", "context or language, but not both")


@feature("interpreter.refusals")
async def test_unknown_contexts_and_languages_are_named(interpreter, run):
    expect_error(await failure(run("1", language="cobol")), "SandboxException", "cobol")
    expect_error(await failure(interpreter.context(language="cobol")), "SandboxException", "cobol")
    missing = e2b_code_interpreter.Context("nope", "python", "/")
    expect_error(await failure(run("1", context=missing)), "NotFoundException", "Context nope not found")


@feature("interpreter.refusals")
async def test_code_that_is_no_text_is_refused(run):
    expect_error(await failure(run(5)), "SandboxException", ["422", "valid string"])
