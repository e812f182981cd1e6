"""What people do in notebooks beyond plain Python."""

import asyncio

import pytest

from flavour import failure

pytestmark = [pytest.mark.feature("interpreter.notebook"), pytest.mark.once]


@pytest.mark.parametrize(
    "code, printed",
    [
        ("%timeit -n 2 -r 1 1 + 1", "per loop"),
        ("%time sum(range(10))", "CPU times"),
        ("%%time\nsum(range(10))", "Wall time"),
        ("%cd /tmp\n!pwd", "/tmp\r\n"),
        ("%env OWN=value\n!echo $OWN", "value\r\n"),
        ("lines = !printf 'a\\nb'\nprint(lines)", "['a', 'b']"),
        ("name = 'interpolated'\n!echo {name}", "interpolated\r\n"),
        ("%%writefile /tmp/script.py\nprint('from a file')", "Writing /tmp/script.py"),
        ("%run /tmp/script.py", "from a file\n"),
        ("%%capture kept\nprint('captured')", ""),
        ("print(kept.stdout)", "captured\n"),
        ("%who str", "name"),
        ("%%sh\necho in sh", "in sh\n"),
        ("%%script python3\nprint('in a script')", "in a script\n"),
        ("%%html\n<b>bold</b>", ""),
    ],
)
async def test_magics_and_shell_escapes_work(interpreter, code, printed):
    await interpreter.run("%cd -q /home/user\nname = 'interpolated'")
    assert printed in await interpreter.printed(code)


@pytest.mark.parametrize("code", ["len?", "?len", "len??", "%pinfo len"])
async def test_help_fails_nothing(run, code):
    execution = await run(code)
    assert execution.error is None


async def test_an_unknown_magic_is_named(run):
    execution = await run("%nothing_of_this_name")
    said = "".join(execution.logs.stderr) + (execution.error.value if execution.error else "")
    assert "nothing_of_this_name" in said


async def test_a_display_that_is_updated_is_shown_once(run):
    code = "handle = display('first', display_id=True)\nhandle.update('second')\nfrom IPython.display import clear_output\nclear_output()"
    execution = await run(code)
    assert execution.error is None and [result.text for result in execution.results] == ["first"]


async def test_earlier_values_are_remembered(interpreter):
    context = await interpreter.context()
    await interpreter.run("20 + 1", context=context)
    assert (await interpreter.run("_ + 1", context=context)).text == "22"
    assert (await interpreter.run("(Out[1], In[1])", context=context)).text == "(21, '20 + 1')"


async def test_a_task_goes_on_after_its_cell(run):
    await run("import asyncio\nasync def later():\n    await asyncio.sleep(0.2)\n    return 'done'\ntask = asyncio.ensure_future(later())")
    assert (await run("await task")).text == "done"


async def test_a_thread_that_prints_after_its_cell_is_heard_in_the_next_one(interpreter):
    start = "import threading, time\nthreading.Timer(0.5, lambda: print('late')).start()\nprint('begun')"
    assert "begun\n" in await interpreter.printed(start)
    assert "late\n" in await interpreter.printed("time.sleep(1.5)")


async def test_threads_and_processes_keep_their_lines_whole(interpreter):
    code = """
import subprocess, threading
work = [threading.Thread(target=lambda n=n: [print(str(n) * 50 + '\\n', end='') for _ in range(50)]) for n in range(4)]
for each in work: each.start()
for each in work: each.join()
subprocess.run(['sh', '-c', 'echo child; echo error >&2'])
None
"""
    lines = (await interpreter.printed(code)).splitlines()
    assert len(lines) == 201 and all(len(set(line)) == 1 for line in lines if line != "child")


async def test_an_interrupt_is_heard_inside_compiled_code(interpreter):
    context = await interpreter.context()
    await interpreter.run("import re\nkept = 1", context=context)
    await failure(interpreter.run("re.match('(a+)+$', 'a' * 40 + 'b')", context=context, timeout=1))
    assert (await interpreter.run("kept", context=context, timeout=30)).text == "1"
    # This loop looks at nothing, so that its kernel has to be ended.
    await failure(interpreter.run("sum(range(10 ** 13))", context=context, timeout=1))
    assert (await interpreter.run("1 + 1", context=context, timeout=30)).text == "2"


async def test_many_executions_at_once_in_many_contexts_all_answer(interpreter):
    contexts = [await interpreter.context() for _ in range(4)]
    work = [interpreter.run(f"{number} * 2", context=contexts[number % 4]) for number in range(40)]
    assert [execution.text for execution in await asyncio.gather(*work)] == [str(number * 2) for number in range(40)]


async def test_functions_of_cells_can_be_pickled_and_read(interpreter):
    await interpreter.run("def twice(x):\n    return 2 * x")
    code = "import inspect, multiprocessing\nprint(inspect.getsource(twice))\nwith multiprocessing.Pool(2) as pool: print(pool.map(twice, [1, 2]))"
    assert await interpreter.printed(code) == "def twice(x):\n    return 2 * x\n\n[2, 4]\n"
