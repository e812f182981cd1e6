"""Contexts: made, listed, restarted and removed; interrupted, out of time, and dead."""

import asyncio
import time

import pytest

from flavour import failure
from generation import NEW, expect_error
from interpreters import REACHABLE, TEMPLATE, Interpreter
from package import INTERPRETERS

feature = pytest.mark.feature

FOREVER = "import time\nwhile True: time.sleep(0.1)"


@feature("interpreter.default")
@pytest.mark.skipif(not REACHABLE, reason="this SDK reaches interpreters by name alone")
async def test_the_sdk_starts_an_interpreter_when_nobody_names_a_template(sdk):
    sandbox = await sdk.call(INTERPRETERS[sdk.name].create)
    try:
        assert (await sdk.call(sandbox.run_code, "import getpass; getpass.getuser()")).text == "user"
    finally:
        await sdk.call(sandbox.kill)


@feature("interpreter.default")
async def test_a_sandbox_is_found_again_with_its_variables(sdk, interpreter):
    await interpreter.run("remembered = 7")
    again = Interpreter(sdk, await sdk.call(INTERPRETERS[sdk.name].connect, interpreter.sandbox.sandbox_id))
    assert (await again.run("remembered")).text == "7"


@feature("interpreter.contexts")
async def test_contexts_share_nothing_and_start_where_they_are_told(interpreter, run):
    context = await interpreter.context(cwd="/root")
    assert context.cwd == "/root" and context.id
    await run("mine = 1")
    assert (await run("mine", context=context)).error.name == "NameError"
    assert (await run("import os; os.getcwd()", context=context)).text == "/root"
    assert (await run("import os; os.getcwd()")).text == "/home/user"


@feature("interpreter.contexts")
async def test_contexts_run_beside_each_other_and_one_runs_in_order(interpreter, run):
    context = await interpreter.context()
    start = time.monotonic()
    code = "import time; time.sleep(1.5)"
    await asyncio.gather(run(code), run(code, context=context))
    assert time.monotonic() - start < 2.8
    await run("order = []", context=context)
    work = "import time; order.append(1); time.sleep(0.1); order.append(0)"
    await asyncio.gather(*(run(work, context=context) for _ in range(3)))
    assert (await run("order", context=context)).text == "[1, 0, 1, 0, 1, 0]"


@feature("interpreter.contexts")
@pytest.mark.new_only
async def test_contexts_are_listed_in_the_order_they_were_made(sdk, interpreter):
    first, second = await interpreter.context(cwd="/tmp"), await interpreter.context()
    listed = await sdk.call(interpreter.sandbox.list_code_contexts)
    assert [context.id for context in listed[-2:]] == [first.id, second.id]
    assert (listed[0].language, listed[0].cwd) == ("python", "/home/user")
    assert [context.cwd for context in listed[-2:]] == ["/tmp", "/home/user"]


@feature("interpreter.contexts")
@pytest.mark.new_only
async def test_a_restarted_context_is_empty_and_where_it_was(sdk, interpreter, run):
    context = await interpreter.context(cwd="/tmp")
    await run("kept = 1", context=context)
    await sdk.call(interpreter.sandbox.restart_code_context, context)
    execution = await run("kept", context=context)
    assert (execution.error.name, execution.execution_count) == ("NameError", 1)
    assert (await run("import os; os.getcwd()", context=context)).text == "/tmp"
    await sdk.call(interpreter.sandbox.restart_code_context, context.id)
    assert (await run("import os; os.environ['GLOBAL'][:4]", context=context)).text == "it's"


@feature("interpreter.contexts")
@pytest.mark.new_only
async def test_a_removed_context_is_gone(sdk, interpreter, run):
    context = await interpreter.context()
    await sdk.call(interpreter.sandbox.remove_code_context, context)
    for call in [
        run("1", context=context),
        sdk.call(interpreter.sandbox.remove_code_context, context.id),
        sdk.call(interpreter.sandbox.restart_code_context, context.id),
    ]:
        expect_error(await failure(call), "NotFoundException", f"Context {context.id} not found")
    assert context.id not in [other.id for other in await sdk.call(interpreter.sandbox.list_code_contexts)]


@feature("interpreter.contexts")
@pytest.mark.new_only
async def test_a_restart_ends_what_runs_with_an_error(sdk, interpreter, run):
    context = await interpreter.context()
    heard = asyncio.Event()
    loop = asyncio.get_running_loop()
    running = asyncio.ensure_future(
        run("print('begun')\n" + FOREVER, context=context, on_stdout=lambda _: loop.call_soon_threadsafe(heard.set))
    )
    await asyncio.wait_for(heard.wait(), 20)
    await sdk.call(interpreter.sandbox.restart_code_context, context)
    execution = await running
    assert execution.error is not None and execution.logs.stdout == ["begun\n"]
    assert (await run("1 + 1", context=context)).text == "2"


@feature("interpreter.timeouts")
async def test_an_execution_that_takes_too_long_is_told_so(run):
    start = time.monotonic()
    error = await failure(run(FOREVER, timeout=1))
    expect_error(error, "TimeoutException", ["Execution timed out", "'timeout' option"])
    # The newest SDK adds up two of its timeouts.
    assert 0.9 < time.monotonic() - start < 5


@feature("interpreter.timeouts")
async def test_a_timeout_that_is_not_reached_changes_nothing(run):
    assert (await run("import time; time.sleep(0.5); 'done'", timeout=20, request_timeout=5)).text == "done"
    assert (await run("import time; time.sleep(0.5); 'done'", timeout=0)).text == "done"


@feature("interpreter.timeouts")
async def test_a_request_that_takes_too_long_is_told_so(interpreter):
    # No kernel for Bash waits to be used, so it takes longer than that.
    error = await failure(interpreter.context(language="bash", request_timeout=0.001))
    expect_error(error, "TimeoutException", ["Request timed out", "'request_timeout' option"])


@feature("interpreter.interrupt")
async def test_a_caller_that_gives_up_frees_the_context_and_keeps_its_variables(run):
    await run("kept = 41")
    await failure(run("import time\ntime.sleep(300)", timeout=1))
    assert (await run("kept + 1", timeout=10)).text == "42"


@feature("interpreter.interrupt")
async def test_what_waits_behind_an_interrupted_execution_runs(interpreter, run):
    context = await interpreter.context()
    given_up = asyncio.ensure_future(failure(run(FOREVER, context=context, timeout=1)))
    await asyncio.sleep(0.3)
    waiting = [asyncio.ensure_future(run(f"{number} + 1", context=context, timeout=30)) for number in range(3)]
    await given_up
    assert [(await each).text for each in waiting] == ["1", "2", "3"]


@feature("interpreter.interrupt")
async def test_code_that_does_not_hear_an_interrupt_does_not_hold_its_context(interpreter, run):
    context = await interpreter.context()
    deaf = "import time\nwhile True:\n    try:\n        time.sleep(100)\n    except BaseException:\n        pass"
    await failure(run(deaf, context=context, timeout=1))
    execution = await run("1 + 1", context=context, timeout=30)
    assert (execution.text, execution.execution_count) == ("2", 1)


@feature("interpreter.death")
@pytest.mark.own_kernel("ipykernel keeps what was printed for 0.2 s, and loses it when it dies")
@pytest.mark.parametrize(
    "code", ["import os; os._exit(3)", "import ctypes; ctypes.string_at(0)", "import os; os.kill(os.getpid(), 9)"]
)
async def test_the_death_of_a_kernel_is_one_error_and_the_next_execution_works(interpreter, run, code):
    context = await interpreter.context()
    seen = []
    execution = await run("print('bye')\n" + code, context=context, on_error=seen.append)
    assert execution.logs.stdout == ["bye\n"]
    assert [(error.name, error.value) for error in seen] == [("ContextRestarting", "Context was restarted")]
    execution = await run("1 + 1", context=context)
    assert (execution.text, execution.execution_count) == ("2", 1)


@feature("interpreter.death")
@pytest.mark.deadline(120)
async def test_code_that_takes_all_memory_is_told_so_and_the_sandbox_lives(sdk, interpreter, run):
    context = await interpreter.context()
    execution = await run("held = []\nwhile True: held.append(bytearray(32 << 20))", context=context, timeout=90)
    assert execution.error.name == "OutOfMemory" and "memory" in execution.error.value
    assert (await run("1 + 1", context=context)).text == "2"
    assert (await sdk.call(interpreter.sandbox.commands.run, "echo alive")).stdout == "alive\n"


@feature("interpreter.killed")
async def test_a_sandbox_killed_during_an_execution_says_so(sdk):
    interpreter = await Interpreter.create(sdk, template=TEMPLATE)
    heard = asyncio.Event()
    loop = asyncio.get_running_loop()
    running = asyncio.ensure_future(
        failure(interpreter.run("print('begun')\n" + FOREVER, on_stdout=lambda _: loop.call_soon_threadsafe(heard.set)))
    )
    await asyncio.wait_for(heard.wait(), 20)
    await interpreter.kill()
    error = await asyncio.wait_for(running, 20)
    if NEW:
        expect_error(error, "TimeoutException", "sandbox was killed while the request was in progress")
    else:
        # This SDK hands on what its HTTP client says of a connection that is cut.
        assert type(error).__name__ in ("RemoteProtocolError", "ReadError"), repr(error)
    error = await failure(interpreter.run("1"))
    expect_error(error, "TimeoutException", "sandbox timeout")
