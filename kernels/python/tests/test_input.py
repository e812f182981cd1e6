"""Cells that ask for input."""

from __future__ import annotations

from typing import Any

import pytest
from kernel_client import KernelClient, Message, Outcome


def answered(kernel: KernelClient, code: str, *answers: str | None) -> tuple[Outcome, list[Message]]:
    """Run a cell that may ask, and give it these answers."""
    left, asked = list(answers), []

    def answer(message: Message) -> None:
        if message["type"] == "input_request":
            asked.append(message)
            reply(kernel, message, left.pop(0))

    kernel.start(code, allow_stdin=True)
    return kernel.finish(answer), asked


def reply(kernel: KernelClient, request: Message, value: Any) -> None:
    kernel.send({"type": "input_reply", "parent": request["id"], "value": value})


def wait_for_question(kernel: KernelClient) -> Message:
    while (message := kernel.receive())["type"] != "input_request":
        pass
    return message


def test_input_asks_the_peer_and_takes_its_answer(kernel: KernelClient) -> None:
    code = "print('before', end='')\nname = input('Name? ')\nage = int(input())\nprint(name, age)"
    outcome, asked = answered(kernel, code, "Zoë 🐝", "41")
    assert outcome.ok().text() == "beforeZoë 🐝 41\n"
    assert [(message["prompt"], message["password"]) for message in asked] == [("Name? ", False), ("", False)]
    assert [message["parent"] for message in asked] == [outcome[0]["parent"]] * 2
    kinds = [message["type"] for message in outcome]
    assert kinds.index("stream") < kinds.index("input_request"), "what was printed comes before the question"


def test_a_password_is_asked_for_as_such(kernel: KernelClient) -> None:
    outcome, asked = answered(kernel, "import getpass\nlen(getpass.getpass())", "hunter2")
    assert outcome.ok().value["text/plain"] == "7"
    assert [(message["prompt"], message["password"]) for message in asked] == [("Password: ", True)]


def test_the_end_of_input_is_an_exception_or_an_empty_line(kernel: KernelClient) -> None:
    outcome, _ = answered(kernel, "input()", None)
    assert outcome.error["ename"] == "EOFError"
    outcome, _ = answered(kernel, "import sys\n[*sys.stdin]", "a", "b", None)
    assert outcome.ok().value["text/plain"] == "['a\\n', 'b\\n']"
    outcome, _ = answered(kernel, "sys.stdin.readline(), sys.stdin.read(1), sys.stdin.readline()", "ab", "cd")
    assert outcome.ok().value["text/plain"] == "('ab\\n', 'c', 'd\\n')"


@pytest.mark.parametrize("options", [{}, {"allow_stdin": False}])
def test_a_cell_whose_caller_answers_nothing_is_refused_at_once(kernel: KernelClient, options: dict[str, bool]) -> None:
    for code in ("input('x')", "import getpass; getpass.getpass()"):
        outcome = kernel.run(code, **options)
        assert outcome.error["ename"] == "StdinNotImplementedError"
        assert not outcome.of_type("input_request")
    assert kernel.run("import sys; sys.stdin.read()", **options).ok().value["text/plain"] == "''"


def test_leave_to_ask_ends_with_the_cell(kernel: KernelClient) -> None:
    answered(kernel, "input()", "a")
    assert kernel.run("input()").error["ename"] == "StdinNotImplementedError"


def test_an_interrupt_ends_the_wait_and_a_late_answer_harms_nobody(kernel: KernelClient) -> None:
    kernel.start("input('never ')", allow_stdin=True)
    question = wait_for_question(kernel)
    kernel.interrupt()
    error = kernel.finish().error
    assert (error["kind"], error["ename"]) == ("interrupted", "KeyboardInterrupt")
    reply(kernel, question, "too late")
    outcome, _ = answered(kernel, "input('again ')", "in time")
    assert outcome.ok().value["text/plain"] == "'in time'"


def test_requests_that_come_while_a_cell_asks_wait_for_their_turn(kernel: KernelClient) -> None:
    kernel.start("input()", allow_stdin=True)
    question = wait_for_question(kernel)
    kernel.send({"type": "environment", "layer": "context", "variables": {"KEPT": "yes"}})
    kernel.send({"type": "input_reply", "parent": "another", "value": "not this"})
    reply(kernel, question, "this")
    assert kernel.finish().ok().value["text/plain"] == "'this'"
    assert kernel.receive()["type"] == "reply", "to what waited"
    assert kernel.run("import os; os.environ['KEPT']").ok().value["text/plain"] == "'yes'"


def test_a_cell_that_awaits_may_ask_and_a_thread_may_not(kernel: KernelClient) -> None:
    code = "import asyncio\nawait asyncio.sleep(0)\ninput('now? ')"
    outcome, _ = answered(kernel, code, "yes")
    assert outcome.ok().value["text/plain"] == "'yes'"
    outcome, asked = answered(kernel, "await asyncio.to_thread(input)")
    assert outcome.error["ename"] == "StdinNotImplementedError"
    assert not asked


def test_a_child_process_cannot_ask(kernel: KernelClient) -> None:
    code = """
import os
if not (child := os.fork()):
    try:
        input()
    except BaseException as error:
        os._exit(3 if type(error).__name__ == "StdinNotImplementedError" else 4)
os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""
    outcome, asked = answered(kernel, code)
    assert outcome.ok().value["text/plain"] == "3"
    assert not asked
