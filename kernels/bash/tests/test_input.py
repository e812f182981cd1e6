"""`read` in a cell that may ask for input."""

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

    def test_read_asks_the_peer_and_takes_its_answer(self) -> None:
        outcome = self.answered("printf before; read -rp 'Name? ' name; read a b; echo \"$name|$a|$b\"", "Zoë \\ 🐝", "1 2 3").ok()
        self.assertEqual(outcome.text(), "beforeZoë \\ 🐝|1|2 3\n")
        asked = outcome.of_type("input_request")
        self.assertEqual([(message["prompt"], message["password"]) for message in asked], [("Name? ", False), ("", False)])
        kinds = [message["type"] for message in outcome]
        self.assertLess(kinds.index("stream"), kinds.index("input_request"))
        self.assertEqual(self.output("echo $name $b"), "Zoë \\ 🐝 2 3\n", "the variables stay")

    def test_a_password_is_asked_for_as_such(self) -> None:
        outcome = self.answered("read -s -p 'Password: ' word; echo ${#word}", "hunter2").ok()
        (asked,) = outcome.of_type("input_request")
        self.assertEqual((asked["prompt"], asked["password"], outcome.text()), ("Password: ", True, "7\n"))

    def test_every_form_of_read_works(self) -> None:
        for code, answers, printed in (
            ("read; echo \"$REPLY\"", ["a  b"], "a  b\n"),
            ("read -ra words; echo ${words[1]}", ["a b"], "b\n"),
            ("read -d : x; echo $x", ["a"], "a\n"),
            ("read -n 2 x; echo $x", ["abc"], "ab\n"),
            ("read -N 9 x; printf %s \"$x\"", ["abc"], "abc\n"),
            ("while read line; do echo \"[$line]\"; done", ["a", "b", None], "[a]\n[b]\n"),
            ("(read x; echo $x); echo $(read y; echo $y)", ["a", "b"], "a\nb\n"),
            ("f() { local x; read x; echo $x; }; f", ["a"], "a\n"),
        ):
            with self.subTest(code):
                self.assertEqual(self.answered(code, *answers).text(), printed)

    def test_what_is_redirected_is_read_as_ever(self) -> None:
        for code, printed in (
            ("read x <<< here; echo $x", "here\n"),
            ("echo there | while read x; do echo $x; done", "there\n"),
            ("while read x; do echo $x; done < <(echo a; echo b)", "a\nb\n"),
            ("exec 3<<< three; read -u 3 x; echo $x", "three\n"),
            ("read x </dev/null || echo none", "none\n"),
            ("read -t 0 && echo some || echo none", "none\n"),
            ("cat; echo end", "end\n"),
        ):
            with self.subTest(code):
                self.assertEqual(self.answered(code).ok().text(), printed)

    def test_the_end_of_input_is_a_failure_of_read(self) -> None:
        self.assertEqual(self.answered("read x || echo status $?", None).ok().text(), "status 1\n")

    def test_a_cell_whose_caller_answers_nothing_finds_its_input_empty(self) -> None:
        self.answered("read x", "a").ok()
        for options in ({}, {"allow_stdin": False}):
            outcome = self.kernel.run("read x || echo none; type -t read", **options).ok()
            self.assertEqual(outcome.text(), "none\nbuiltin\n")
            self.assertEqual(outcome.of_type("input_request"), [])

    def test_a_function_of_the_users_own_stays(self) -> None:
        self.kernel.run("read() { echo mine; }").ok()
        self.assertEqual(self.answered("read x").ok().text(), "mine\n")
        self.assertEqual(self.output("read x; unset -f read"), "mine\n")

    def test_an_interrupt_ends_the_wait_and_a_late_answer_harms_nobody(self) -> None:
        self.kernel.start("read x; echo no", allow_stdin=True)
        question = self.wait_for_question()
        self.kernel.interrupt()
        error = self.kernel.finish().error
        self.assertEqual((error["kind"], error["ename"]), ("interrupted", "KeyboardInterrupt"))
        self.reply(question, "too late")
        self.assertEqual(self.answered("read x; echo $x", "in time").ok().text(), "in time\n")

    def test_a_read_that_gives_up_is_not_answered_any_more(self) -> None:
        self.kernel.start("read -t 0.05 x; echo $? >&2; read y; echo $y", allow_stdin=True)
        first = self.wait_for_question()
        second = self.wait_for_question()
        self.reply(first, "too late")
        self.reply(second, "in time")
        self.assertEqual(self.kernel.finish().ok().text(), "in time\n")

    def test_requests_that_come_while_a_cell_asks_wait_for_their_turn(self) -> None:
        self.kernel.start("read x; echo $x", allow_stdin=True)
        question = self.wait_for_question()
        self.kernel.send({"type": "environment", "layer": "context", "variables": {"KEPT": "yes"}})
        self.reply(question, "this")
        self.assertEqual(self.kernel.finish().ok().text(), "this\n")
        self.assertEqual(self.kernel.receive()["type"], "reply", "to what waited")
        self.assertEqual(self.output("echo $KEPT"), "yes\n")
