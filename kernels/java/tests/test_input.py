"""Cells that read `System.in`."""

from __future__ import annotations

from kernel_client import Message, Outcome

from .kernel_case import KernelCase


class Input(KernelCase):
    def answered(self, code: str, *answers: str | None) -> Outcome:
        """Run a cell that may ask, and give it these answers."""
        left = list(answers)

        def answer(message: Message) -> None:
            if message["type"] == "input_request":
                self.reply(message, left.pop(0))

        self.kernel.start(code, allow_stdin=True)
        outcome = self.kernel.finish(answer)
        self.assertEqual(left, [], outcome)
        return outcome

    def reply(self, request: Message, value: str | None) -> None:
        self.kernel.send({"type": "input_reply", "parent": request["id"], "value": value})

    def wait_for_question(self) -> Message:
        while (message := self.kernel.receive())["type"] != "input_request":
            pass
        return message

    def test_a_scanner_asks_the_peer_for_each_line(self) -> None:
        code = """
var scanner = new Scanner(System.in);
System.out.print("Name? ");
var name = scanner.nextLine();
var age = scanner.nextInt();
System.out.println(name + " " + age);
"""
        outcome = self.answered(code, "Zoë 🐝", "41").ok()
        self.assertEqual(outcome.text(), "Name? Zoë 🐝 41\n")
        kinds = [message["type"] for message in outcome]
        self.assertLess(kinds.index("stream"), kinds.index("input_request"))

    def test_lines_are_read_as_the_language_reads_them(self) -> None:
        self.assertEqual(self.answered('IO.println(IO.readln("Name? "))', "Ada").ok().text(), "Name? Ada\n")
        code = "new BufferedReader(new InputStreamReader(System.in)).readLine()"
        self.assertEqual(self.answered(code, "line").ok().value["text/plain"], "line")

    def test_the_end_of_input_is_the_end(self) -> None:
        code = "new String(System.in.readAllBytes())"
        self.assertEqual(self.answered(code, "a", "b", None).ok().value["text/plain"], "a\nb\n")

    def test_a_cell_whose_caller_answers_nothing_finds_its_input_empty(self) -> None:
        self.answered("System.in.read()", "a").ok()
        for options in ({}, {"allow_stdin": False}):
            outcome = self.kernel.run("System.in.read()", **options).ok()
            self.assertEqual(outcome.value["text/plain"], "-1")
            self.assertEqual(outcome.of_type("input_request"), [])

    def test_an_interrupt_ends_the_wait_and_a_late_answer_harms_nobody(self) -> None:
        for code in ("new Scanner(System.in).nextLine()", "System.in.read()"):
            self.kernel.start(code, allow_stdin=True)
            question = self.wait_for_question()
            self.kernel.interrupt()
            self.assertEqual(self.kernel.finish().error["kind"], "interrupted")
            self.reply(question, "too late")
            self.assertEqual(self.kernel.run("1 + 1").ok().value["text/plain"], "2")
            code = "new BufferedReader(new InputStreamReader(System.in)).readLine()"
            self.assertEqual(self.answered(code, "in time").ok().value["text/plain"], "in time")
