"""A test case with a fresh kernel."""

from __future__ import annotations

import unittest
from pathlib import Path

from kernel_client import KernelProcess

PACKAGE = Path(__file__).parent.parent / "skep_bash"


class KernelCase(unittest.TestCase):
    def setUp(self) -> None:
        self.kernel = self.start()

    def start(self, **options: dict[str, str]) -> KernelProcess:
        kernel = KernelProcess(["/usr/bin/python3", "-I", "-S", str(PACKAGE / "__main__.py")], **options)  # type: ignore[arg-type]
        self.addCleanup(kernel.close)
        return kernel

    def output(self, code: str) -> str:
        """What a cell prints, which must succeed."""
        return self.kernel.run(code).ok().text()
