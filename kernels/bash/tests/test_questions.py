"""Questions about code that is not run."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from .kernel_case import KernelCase


class Questions(KernelCase):
    def ask(self, kind: str, **fields: Any) -> dict[str, Any]:
        reply = self.kernel.ask({"type": kind, **fields})
        self.assertEqual(reply["status"], "ok", reply)
        return reply

    def matches(self, code: str, **fields: Any) -> list[str]:
        found: list[str] = self.ask("complete", code=code, **fields)["matches"]
        return found

    def test_commands_functions_and_variables_are_completed(self) -> None:
        self.kernel.run("reap_barley() { echo reaping; }; REAP_FIELD='two words'; shopt -s expand_aliases; alias reap_rye=true").ok()
        self.assertEqual(self.matches("reap_"), ["reap_barley", "reap_rye"])
        self.assertEqual(self.matches("true && reap_b"), ["reap_barley"])
        self.assertEqual(self.matches("x=$(reap_b"), ["reap_barley"])
        self.assertEqual(self.matches("echo $REAP_"), ["REAP_FIELD"])
        self.assertEqual(self.matches('echo "${REAP_'), ["REAP_FIELD"])
        self.assertIn("while", self.matches("whil"))
        self.assertEqual(self.matches("no_such_command_anywhere"), [])

    def test_files_are_completed_where_no_command_begins(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for name in ("barley", "barn owl", "rye"):
                open(os.path.join(folder, name), "w").close()
            self.kernel.run(f"cd {folder}").ok()
            self.assertEqual(self.matches("cat ba"), ["barley", "barn owl"])
            self.assertEqual(self.matches(f"{folder}/r"), [f"{folder}/rye"])

    def test_what_is_replaced_is_told_in_characters(self) -> None:
        reply = self.ask("complete", code="echo '🌾'; whil; true", cursor=14)
        self.assertEqual((reply["cursor_start"], reply["cursor_end"]), (10, 14))
        self.assertIn("while", reply["matches"])

    def test_a_name_is_explained(self) -> None:
        self.kernel.run("sow() { echo seed; }; declare -i ACRES=7").ok()
        plain = lambda code, **fields: self.ask("inspect", code=code, **fields)["data"]["text/plain"]
        self.assertEqual(plain("sow", cursor=1), "sow is a function")
        self.assertIn("echo seed", plain("sow", detail=1))
        self.assertEqual(plain("echo $ACRES"), 'declare -i ACRES="7"')
        self.assertIn("Change the shell working directory", plain("cd"))
        self.assertIn("/", plain("ls"))
        self.assertFalse(self.ask("inspect", code="no_such_command")["found"])
        self.assertFalse(self.ask("inspect", code="")["found"])

    def test_a_prompt_knows_whether_to_go_on(self) -> None:
        for code, state in {
            "echo 1": "complete",
            "": "complete",
            "for x in 1 2; do": "incomplete",
            "if true; then\n  echo": "incomplete",
            "echo 'a": "incomplete",
            "cat <<END\nline": "incomplete",
            "cat <<END\nline\nEND": "complete",
            "echo a \\": "incomplete",
            "echo a \\\\": "complete",
            "echo a |": "incomplete",
            "f() {": "incomplete",
            "done": "invalid",
            "echo )": "invalid",
        }.items():
            with self.subTest(code):
                self.assertEqual(self.ask("is_complete", code=code)["completeness"], state)

    def test_the_language_and_the_kernel_are_told(self) -> None:
        reply = self.ask("info")
        self.assertEqual((reply["language"], reply["file_extension"]), ("bash", ".sh"))
        self.assertEqual(reply["version"] + "\n", self.output("echo $BASH_VERSION"))

    def test_a_question_leaves_no_trace(self) -> None:
        before = self.kernel.run("true").ok().reply["execution_count"]
        self.kernel.run("false")
        for kind, fields in {"complete": {"code": "ec"}, "inspect": {"code": "echo"}, "is_complete": {"code": "("}, "info": {}}.items():
            self.ask(kind, **fields)
        outcome = self.kernel.run("set -o | grep -c on; jobs; echo $#").ok()
        self.assertEqual(outcome.reply["execution_count"], before + 2)
        self.assertEqual(outcome.text("stderr"), "")

    def test_what_makes_no_sense_is_refused(self) -> None:
        for wrong in ({"type": "complete"}, {"type": "complete", "code": "a", "cursor": 2}, {"type": "inspect", "code": "a", "detail": 2}, {"type": "is_complete", "code": 1}, {"type": "complete", "code": "\ud800"}):
            with self.subTest(wrong):
                self.assertEqual(self.kernel.ask(wrong)["status"], "error")
        self.assertEqual(self.output("echo on"), "on\n")
