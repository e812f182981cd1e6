"""SIGINT ends the cell, and leaves the shell as it was."""

from __future__ import annotations

import os
import signal
import time

from .kernel_case import KernelCase


class Interrupts(KernelCase):
    def interrupted(self, code: str, to_kernel_only: bool = False) -> float:
        """Run a cell that says go, interrupt it; returns how long it then took."""
        self.kernel.start(code)
        self.kernel.wait_for_text("go\n")
        start = time.monotonic()
        if to_kernel_only:
            os.kill(self.kernel.pid, signal.SIGINT)
        else:
            self.kernel.interrupt()
        error = self.kernel.finish().error
        self.assertEqual((error["kind"], error["ename"], error["evalue"]), ("interrupted", "KeyboardInterrupt", ""))
        return time.monotonic() - start

    def test_whatever_a_cell_does_it_ends_and_the_state_stays(self) -> None:
        self.kernel.run("kept=kept; cd /usr; f() { echo go; while :; do sleep 0.01; done; }").ok()
        for code in (
            "echo go; sleep 1000; echo no",
            "echo go; while :; do :; done",
            "f",
            "(f)",
            "f | cat",
            "echo go; x=$(sleep 1000)",
            "echo go; python3 -c 'import time; time.sleep(1000)'",
            "echo go; wait & sleep 1000",
            "echo go; read line < <(sleep 1000)",
            "echo go; for i in {1..1000000}; do sleep 1000; done",
        ):
            for to_kernel_only in (False, True):
                with self.subTest(code, to_kernel_only=to_kernel_only):
                    self.interrupted(code, to_kernel_only)
                    self.assertEqual(self.output("echo $kept $PWD"), "kept /usr\n")

    def test_programs_that_catch_interrupts_are_ended_in_time(self) -> None:
        catching = "import signal, time\nsignal.signal(2, lambda *_: None)\nprint('go', flush=True)\nwhile True: time.sleep(1)"
        self.kernel.run(f"kept=kept; code=$'{catching!s}'".replace("'go'", "\\'go\\'").replace("\n", "\\n")).ok()
        # It would go on for ever. The figure allows for a busy host.
        self.assertLess(self.interrupted('python3 -c "$code"'), 30)
        self.assertEqual(self.output("echo $kept"), "kept\n")

    def test_the_background_is_spared(self) -> None:
        self.kernel.run("sleep 1000 & job=$!; until [[ $(</proc/$job/comm) = sleep ]]; do :; done").ok()
        self.interrupted("echo go; sleep 1000")
        self.assertEqual(self.output("kill -0 $job && echo running; kill $job"), "running\n")

    def test_a_trap_of_the_cell_decides(self) -> None:
        self.kernel.run("trap 'echo caught' INT").ok()
        self.kernel.start("echo go; sleep 1000; echo after")
        self.kernel.wait_for_text("go\n")
        self.kernel.interrupt()
        outcome = self.kernel.finish().ok()
        # Where the machine is slow the kernel asks a second time.
        self.assertRegex(outcome.text(), r"\A(caught\n)+after\n\Z")

    def test_between_cells_it_is_ignored(self) -> None:
        self.kernel.run("kept=kept").ok()
        for _ in range(20):
            self.kernel.interrupt()
            # Whether it hits the cell or the time before is chance; afterwards all is well in any case.
            self.kernel.run("true")
        self.assertEqual(self.output("echo $kept"), "kept\n")

    def test_the_variables_of_the_execution_are_restored(self) -> None:
        self.kernel.start("echo go; sleep 1000", env={"A": "b", "HOME": "/x"})
        self.kernel.wait_for_text("go\n")
        self.kernel.interrupt()
        self.kernel.finish()
        self.assertEqual(self.output("echo ${A-none} $HOME"), "none /nonexistent\n")

    def test_many_interrupts_leave_no_trace(self) -> None:
        for _ in range(30):
            self.kernel.start("echo go; while :; do :; done")
            self.kernel.wait_for_text("go\n")
            for _ in range(3):
                self.kernel.interrupt()
            self.assertEqual(self.kernel.finish().error["kind"], "interrupted")
        self.assertEqual(self.output("echo alive"), "alive\n")
