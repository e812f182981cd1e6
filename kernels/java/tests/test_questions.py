"""Questions about code that is not run."""

from __future__ import annotations

from typing import Any

from .kernel_case import KernelCase


class Questions(KernelCase):
    def ask(self, kind: str, **fields: Any) -> dict[str, Any]:
        reply = self.kernel.ask({"type": kind, **fields})
        self.assertEqual(reply["status"], "ok", reply)
        return reply

    def test_names_and_members_are_completed(self) -> None:
        self.kernel.run("int reapedAcres = 7;\nString reapedBy = \"ox\";").ok()
        self.assertEqual(sorted(self.ask("complete", code="reaped")["matches"]), ["reapedAcres", "reapedBy"])
        self.assertIn("substring(", self.ask("complete", code="reapedBy.subs")["matches"])
        self.assertIn("sqrt(", self.ask("complete", code="Math.sq + 1", cursor=7)["matches"])
        self.assertEqual(self.ask("complete", code="noSuchNameAnywhere")["matches"], [])

    def test_what_is_replaced_is_told_in_characters_also_behind_other_snippets(self) -> None:
        reply = self.ask("complete", code='var s = "🌾"; int a = 1; reapedB')
        self.assertEqual((reply["cursor_start"], reply["cursor_end"]), (24, 31))

    def test_a_name_is_explained(self) -> None:
        self.kernel.run("int reap(String field, double width) { return 1; }\nint acres = 3;").ok()
        plain = lambda code, **fields: self.ask("inspect", code=code, **fields)["data"]["text/plain"]
        self.assertIn("reap(String field, double width)", plain("reap(", detail=1))
        self.assertIn("reap(String field, double width)", plain("reap", cursor=2))
        self.assertIn("acres", plain("acres"))
        self.assertFalse(self.ask("inspect", code="noSuchName")["found"])
        self.assertFalse(self.ask("inspect", code="")["found"])

    def test_a_prompt_knows_whether_to_go_on(self) -> None:
        for code, state in {
            "1 + 1": ("complete", ""),
            "": ("complete", ""),
            "int x = 1; int y = 2": ("complete", ""),
            "if (true) {": ("incomplete", "    "),
            "class A {\n    void f() {": ("incomplete", "        "),
            "int x = 1; f(": ("incomplete", "    "),
            "x +": ("incomplete", ""),
            "f());": ("invalid", ""),
        }.items():
            with self.subTest(code):
                reply = self.ask("is_complete", code=code)
                self.assertEqual((reply["completeness"], reply["indent"]), state)

    def test_the_language_and_the_kernel_are_told(self) -> None:
        reply = self.ask("info")
        self.assertEqual((reply["language"], reply["file_extension"]), ("java", ".java"))
        self.assertEqual(reply["version"], self.value("Runtime.version().toString()"))

    def test_a_question_leaves_no_trace_and_one_that_makes_no_sense_is_refused(self) -> None:
        before = self.kernel.run("1").ok().reply["execution_count"]
        self.ask("complete", code="Sys")
        for wrong in ({"type": "complete"}, {"type": "complete", "code": "a", "cursor": 2}, {"type": "inspect", "code": "a", "detail": 2}, {"type": "is_complete", "code": 1}):
            with self.subTest(wrong):
                self.assertEqual(self.kernel.ask(wrong)["status"], "error")
        self.assertEqual(self.kernel.run("1").ok().reply["execution_count"], before + 1)
