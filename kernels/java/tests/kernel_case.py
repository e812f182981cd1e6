"""Test cases with a kernel. A virtual machine takes long to start, so the tests of a class share one."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from kernel_client import KernelProcess, Outcome

SOURCE = Path(__file__).parent.parent
OLDEST = 25


def find_java() -> str:
    """A `java` that is new enough, or the tests cannot run."""
    candidates = [shutil.which("java") or "", *map(str, sorted(Path("/usr/lib/jvm").glob("*/bin/java")))]
    for java in filter(None, candidates):
        said = subprocess.run([java, "-version"], stderr=subprocess.PIPE, text=True, check=False).stderr
        version = said.partition('"')[2].split(".")[0].split('"')[0]
        if version.isdecimal() and int(version) >= OLDEST and Path(java).with_name("javac").exists():
            return java
    raise unittest.SkipTest(f"there is no JDK {OLDEST} here")


class Built:
    """The kernel, compiled once for all tests."""

    _command: list[str] = []

    @classmethod
    def command(cls) -> list[str]:
        if not cls._command:
            home = Path(find_java()).resolve().parent.parent
            folder = tempfile.mkdtemp(prefix="skep-java-")
            atexit.register(shutil.rmtree, folder)
            subprocess.run([SOURCE / "build", folder], env={**os.environ, "JAVA_HOME": str(home)}, check=True, stderr=subprocess.DEVNULL)
            cls._command = [f"{folder}/start"]
        return cls._command


class KernelCase(unittest.TestCase):
    kernel: KernelProcess

    @classmethod
    def setUpClass(cls) -> None:
        cls.kernel = cls.start()

    @classmethod
    def start(cls, **environment: str) -> KernelProcess:
        kernel = KernelProcess(Built.command(), environment)
        cls.addClassCleanup(kernel.close)
        return kernel

    def output(self, code: str) -> str:
        """What a cell prints, which must succeed."""
        return self.kernel.run(code).ok().text()

    def value(self, code: str) -> str | None:
        """The value of a cell, which must succeed."""
        outcome = self.kernel.run(code).ok()
        return outcome.value["text/plain"] if outcome.of_type("execute_result") else None

    def interrupt_at_go(self, code: str) -> Outcome:
        self.kernel.start(code)
        self.kernel.wait_for_text("go")
        self.kernel.interrupt()
        return self.kernel.finish()
