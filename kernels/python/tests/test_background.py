"""What goes on between cells: threads, tasks, child processes, and the number of our own threads."""

from __future__ import annotations

from pathlib import Path

from kernel_client import KernelClient, wait_until


def next_text(kernel: KernelClient) -> tuple[str | None, str]:
    message = kernel.receive()
    assert message["type"] == "stream", message
    return message["parent"], message["text"]


def test_a_thread_that_prints_after_its_cell_is_heard_and_belongs_to_no_execution(
    kernel: KernelClient, tmp_path: Path
) -> None:
    signal = tmp_path / "go"
    kernel.run(
        "import os, threading, time\n"
        "def speak():\n"
        f"    while not os.path.exists({str(signal)!r}): time.sleep(0.005)\n"
        "    print('late')\n"
        "threading.Thread(target=speak).start()"
    ).ok()
    signal.touch()
    assert next_text(kernel) == (None, "late\n")


def test_a_thread_that_prints_during_a_later_cell_is_heard_in_that_cell(kernel: KernelClient) -> None:
    kernel.run(
        "import threading\ngo = threading.Event()\nthread = threading.Thread(target=lambda: (go.wait(), print('late')))\nthread.start()"
    )
    identifier = kernel.start("go.set(); thread.join()")
    (stream,) = kernel.finish().of_type("stream")
    assert (stream["parent"], stream["text"]) == (identifier, "late\n")


def test_a_child_process_that_writes_after_its_cell_is_heard(kernel: KernelClient, tmp_path: Path) -> None:
    signal = tmp_path / "go"
    command = f"while ! [ -e {signal} ]; do sleep 0.01; done; printf late"
    kernel.run(f"import subprocess; child = subprocess.Popen({command!r}, shell=True)").ok()
    signal.touch()
    assert next_text(kernel) == (None, "late")
    assert kernel.run("child.wait()").ok().value["text/plain"] == "0"


def test_a_task_goes_on_between_cells(kernel: KernelClient) -> None:
    kernel.run(
        "import asyncio\n"
        "async def count():\n"
        "    for i in range(3):\n"
        "        await asyncio.sleep(0.01)\n"
        "        print(i)\n"
        "    return 'counted'\n"
        "task = asyncio.create_task(count())"
    ).ok()
    assert [next_text(kernel)[1] for _ in range(3)] == ["0\n", "1\n", "2\n"]
    assert kernel.run("await task").value["text/plain"] == "'counted'"


def test_an_unfinished_line_of_a_task_arrives_between_cells(kernel: KernelClient) -> None:
    kernel.run("import asyncio; asyncio.get_running_loop().call_later(0.3, lambda: print('dot', end=''))").ok()
    assert next_text(kernel) == (None, "dot")


def test_a_cell_sees_only_the_users_tasks(kernel: KernelClient) -> None:
    kernel.run("import asyncio\ntask = asyncio.create_task(asyncio.sleep(0.01, 'x'))").ok()
    code = "await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))"
    assert kernel.run(code).ok().value["text/plain"] == "['x']"


def test_stopping_or_closing_the_loop_does_not_end_the_kernel(kernel: KernelClient) -> None:
    kernel.run("import asyncio; loop = asyncio.get_running_loop(); loop.stop()").ok()
    assert kernel.run("1").ok()
    kernel.run("loop.call_soon(loop.stop); loop.call_soon(lambda: None)").ok()
    assert kernel.run("await asyncio.sleep(0, 2)").ok().value["text/plain"] == "2"


def test_an_exception_in_a_background_task_does_not_end_the_kernel(kernel: KernelClient) -> None:
    kernel.run(
        "import asyncio\n"
        "async def leave():\n    raise SystemExit(1)\n"
        "async def fail():\n    raise ValueError('nobody awaits me')\n"
        "tasks = [asyncio.create_task(leave()), asyncio.create_task(fail())]"
    ).ok()
    wait_until(lambda: kernel.run("all(task.done() for task in tasks)").value["text/plain"] == "True", "the tasks end")
    assert kernel.run("1").ok()


def test_a_task_that_blocks_the_loop_can_be_interrupted(kernel: KernelClient) -> None:
    kernel.run(
        "import asyncio, time\nasyncio.get_running_loop().call_later(0.01, lambda: (print('blocking'), time.sleep(60)))"
    ).ok()
    kernel.wait_for_text("blocking")
    kernel.interrupt()
    assert kernel.run("1").ok()


def test_soon_after_a_cell_there_is_one_thread(kernel: KernelClient) -> None:
    for code in ("1", "print(1)", "import asyncio; await asyncio.sleep(0)", "1/0", "!true"):
        kernel.run(code)
        wait_until(lambda: kernel.thread_count() == 1, "the thread of the cell is gone")
    kernel.start("import threading, time; print(threading.active_count()); time.sleep(0.2)")
    assert kernel.wait_for_text("\n") == "1\n"
    assert kernel.thread_count() == 2
    kernel.finish()


def test_a_forked_child_shares_the_output_and_ends_with_its_cell(kernel: KernelClient) -> None:
    outcome = kernel.run(
        "import os\npid = os.fork()\nif pid:\n    os.waitpid(pid, 0)\nelse:\n    print('child'); display('shown')\nprint('end')"
    ).ok()
    assert outcome.text() == "child\n'shown'\nend\nend\n"
    assert outcome.displays == []
    assert kernel.run("os.getpid()").value["text/plain"] == str(kernel.pid)


def test_multiprocessing_works_and_its_output_arrives(kernel: KernelClient) -> None:
    code = (
        "import multiprocessing\n"
        "def square(n):\n    print('squaring', n, flush=True)\n    return n * n\n"
        "with multiprocessing.get_context('fork').Pool(2) as pool: squares = pool.map(square, [1, 2, 3])\n"
        "squares"
    )
    outcome = kernel.run(code).ok()
    assert outcome.value["text/plain"] == "[1, 4, 9]"
    assert sorted(outcome.text().splitlines()) == ["squaring 1", "squaring 2", "squaring 3"]


def test_threads_printing_at_once_keep_their_lines_whole(kernel: KernelClient) -> None:
    code = (
        "import sys, threading\n"
        "def chat(name):\n    for i in range(300): sys.stdout.write(f'{name} {i}\\n')\n"
        "threads = [threading.Thread(target=chat, args=(name,)) for name in 'abcd']\n"
        "[thread.start() for thread in threads]; [thread.join() for thread in threads];"
    )
    lines = kernel.run(code).ok().text().splitlines()
    assert sorted(lines) == sorted(f"{name} {i}" for name in "abcd" for i in range(300))
