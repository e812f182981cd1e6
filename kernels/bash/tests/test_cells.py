"""What cells leave behind, print and answer."""

from __future__ import annotations

from pathlib import Path

from kernel_client import wait_until

from .kernel_case import KernelCase


class Cells(KernelCase):
    def test_variables_functions_aliases_options_and_the_folder_stay(self) -> None:
        self.kernel.run("x=5; arr=(a 'b c'); f() { echo f:$1; }; alias greet='echo hello'; cd /usr; shopt -s extglob; set -- p q").ok()
        self.assertEqual(
            self.output('echo $x "${arr[1]}" $2 $PWD; f 1; greet you; [[ aab == +(a|b) ]] && echo extended'),
            "5 b c q /usr\nf:1\nhello you\nextended\n",
        )

    def test_streams_are_apart_and_whole(self) -> None:
        outcome = self.kernel.run("echo out; echo err >&2; printf 'no newline'").ok()
        self.assertEqual(outcome.text(), "out\nno newline")
        self.assertEqual(outcome.text("stderr"), "err\n")

    def test_an_execution_has_its_messages_in_order(self) -> None:
        kinds = [message["type"] for message in self.kernel.run("echo hi")]
        self.assertEqual(kinds, ["status", "execute_input", "stream", "reply", "status"])

    def test_output_comes_while_the_cell_runs(self) -> None:
        self.kernel.start("echo early; sleep 1000")
        self.kernel.wait_for_text("early\n")
        self.kernel.interrupt()
        self.kernel.finish()

    def test_the_status_of_the_last_command_is_the_error(self) -> None:
        error = self.kernel.run("echo before; (exit 7)").error
        self.assertEqual((error["ename"], error["evalue"], error["kind"], error["traceback"]), ("", "7", "runtime", []))
        self.kernel.run("false; true").ok()
        self.assertEqual(self.kernel.run("no-such-command").error["evalue"], "127")
        self.assertEqual(self.kernel.run("return 4; echo not reached").error["evalue"], "4")
        self.assertEqual(self.kernel.run("bash -c 'kill -SEGV $$'").error["evalue"], "139")

    def test_a_cell_counts_even_if_it_fails(self) -> None:
        counts = [self.kernel.run(code).of_type("execute_input")[0]["execution_count"] for code in ("true", "false", "'", "")]
        self.assertEqual(counts, [1, 2, 3, 4])

    def test_what_cannot_be_parsed_is_a_syntax_error_and_nothing_hangs(self) -> None:
        for code in ("echo 'abc", 'echo "abc', "if true; then", "echo $(", "for x in", "echo a; )", "f() {", "echo `", "echo ${x"):
            with self.subTest(code):
                outcome = self.kernel.run(code)
                self.assertEqual((outcome.error["kind"], outcome.error["evalue"]), ("syntax", "2"), outcome)
                self.assertRegex(outcome.text("stderr"), "line 1|line 2")
        self.assertEqual(self.output("echo alive"), "alive\n")

    def test_status_two_alone_is_no_syntax_error(self) -> None:
        self.assertEqual(self.kernel.run("ls /nonexistent").error["kind"], "runtime")
        # Only the options of the living shell say how this is to be read.
        self.kernel.run("shopt -s extglob").ok()
        self.assertEqual(self.kernel.run("ls /nonexistent+(a|b)").error["kind"], "runtime")

    def test_lines_before_a_syntax_error_run_and_its_line_is_named(self) -> None:
        outcome = self.kernel.run("echo one\necho two\nfi\n")
        self.assertEqual(outcome.text(), "one\ntwo\n")
        self.assertIn("line 3:", outcome.text("stderr"))

    def test_here_documents(self) -> None:
        code = "cat <<'END'\n$x 'q' \"d\" \\ `b` 😀\nEND\ncat <<-END\n\tin $((1+1))\n\tEND\n"
        self.assertEqual(self.output(code), "$x 'q' \"d\" \\ `b` 😀\nin 2\n")
        outcome = self.kernel.run("cat <<END\nunfinished")
        self.assertEqual(outcome.text(), "unfinished\n")
        self.assertIn("delimited by end-of-file", outcome.text("stderr"))

    def test_a_large_cell(self) -> None:
        code = "x=0\n" + "((x+=1)) # padding padding padding padding\n" * 50_000 + "echo $x"
        self.assertEqual(self.output(code), "50000\n")

    def test_code_that_bash_cannot_read_is_refused(self) -> None:
        for code in ("echo a\0b", "echo \ud800"):
            error = self.kernel.run(code).error
            self.assertEqual((error["kind"], error["ename"]), ("syntax", "InvalidCode"))
        self.assertEqual(self.output("echo alive"), "alive\n")

    def test_standard_input_is_empty(self) -> None:
        self.assertEqual(self.kernel.run("read line; echo $? [$line]; cat; wc -c").ok().text(), "1 []\n0\n")
        # A program that reads must not take the next cell.
        self.kernel.start("cat")
        self.kernel.start("echo next")
        self.kernel.finish()
        self.assertEqual(self.kernel.finish().ok().text(), "next\n")

    def test_control_words_at_the_top_do_not_reach_the_kernel(self) -> None:
        for code in ("break", "continue 3", "shift 9", "local x=1", "}", "done"):
            self.kernel.run(code)
        self.assertEqual(self.output("echo alive"), "alive\n")

    def test_children_inherit_nothing_of_the_kernel(self) -> None:
        self.assertEqual(self.output("ls /proc/self/fd").split(), ["0", "1", "2", "3"])

    def test_traps_stay_and_run(self) -> None:
        self.kernel.run("trap 'echo failed' ERR; trap 'echo usr' USR1")
        self.assertEqual(self.kernel.run("kill -USR1 $$; false; true").ok().text(), "usr\nfailed\n")
        outcome = self.kernel.run("trap 'echo goodbye' EXIT; exit 0")
        self.assertEqual(outcome.text(), "goodbye\n")


class Ends(KernelCase):
    def assert_exits(self, code: str, error: str | None) -> None:
        outcome = self.kernel.run(code)
        self.assertTrue(outcome.reply["exiting"])
        self.assertEqual([message["evalue"] for message in outcome.of_type("error")], [error] if error else [])
        self.assertEqual(self.kernel.exit_status(), 0)

    def test_exit_ends_the_kernel(self) -> None:
        self.assert_exits("echo bye; exit", None)

    def test_exit_with_a_status_tells_it(self) -> None:
        self.assert_exits("exit 3", "3")

    def test_a_failure_under_errexit_ends_the_kernel_and_tells_the_status(self) -> None:
        self.kernel.run("set -e; x=1").ok()
        self.assert_exits("(exit 9); echo not reached", "9")

    def test_replaced_by_a_program(self) -> None:
        self.assert_exits("exec sh -c 'echo replaced; exit 5'", "5")

    def test_all_output_comes_before_the_end(self) -> None:
        outcome = self.kernel.run("seq 200000; exit 0")
        self.assertEqual(len(outcome.text().splitlines()), 200000)

    def test_killed_the_kernel_dies_of_the_same_signal(self) -> None:
        for number in (9, 11):
            kernel = self.start()
            kernel.start(f"echo bye; kill -{number} $$")
            kernel.wait_for_text("bye\n")
            self.assertEqual(kernel.exit_status(), -number)

    def test_a_shell_does_not_outlive_its_kernel(self) -> None:
        shell = self.output("echo $$").strip()
        self.kernel.start("kill -9 $PPID; while :; do :; done")
        self.assertEqual(self.kernel.exit_status(), -9)
        self.assert_gone(shell)

    def test_a_peer_that_hangs_up_ends_everything(self) -> None:
        shell = self.output("echo $$").strip()
        self.kernel.start("echo go; sleep 1000")
        self.kernel.wait_for_text("go\n")
        self.kernel._file.close()
        self.kernel.connection.close()
        self.assertEqual(self.kernel.exit_status(), 76)
        self.assert_gone(shell)

    def test_shutdown_runs_exit_traps(self) -> None:
        self.kernel.run("trap 'echo bye >/tmp/skep-bash-trap-$PPID' EXIT").ok()
        self.assertEqual(self.kernel.ask({"type": "shutdown"})["status"], "ok")
        self.assertEqual(self.kernel.exit_status(), 0)
        note = Path(f"/tmp/skep-bash-trap-{self.kernel.pid}")
        self.assertEqual(note.read_text(), "bye\n")
        note.unlink()

    def assert_gone(self, pid: str) -> None:
        def gone() -> bool:
            try:
                return ") Z " in Path(f"/proc/{pid}/stat").read_text()
            except OSError:
                return True

        wait_until(gone, "the shell is gone")
