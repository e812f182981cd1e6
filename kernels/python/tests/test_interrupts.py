"""SIGINT, wherever it hits."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from kernel_client import KernelClient, wait_until


@pytest.mark.parametrize(
    "body",
    [
        "import time; time.sleep(60)",
        "while True: pass",
        "import threading; threading.Event().wait()",
        "import subprocess; subprocess.run(['sleep', '60'])",
        "import asyncio; await asyncio.sleep(60)",
        "import asyncio, time\nasync def f(): time.sleep(60)\nawait f()",
        "import select; select.select([], [], [], 60)",
        "try:\n    while True: pass\nfinally:\n    cleaned = True",
        "import re; re.match('(a+)+$', 'a' * 60 + 'b')",
    ],
)
def test_an_interrupt_ends_the_cell_and_keeps_the_state(kernel: KernelClient, body: str) -> None:
    kernel.run("kept = 'state'").ok()
    kernel.start(f"print('started')\n{body}")
    kernel.wait_for_text("started\n")
    kernel.interrupt()
    outcome = kernel.finish()
    assert (outcome.error["ename"], outcome.error["kind"]) == ("KeyboardInterrupt", "interrupted")
    assert outcome.error["evalue"] == ""
    assert "skep_kernel" not in "".join(outcome.error["traceback"])
    assert kernel.run("kept").ok().value["text/plain"] == "'state'"


def test_an_interrupt_that_hits_another_callback_ends_the_awaiting_cell_too(kernel: KernelClient) -> None:
    code = (
        "import asyncio, time\n"
        "def block(): print('blocking'); time.sleep(60)\n"
        "asyncio.get_running_loop().call_later(0.01, block)\n"
        "await asyncio.sleep(60)"
    )
    kernel.start(code)
    kernel.wait_for_text("blocking\n")
    kernel.interrupt()
    assert kernel.finish().error["kind"] == "interrupted"
    assert kernel.run("1").ok()


def test_an_interrupt_reaches_a_shell_command(kernel: KernelClient) -> None:
    kernel.start("!echo started; sleep 60")
    kernel.wait_for_text("started")
    kernel.interrupt()
    # IPython passes the interrupt to the command and goes on, as under ipykernel.
    kernel.finish().ok()
    assert kernel.run("_exit_code").value["text/plain"] in ("-2", "130")


def test_an_interrupt_between_cells_is_ignored(kernel: KernelClient) -> None:
    for _ in range(20):
        kernel.interrupt()
        kernel.run("1")
    assert kernel.run("1").ok().value["text/plain"] == "1"


def test_interrupts_at_any_moment_leave_a_kernel_that_answers(kernel: KernelClient) -> None:
    """Half a frame, a lost reply or a dead loop would end this test by its deadline."""
    for number in range(150):
        kernel.start("for i in range(20): print('x' * 2000)\nimport os; os.write(1, b'y' * 1000)\n[1, 2]")
        if number % 3:
            kernel.receive()
        kernel.interrupt()
        outcome = kernel.finish()
        assert outcome.reply["status"] in ("ok", "error")
    assert kernel.run("'alive'").ok().value["text/plain"] == "'alive'"


def test_an_interrupt_reaches_a_writer_that_waits_for_its_reader(kernel: KernelClient) -> None:
    kernel.start("import itertools\nfor i in itertools.count(): print(i)")
    kernel.wait_for_text("1000\n")
    kernel.interrupt()
    outcome = kernel.finish()
    assert outcome.error["ename"] == "KeyboardInterrupt"
    numbers = [int(line) for line in outcome.text().split("\n")[1:] if line.isdigit()]
    assert numbers == sorted(set(numbers)), "an interrupted print was repeated or torn"


def test_user_code_may_catch_the_interrupt(kernel: KernelClient) -> None:
    kernel.start("import time\ntry:\n    print('go'); time.sleep(60)\nexcept KeyboardInterrupt:\n    print('caught')")
    kernel.wait_for_text("go\n")
    kernel.interrupt()
    assert kernel.finish().ok().text() == "caught\n"


def test_a_handler_installed_by_a_cell_lasts_for_that_cell(kernel: KernelClient) -> None:
    kernel.run("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN);").ok()
    kernel.start("import time; print('go'); time.sleep(60)")
    kernel.wait_for_text("go\n")
    kernel.interrupt()
    assert kernel.finish().error["kind"] == "interrupted"


def test_a_users_alarm_that_raises_while_printing_does_not_tear_messages(kernel: KernelClient) -> None:
    code = (
        "import signal\n"
        "def on_alarm(*_): raise TimeoutError('alarm')\n"
        "signal.signal(signal.SIGALRM, on_alarm)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.05)\n"
        "while True: print('z' * 5000)"
    )
    for _ in range(5):
        assert kernel.run(code).error["ename"] == "TimeoutError"


def test_a_handler_that_raises_again_and_again_cannot_stop_the_kernel(kernel: KernelClient) -> None:
    """It raises in cells, between them, and in the kernel's own code at the end of a cell."""
    kernel.run(
        "import signal\n"
        "def on_alarm(*_): raise TimeoutError('alarm')\n"
        "signal.signal(signal.SIGALRM, on_alarm)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.002, 0.0015)"
    )
    for _ in range(300):
        assert kernel.run("print('x'); [1]").reply["status"] in ("ok", "error")
    while kernel.run("signal.setitimer(signal.ITIMER_REAL, 0)").reply["status"] != "ok":
        pass
    assert kernel.run("'alive'").ok().value["text/plain"] == "'alive'"


def test_an_alarm_that_rings_after_its_cell_is_told_and_fails_no_other(kernel: KernelClient) -> None:
    kernel.run(
        "import signal\n"
        "def on_alarm(*_): raise TimeoutError('too late')\n"
        "signal.signal(signal.SIGALRM, on_alarm)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.2)"
    ).ok()
    pending = f"{1 << (signal.SIGALRM - 1):016x}"
    status = Path(f"/proc/{kernel.pid}/status")
    wait_until(lambda: f"ShdPnd:\t{pending}" in status.read_text(), "the alarm has rung")
    outcome = kernel.run("'next'").ok()
    assert outcome.value["text/plain"] == "'next'"
    assert "TimeoutError: too late" in outcome.text("stderr")


def test_a_signal_handler_may_print_in_the_middle_of_a_print(kernel: KernelClient) -> None:
    code = (
        "import signal, time\n"
        "def on_alarm(*_): print('tick')\n"
        "signal.signal(signal.SIGALRM, on_alarm)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)\n"
        "for i in range(3000): print('z' * 3000)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0)"
    )
    text = kernel.run(code).ok().text()
    assert text.count("z") == 3000 * 3000
    assert "tick" in text
