"""Much output, late output, odd output."""

from __future__ import annotations

import os
import shutil
import tempfile
import time

from kernel_client import wait_until

from .kernel_case import KernelCase


class Output(KernelCase):
    def test_a_hundred_mebibytes_arrive_whole_with_little_memory(self) -> None:
        self.kernel.start("head -c 104857600 /dev/zero | tr '\\0' 'x'; echo end >&2")
        length = 0
        while True:
            message = self.kernel.receive()
            if message["type"] == "stream":
                self.assertLessEqual(len(message["text"]), 65536)
                length += len(message["text"]) if message["name"] == "stdout" else 0
            if message["type"] == "status" and message["state"] == "idle":
                break
        self.assertEqual(length, 104857600)
        self.assertLess(self.kernel.memory_kib(), 40_000)

    def test_a_peer_that_does_not_read_stops_the_code(self) -> None:
        folder = tempfile.mkdtemp(dir="/dev/shm")
        self.addCleanup(shutil.rmtree, folder)
        counter = f"{folder}/count"
        self.kernel.start(f"line=$(printf '%01000d' 0); for i in {{1..20000}}; do echo $line; echo $i >{counter}; done")
        wait_until(lambda: os.path.exists(counter), "the code runs")

        def is_steady() -> bool:
            before = os.stat(counter).st_mtime_ns
            time.sleep(0.3)
            return os.stat(counter).st_mtime_ns == before

        wait_until(is_steady, "the code waits")
        with open(counter) as file:
            self.assertLess(int(file.read()), 20000)
        self.assertLess(self.kernel.memory_kib(), 40_000)
        text = self.kernel.finish().ok().text()
        self.assertGreater(len(text), 15_000_000)

    def test_a_blocked_cell_can_be_interrupted(self) -> None:
        self.kernel.start("yes")
        time.sleep(0.3)
        self.kernel.interrupt()
        self.assertEqual(self.kernel.finish().error["kind"], "interrupted")
        self.assertEqual(self.output("echo alive"), "alive\n")

    def test_what_runs_on_prints_into_the_next_cell_or_to_nobody(self) -> None:
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        flag = f"{folder}/first"
        self.kernel.run(f"(until test -e {flag}; do sleep 0.01; done; echo late; rm {flag}) &").ok()
        with open(flag, "w"):
            pass
        message = self.kernel.receive()
        self.assertEqual((message["type"], message["text"], message["parent"]), ("stream", "late\n", None))
        flag = f"{folder}/second"
        self.kernel.run(f"(until test -e {flag}; do sleep 0.01; done; echo late; rm {flag}) &").ok()
        outcome = self.kernel.run(f"touch {flag}; while test -e {flag}; do sleep 0.01; done")
        self.assertEqual(outcome.text(), "late\n")

    def test_a_cell_ends_while_something_prints_for_ever(self) -> None:
        self.kernel.run("yes & writer=$!").ok()
        self.kernel.run("kill $writer; wait $writer")
        self.assertEqual(self.kernel.run("echo done").ok().text()[-5:], "done\n")

    def test_bytes_that_are_no_text_are_marked_and_characters_are_not_cut(self) -> None:
        self.assertEqual(self.output(r"printf 'a\xffb'; printf '\xf0\x9f'; sleep 0.1; printf '\x98\x80|'; printf '\xc3'"), "a�b😀|�")
        euros = "€" * 100_000
        self.assertEqual(self.output(f"printf %s '{euros}'"), euros)

    def test_a_line_that_is_written_in_pieces_is_one_message(self) -> None:
        for code in ("ls /nonexistent", "for i in {1..9}; do printf $i >&2; done; echo >&2; false"):
            # On a busy host the shell may rest between two pieces for longer than anybody waits, but not every time.
            counts = [len(self.kernel.run(code).of_type("stream")) for _ in range(5)]
            self.assertIn(1, counts)
        # But nobody waits long for the end of a line, and the streams keep their order.
        self.kernel.start("printf 'question? '; sleep 1000")
        self.kernel.wait_for_text("question? ")
        self.kernel.interrupt()
        self.kernel.finish()
        outcome = self.kernel.run("printf one; sleep 0.5; echo two >&2; sleep 0.5; printf three")
        self.assertEqual([message["text"] for message in outcome.of_type("stream")], ["one", "two\n", "three"])

    def test_nothing_of_the_kernel_is_seen_when_tracing(self) -> None:
        outcome = self.kernel.run("set -x; : one").ok()
        self.assertEqual(outcome.text("stderr"), "++ : one\n")
        outcome = self.kernel.run("PS4='> '\n: two", env={"A": "b"}).ok()
        self.assertEqual(outcome.text("stderr"), "++ PS4='> '\n>> : two\n")
        self.assertEqual(self.kernel.run("set +x").text("stderr"), ">> set +x\n")
        self.assertEqual(self.kernel.run(": three").text("stderr"), "")

    def test_a_prompt_is_never_printed(self) -> None:
        self.kernel.run("PS1='(venv) '; PS2=more; PS0=zero").ok()
        self.assertEqual(self.kernel.run("echo hi >&2").text("stderr"), "hi\n")
        self.kernel.start("PS1='prompt>'; echo go; sleep 1000")
        self.kernel.wait_for_text("go\n")
        self.kernel.interrupt()
        self.assertEqual(self.kernel.finish().text("stderr").strip(), "")

    def test_no_notes_about_jobs(self) -> None:
        self.assertEqual(self.kernel.run("sleep 0.01 & wait; true").text("stderr"), "")
        self.assertEqual(self.kernel.run("true").text("stderr"), "")


class Redirected(KernelCase):
    def test_output_that_goes_elsewhere_goes_there_and_can_come_back(self) -> None:
        file = f"/tmp/skep-bash-redirected-{os.getpid()}"
        self.addCleanup(os.unlink, file)
        self.assertEqual(self.output(f"exec 3>&1 >{file}; echo hidden"), "")
        self.assertEqual(self.output("echo hidden too"), "")
        self.assertEqual(self.output(f"exec >&3 3>&-; cat {file}"), "hidden\nhidden too\n")

    def test_closed_output_fails_the_cell_and_not_the_kernel(self) -> None:
        self.assertEqual(self.kernel.run("exec 1>&- 2>&-; echo x").error["evalue"], "1")
        self.assertEqual(self.kernel.run("echo y").error["evalue"], "1")
        self.kernel.run("true").ok()
