"""Users who break their shell: it stays sane, or its end has a name."""

from __future__ import annotations

import tempfile
from pathlib import Path

from .kernel_case import KernelCase


class Hostile(KernelCase):
    def test_functions_and_aliases_named_like_builtins(self) -> None:
        names = ["printf", "eval", "source", ".", "set", "unset", "export", "declare", "command", "return", "cd", "trap", "exit", "test"]
        for name in names:
            self.kernel.run(f"{name}() {{ :; }}; alias {name}='echo aliased'")
        self.assertEqual(self.kernel.run("echo hi $A", env={"A": "b"}).ok().text(), "hi b\n")
        self.assertEqual(self.output("echo ${A-none}"), "none\n")
        self.kernel.run("alias builtin='echo aliased'").ok()
        self.assertEqual(self.output("echo alive"), "alive\n")

    def test_without_a_path_and_with_odd_settings(self) -> None:
        self.kernel.run("unset PATH HOME IFS; IFS=b; set -fuCo pipefail; shopt -s nullglob dotglob; POSIXLY_CORRECT=1; LC_ALL=C; CDPATH=/usr").ok()
        self.assertEqual(self.kernel.run("echo hi $A", env={"A": "xby"}).ok().text(), "hi x y\n")
        self.assertEqual(self.kernel.ask({"type": "chdir", "path": "/usr/lib"})["status"], "ok")
        self.assertEqual(self.output('echo "$PWD"'), "/usr/lib\n")

    def test_signals_to_the_whole_group(self) -> None:
        self.kernel.run("kill -TERM 0; kill -HUP $PPID; kill -TERM $PPID $$")
        self.assertEqual(self.output("echo alive"), "alive\n")

    def test_a_shell_that_cannot_report_has_a_name(self) -> None:
        outcome = self.kernel.run("builtin() { :; }")
        self.assertEqual(outcome.error["ename"], "ShellBroken")
        self.assertTrue(outcome.reply["exiting"])
        self.assertEqual(self.kernel.exit_status(), 70)

    def test_read_only_prompts(self) -> None:
        self.kernel.run("readonly PS1= PROMPT_COMMAND PS2").ok()
        self.assertEqual(self.output("echo alive"), "alive\n")

    def test_prompt_commands_of_the_user_do_not_last(self) -> None:
        self.kernel.run("PROMPT_COMMAND='echo prompt'").ok()
        self.assertEqual(self.output("echo alive"), "alive\n")

    def test_endless_recursion_is_the_end_of_the_shell_and_has_a_signal(self) -> None:
        self.kernel.start("ulimit -Ss 512; f() { f; }; f")
        self.assertEqual(self.kernel.exit_status(), -11)

    def test_a_start_file_that_fails_is_told(self) -> None:
        with tempfile.TemporaryDirectory() as home:
            Path(home, ".bashrc").write_text("echo because of this; exit 4\n")
            with self.assertRaises(EOFError) as raised:
                self.start(environment={"HOME": home})
            self.assertIn("because of this\n", str(raised.exception))
            self.assertIn("bash ended with status 4\n", str(raised.exception))
            Path(home, ".bashrc").write_text("echo noise; PS1='$ '; alias ll='echo ll'; export FROM_START=1\n")
            kernel = self.start(environment={"HOME": home})
            self.assertEqual(kernel.run("ll $FROM_START").ok().text(), "ll 1\n")
