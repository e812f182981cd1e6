"""Variables, folders, and requests that make no sense."""

from __future__ import annotations

import os
import random
import subprocess
import tempfile
import unittest

from skep_bash.quoting import is_name, word

from .kernel_case import KernelCase

ODD_VALUES = ["", "'", "''", "\\", "\\'", "$(id)", "`id`", "${x}", "a\nb\n", "\n", " ", "\t", '"', "!", "*", "~", "😀é\u2028", "-n", "\r", "\x01\x7f", "x" * (1 << 20)]


class Quoting(unittest.TestCase):
    def test_any_text_is_read_back_as_itself(self) -> None:
        source = random.Random(20)
        alphabet = "'\"\\$`!*?[]{}()<>|&;#~ \t\n\r\x01\x1b\x7faZ09-=é😀\u2028"
        texts = ODD_VALUES[:-1] + ["".join(source.choices(alphabet, k=source.randrange(40))) for _ in range(3000)]
        for options in ((), ("--posix",)):
            script = b"printf '%s\\0' " + b" ".join(map(word, texts))
            done = subprocess.run(["/bin/bash", *options], input=script, stdout=subprocess.PIPE, check=True)
            self.assertEqual(done.stdout.decode().split("\0")[:-1], texts)

    def test_names(self) -> None:
        for name in ("A", "_", "a1", "LC_ALL"):
            self.assertTrue(is_name(name))
        for name in ("", "1a", "a-b", "a.b", "a b", "a\n", "é", "a=b", "a[0]", "a;id", "$x"):
            self.assertFalse(is_name(name), name)


class Variables(KernelCase):
    def test_any_value_is_visible_in_its_execution_and_gone_afterwards(self) -> None:
        for value in ODD_VALUES:
            with self.subTest(value[:20]):
                outcome = self.kernel.run("printf %s \"$VALUE\"; printf %s ${VALUE@a}", env={"VALUE": value}).ok()
                self.assertTrue(outcome.text() == value + "x", outcome.text()[:60])
        self.assertEqual(self.output("echo ${VALUE-none}"), "none\n")

    def test_children_see_them(self) -> None:
        self.assertEqual(self.kernel.run("printenv VALUE", env={"VALUE": "a\nb'"}).ok().text(), "a\nb'\n")

    def test_what_was_there_before_comes_back_as_it_was(self) -> None:
        self.kernel.run("A=plain; export B=$'ex\\nported'; C=(x 'y z'); declare -i D=7; declare -A E=([k]='v w')").ok()
        code = "echo $A $B $C $D $E; unset A; B=changed"
        self.assertEqual(self.kernel.run(code, env=dict.fromkeys("ABCDE", "1")).ok().text(), "1 1 1 1 1\n")
        self.assertEqual(self.output('echo $A "$B" "${C[1]}" $((D+1)) "${E[k]}"; D=2+2; echo $D; printenv A; printenv B'), "plain ex\nported y z 8 v w\n4\nex\nported\n")

    def test_names_and_values_that_cannot_be_are_refused_and_nothing_runs(self) -> None:
        for env in ({"a.b": "1"}, {"": "1"}, {"A;id": "1"}, {"A": "\0"}, {"A": "\ud800"}, {"A": 1}, {"UID": "5"}, ["A"]):
            with self.subTest(env):
                outcome = self.kernel.run("echo ran", env=env)
                self.assertEqual((outcome.error["kind"], outcome.error["ename"]), ("request", "InvalidEnvironment"))
                self.assertEqual(outcome.text(), "")

    def test_a_read_only_variable_is_refused_and_the_others_are_restored(self) -> None:
        self.kernel.run("A=before; readonly R=1").ok()
        outcome = self.kernel.run("echo ran", env={"A": "x", "R": "2"})
        self.assertEqual((outcome.error["ename"], outcome.text()), ("InvalidEnvironment", ""))
        self.assertEqual(self.output("echo $A $R"), "before 1\n")

    def test_layers(self) -> None:
        kernel = self.kernel = self.start(environment={"BASE": "process", "odd.name": "1"})

        def layer(name: str, **variables: str) -> None:
            self.assertEqual(kernel.ask({"type": "environment", "layer": name, "variables": variables})["status"], "ok")

        show = "echo ${BASE-none} ${S-none} ${C-none}"
        # The name that bash cannot have is unchanged, so it does not matter.
        layer("sandbox", S="s", BASE="layer", **{"odd.name": "1"})
        self.assertEqual(self.output(show), "layer s none\n")
        layer("context", C="c", S="over")
        self.assertEqual(self.output(show), "layer over c\n")
        self.assertEqual(kernel.run(show, env={"S": "now"}).ok().text(), "layer now c\n")
        self.kernel.run("C=by_hand").ok()
        layer("sandbox", S="changed")
        self.assertEqual(self.output(show), "process over by_hand\n")
        layer("context")
        self.assertEqual(self.output(show), "process changed none\n")
        refused = kernel.ask({"type": "environment", "layer": "sandbox", "variables": {"new.name": "1", "S": "lost"}})
        self.assertEqual((refused["status"], refused["ename"]), ("error", "InvalidEnvironment"))
        self.assertEqual(self.output(show), "process changed none\n")
        refused = kernel.ask({"type": "environment", "layer": "other", "variables": {}})
        self.assertEqual(refused["ename"], "InvalidEnvironment")


class Folders(KernelCase):
    def test_the_kernel_starts_where_it_is_started_and_goes_where_it_is_told(self) -> None:
        self.kernel = self.start(directory="/usr")  # type: ignore[arg-type]
        self.assertEqual(self.output("pwd"), "/usr\n")
        with tempfile.TemporaryDirectory() as folder:
            odd = os.path.join(folder, "a 'b'\n$c")
            os.mkdir(odd)
            self.assertEqual(self.kernel.ask({"type": "chdir", "path": odd})["status"], "ok")
            self.assertEqual(self.output("pwd"), odd + "\n")
            self.assertEqual(self.kernel.ask({"type": "chdir", "path": ".."})["status"], "ok")
            self.assertEqual(self.output("pwd"), folder + "\n")

    def test_a_folder_that_is_not_there_is_told(self) -> None:
        for path, name in (("/nonexistent", "FileNotFoundError"), ("/etc/passwd", "NotADirectoryError"), ("a\0b", "ValueError")):
            reply = self.kernel.ask({"type": "chdir", "path": path})
            self.assertEqual((reply["status"], reply["ename"]), ("error", name))

    def test_requests_that_make_no_sense_are_refused(self) -> None:
        for request in ({"type": "dance"}, {"type": "chdir"}, {"type": "environment", "layer": "sandbox"}, {"type": "execute"}, {"type": "execute", "code": 5}):
            self.assertEqual(self.kernel.ask(request)["status"], "error", request)
        self.assertEqual(self.output("echo alive"), "alive\n")
