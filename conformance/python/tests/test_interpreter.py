"""Running code: what it prints, shows and raises, where it runs, and how it ends."""

import asyncio
import base64
import time

import e2b_code_interpreter
import pytest

import results
from conftest import run_until_complete
from flavour import failure
from generation import NEW, expect_error

feature = pytest.mark.feature

# The year-old interpreter SDK knows no address but names below a domain.
pytestmark = pytest.mark.skipif(not NEW and results.MODE != "domain", reason="this SDK reaches sandboxes by name alone")

TEMPLATE = "code-interpreter-slim"
CLASSES = {"sync": e2b_code_interpreter.Sandbox, "async": e2b_code_interpreter.AsyncSandbox}


@pytest.fixture(scope="module")
def interpreter(sdk):
    """One sandbox with an interpreter for all cases."""
    create = CLASSES[sdk.name].create
    made = run_until_complete(sdk.call(create, template=TEMPLATE, timeout=300, envs={"GLOBAL": VALUE}))
    yield made
    run_until_complete(sdk.call(made.kill))


@pytest.fixture
def run(sdk, interpreter):
    """Runs code in the default context, or where the options say."""

    async def run(code, **options):
        return await sdk.call(interpreter.run_code, code, **options)

    return run


VALUE = "it's \"quoted\" \\ back\nline — 日本語 🐝\u2028"


@feature("interpreter.run")
async def test_the_value_of_the_last_expression_is_the_result(run):
    execution = await run("x = 20\nx + 1")
    assert (execution.text, execution.error) == ("21", None)
    assert (await run("x + 2")).text == "22"


@feature("interpreter.run")
async def test_code_without_a_value_has_no_result(run):
    for code in ["x = 1", "None", "1;", ""]:
        execution = await run(code)
        assert (execution.results, execution.text, execution.error) == ([], None, None), code


@feature("interpreter.run")
async def test_magics_shell_commands_and_await_work(run):
    assert (await run("!echo out")).logs.stdout == ["out\r\n"]
    assert "".join((await run("%%bash\necho in bash")).logs.stdout) == "in bash\n"
    assert (await run("import asyncio\nawait asyncio.sleep(0.01, 'slept')")).text == "slept"
    assert (await run("    a = 1\n    a")).text == "1"


@feature("interpreter.run")
async def test_executions_are_counted_failing_ones_too(sdk, interpreter, run):
    context = await sdk.call(interpreter.create_code_context)
    counts = [(await run(code, context=context)).execution_count for code in ["1", "1/0", "(", "2"]]
    assert counts == [1, 2, 3, 4]


@feature("interpreter.stream")
async def test_output_comes_when_it_is_printed(run):
    seen = []
    start = time.monotonic()
    code = "import sys, time\nprint('a')\ntime.sleep(1)\nprint('b', file=sys.stderr)\n5"
    execution = await run(
        code,
        on_stdout=lambda message: seen.append(("out", message.line, time.monotonic() - start)),
        on_stderr=lambda message: seen.append(("err", message.line, message.error)),
        on_result=lambda result: seen.append(("result", result.text)),
    )
    assert [entry[:2] for entry in seen] == [("out", "a\n"), ("err", "b\n"), ("result", "5")]
    assert seen[0][2] < 0.9 and seen[1][2] is True
    assert (execution.logs.stdout, execution.logs.stderr) == (["a\n"], ["b\n"])


@feature("interpreter.stream")
@pytest.mark.parametrize("text", ["\u2028\u2029\x85\x0b\x0c\x1c", "🐝" * 5000, "\x1b[31mred\x1b[0m", "\r\n\t\0", "ü" * 70000])
async def test_every_character_arrives(run, text):
    execution = await run(f"print({ascii(text)}, end='')")
    assert "".join(execution.logs.stdout) == text


@feature("interpreter.stream")
@pytest.mark.deadline(240)
async def test_a_hundred_mebibytes_of_output_arrive(run):
    length = 0

    def count(message):
        nonlocal length
        length += len(message.line)

    execution = await run("for _ in range(1600): print('x' * 65535)", on_stdout=count, timeout=200)
    assert (execution.error, length) == (None, 1600 * 65536)


@feature("interpreter.results")
async def test_every_representation_has_its_field(run):
    code = """
from IPython.display import display, HTML, Markdown, SVG, Latex, JSON, Javascript
for shown in [HTML('<b>h</b>'), Markdown('*m*'), Latex('$l$'), JSON({'a': [1, None]}), Javascript('j()')]:
    display(shown)
display({'application/x-own': {'k': 1}, 'application/pdf': 'cGRm'}, raw=True)
"""
    results = (await run(code)).results
    html, markdown, latex, json, javascript, own = results
    assert (html.html, markdown.markdown, latex.latex) == ("<b>h</b>", "*m*", "$l$")
    assert (json.json, javascript.javascript, own.pdf) == ({"a": [1, None]}, "j()", "cGRm")
    assert own.extra == {"application/x-own": {"k": 1}}
    assert not any(result.is_main_result for result in results)


@feature("interpreter.results")
async def test_strings_lose_one_pair_of_quotes_and_lists_are_json(run):
    assert (await run("'it is'")).text == "it is"
    execution = await run("[1, 'a', None, float('nan')]")
    assert execution.results[0].json == [1, "a", None, None]
    assert execution.results[0].is_main_result


@feature("interpreter.results")
async def test_a_data_frame_comes_as_text_table_and_data(run):
    code = "import pandas as pd\npd.DataFrame({'n': [1.5, float('nan')], 't': pd.to_datetime(['2024-01-02', None])})"
    (result,) = (await run(code)).results
    assert "<table" in result.html and "1.5" in result.text
    assert result.data["n"] == [1.5, None]
    assert result.data["t"][0].startswith("2024-01-02T00:00:00")


@feature("interpreter.results")
async def test_a_plot_is_an_image_and_a_chart(run):
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3], [4, 5, 6], label='l')\nplt.title('日本語')\nplt.show()"
    execution = await run(code)
    (result,) = execution.results
    assert base64.b64decode(result.png).startswith(b"\x89PNG")
    assert (result.chart.type.value, result.chart.title) == ("line", "日本語")
    assert [tuple(point) for point in result.chart.elements[0].points] == [(1.0, 4.0), (2.0, 5.0), (3.0, 6.0)]
    assert execution.logs.stderr == []


@feature("interpreter.results")
@pytest.mark.deadline(240)
async def test_a_result_of_fifty_mebibytes_arrives(run):
    execution = await run("'z' * (50 << 20)", timeout=200)
    assert len(execution.text) == 50 << 20


@feature("interpreter.errors")
async def test_an_exception_has_its_name_value_and_traceback(run):
    seen = []
    execution = await run("def f():\n    return x_undefined\nf()", on_error=seen.append)
    error = execution.error
    assert (error.name, error.value) == ("NameError", "name 'x_undefined' is not defined")
    assert "line 2" in error.traceback and "Traceback (most recent call last)" in error.traceback
    assert [each.name for each in seen] == ["NameError"]


@feature("interpreter.errors")
async def test_what_cannot_be_parsed_answered_or_left_is_an_error_and_the_context_lives(run):
    for code, name in [("1 +* 2", "SyntaxError"), ("input()", "StdinNotImplementedError"), ("raise SystemExit(3)", "SystemExit")]:
        assert (await run(code)).error.name == name
    assert (await run("1 + 1")).text == "2"


@feature("interpreter.environment")
async def test_variables_of_the_sandbox_are_seen_from_the_first_line(sdk, interpreter, run):
    context = await sdk.call(interpreter.create_code_context)
    execution = await run("%%time\nimport os\nprint(os.environ['GLOBAL'], end='')", context=context)
    assert "".join(execution.logs.stdout).startswith(VALUE)


@feature("interpreter.environment")
async def test_variables_of_an_execution_are_seen_and_restored(run):
    await run("import os")
    show = "print(os.environ.get('OWN', 'unset'), os.environ['GLOBAL'][:4], end='')"
    assert "".join((await run(show, envs={"OWN": "'\"\n", "GLOBAL": "over"})).logs.stdout) == "'\"\n over"
    assert (await run(show)).logs.stdout == ["unset it's"]
    assert (await run("len(os.environ['LONG'])", envs={"LONG": "x" * (1 << 20)})).text == str(1 << 20)
    assert (await run("1/0", envs={"OWN": "1"})).error.name == "ZeroDivisionError"
    assert (await run(show)).logs.stdout == ["unset it's"]


@feature("interpreter.contexts")
async def test_contexts_share_nothing_and_start_where_they_are_told(sdk, interpreter, run):
    context = await sdk.call(interpreter.create_code_context, cwd="/root")
    assert (context.cwd, context.language) == ("/root", "python")
    await run("mine = 1")
    assert (await run("mine", context=context)).error.name == "NameError"
    assert (await run("import os; os.getcwd()", context=context)).text == "/root"
    assert (await run("import os; os.getcwd()")).text == "/home/user"


@feature("interpreter.contexts")
async def test_contexts_run_beside_each_other_and_one_runs_in_order(sdk, interpreter, run):
    context = await sdk.call(interpreter.create_code_context)
    start = time.monotonic()
    code = "import time; time.sleep(1.5)"
    await asyncio.gather(run(code), run(code, context=context))
    assert time.monotonic() - start < 2.8
    await run("order = []", context=context)
    await asyncio.gather(*(run("import time; order.append(1); time.sleep(0.1); order.append(0)", context=context) for _ in range(3)))
    assert (await run("order", context=context)).text == "[1, 0, 1, 0, 1, 0]"


@feature("interpreter.contexts")
@pytest.mark.new_only
async def test_contexts_are_listed_restarted_and_removed(sdk, interpreter, run):
    context = await sdk.call(interpreter.create_code_context, cwd="/tmp")
    listed = await sdk.call(interpreter.list_code_contexts)
    assert listed[-1].id == context.id and listed[0].language == "python"
    await run("kept = 1", context=context)
    await sdk.call(interpreter.restart_code_context, context)
    execution = await run("kept", context=context)
    assert (execution.error.name, execution.execution_count) == ("NameError", 1)
    assert (await run("import os; os.getcwd()", context=context)).text == "/tmp"
    await sdk.call(interpreter.remove_code_context, context.id)
    expect_error(await failure(run("1", context=context)), "NotFoundException", f"Context {context.id} not found")


@feature("interpreter.interrupt")
async def test_a_caller_that_gives_up_frees_the_context_and_keeps_its_variables(run):
    await run("kept = 41")
    await failure(run("import time\ntime.sleep(300)", timeout=1))
    assert (await run("kept + 1", timeout=10)).text == "42"


@feature("interpreter.interrupt")
async def test_code_that_does_not_hear_an_interrupt_does_not_hold_its_context(sdk, interpreter, run):
    context = await sdk.call(interpreter.create_code_context)
    deaf = "import time\nwhile True:\n    try:\n        time.sleep(100)\n    except BaseException:\n        pass"
    await failure(run(deaf, context=context, timeout=1))
    execution = await run("1 + 1", context=context, timeout=30)
    assert (execution.text, execution.execution_count) == ("2", 1)


@feature("interpreter.death")
@pytest.mark.parametrize(
    "code", ["import os; os._exit(3)", "import ctypes; ctypes.string_at(0)", "import os; os.kill(os.getpid(), 9)"]
)
async def test_the_death_of_a_kernel_is_one_error_and_the_next_execution_works(sdk, interpreter, run, code):
    context = await sdk.call(interpreter.create_code_context)
    seen = []
    execution = await run("print('bye')\n" + code, context=context, on_error=seen.append)
    assert execution.logs.stdout == ["bye\n"]
    assert [(error.name, error.value) for error in seen] == [("ContextRestarting", "Context was restarted")]
    execution = await run("1 + 1", context=context)
    assert (execution.text, execution.execution_count) == ("2", 1)


@feature("interpreter.death")
@pytest.mark.deadline(120)
async def test_code_that_takes_all_memory_is_told_so_and_the_sandbox_lives(sdk, interpreter, run):
    context = await sdk.call(interpreter.create_code_context)
    execution = await run("held = []\nwhile True: held.append(bytearray(32 << 20))", context=context, timeout=90)
    assert execution.error.name == "ContextRestarting" and "memory" in execution.error.traceback
    assert (await run("1 + 1", context=context)).text == "2"
    assert (await sdk.call(interpreter.commands.run, "echo alive")).stdout == "alive\n"


@feature("interpreter.packages")
@pytest.mark.deadline(180)
async def test_what_is_installed_can_be_imported_at_once(run):
    assert (await run("!pip install --quiet pyjokes\nimport pyjokes\npyjokes.__name__", timeout=90)).text == "pyjokes"
    assert (await run("!uv pip install --quiet cowsay\nimport cowsay\ncowsay.__name__", timeout=90)).text == "cowsay"
    assert (await run("import getpass; getpass.getuser()")).text == "user"


@feature("interpreter.refusals")
async def test_unknown_contexts_and_languages_are_named(sdk, interpreter, run):
    expect_error(await failure(run("1", language="cobol")), "SandboxException", "cobol")
    missing = e2b_code_interpreter.Context("nope", "python", "/")
    expect_error(await failure(run("1", context=missing)), "NotFoundException", "Context nope not found")
