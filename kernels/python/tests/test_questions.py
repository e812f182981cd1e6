"""Questions about code that is not run."""

from __future__ import annotations

import platform
from typing import Any

import pytest
from kernel_client import KernelClient


def ask(kernel: KernelClient, kind: str, **fields: Any) -> dict[str, Any]:
    reply: dict[str, Any] = kernel.ask({"type": kind, **fields})
    return reply


@pytest.mark.parametrize(
    ("code", "cursor", "match", "start", "end"),
    [
        ("impo", None, "import", 0, 4),
        ("prepared_name = 1\nprepared", None, "prepared_name", 18, 26),
        ("x = defin + 1", 9, "defined_before", 4, 9),
        ("😀 = 1\n'a'.upp", None, "upper", 10, 13),
    ],
)
def test_a_completion_says_what_it_replaces(
    kernel: KernelClient, code: str, cursor: int | None, match: str, start: int, end: int
) -> None:
    kernel.run("defined_before = 1").ok()
    at = {} if cursor is None else {"cursor": cursor}
    reply = ask(kernel, "complete", code=code, **at)
    assert reply["status"] == "ok"
    assert any(found.lstrip(".") == match for found in reply["matches"]), reply
    assert reply["cursor_end"] == end and start - 1 <= reply["cursor_start"] <= start


def test_what_cannot_be_completed_has_no_matches(kernel: KernelClient) -> None:
    reply = ask(kernel, "complete", code="no_such_name_anywhere_")
    assert (reply["status"], reply["matches"]) == ("ok", [])


def test_a_name_is_explained_shortly_or_with_its_source(kernel: KernelClient) -> None:
    kernel.run("def doubled(number):\n    '''Twice as much.'''\n    return 2 * number").ok()
    short = ask(kernel, "inspect", code="doubled(3)", cursor=4)
    assert short["found"] is True
    assert "Twice as much." in short["data"]["text/plain"]
    assert "return 2 * number" not in short["data"]["text/plain"]
    long = ask(kernel, "inspect", code="doubled(3)", cursor=4, detail=1)
    assert "return 2 * number" in long["data"]["text/plain"]
    unknown = ask(kernel, "inspect", code="no_such_name")
    assert (unknown["status"], unknown["found"], unknown["data"]) == ("ok", False, {})


@pytest.mark.parametrize(
    ("code", "completeness", "indent"),
    [
        ("1 + 1", "complete", ""),
        ("def f():", "incomplete", "    "),
        ("if True:\n    if True:", "incomplete", "        "),
        ("x = (1,", "incomplete", ""),
        ("'''text", "incomplete", ""),
        ("1 +* 2", "invalid", ""),
        ("%time", "complete", ""),
        ("", "complete", ""),
    ],
)
def test_a_prompt_learns_whether_code_is_whole(
    kernel: KernelClient, code: str, completeness: str, indent: str
) -> None:
    reply = ask(kernel, "is_complete", code=code)
    assert (reply["status"], reply["completeness"], reply["indent"]) == ("ok", completeness, indent)


def test_a_kernel_says_what_it_speaks(kernel: KernelClient) -> None:
    reply = ask(kernel, "info")
    assert (reply["language"], reply["version"]) == ("python", platform.python_version())
    assert reply["file_extension"] == ".py" and reply["kernel"].startswith("skep_kernel ")


@pytest.mark.parametrize("fields", [{}, {"code": 1}, {"code": "x", "cursor": 2}, {"code": "x", "cursor": -1}])
def test_a_question_that_makes_no_sense_is_refused(kernel: KernelClient, fields: dict[str, Any]) -> None:
    for kind in ("complete", "inspect", "is_complete"):
        assert ask(kernel, kind, **fields)["status"] == "error"
    assert kernel.run("1").ok()


def test_code_of_the_user_that_is_asked_may_fail_and_may_print(kernel: KernelClient) -> None:
    kernel.run("class Odd:\n    def __repr__(self): raise RuntimeError('no')\nodd = Odd()").ok()
    assert ask(kernel, "inspect", code="odd")["status"] in ("ok", "error")
    assert ask(kernel, "complete", code="odd.")["status"] == "ok"
    assert kernel.run("1").ok()


def test_a_question_counts_as_no_execution_and_leaves_no_trace(kernel: KernelClient) -> None:
    kernel.run("kept = 1").ok()
    for kind in ("complete", "inspect", "is_complete", "info"):
        ask(kernel, kind, code="kept")
    outcome = kernel.run("len(In), kept")
    assert outcome.ok().value["text/plain"] == "(3, 1)"
    assert outcome.of_type("execute_input")[0]["execution_count"] == 2


def test_a_question_that_takes_for_ever_can_be_interrupted(kernel: KernelClient) -> None:
    kernel.run(
        "import time\nclass Slow:\n    def __dir__(self):\n        print('asked', flush=True)\n        time.sleep(60)\nslow = Slow()"
    ).ok()
    kernel.send({"type": "complete", "code": "slow."})
    kernel.wait_for_text("asked\n")
    kernel.interrupt()
    message = kernel.receive()
    while message["type"] != "reply":
        message = kernel.receive()
    assert message["status"] in ("ok", "error")
    assert kernel.run("1").ok()
