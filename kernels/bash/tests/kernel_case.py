"""A test case with a fresh kernel."""

from __future__ import annotations

import unittest

from .kernel_client import KernelClient


class KernelCase(unittest.TestCase):
    def setUp(self) -> None:
        self.kernel = self.start()

    def start(self, **options: dict[str, str]) -> KernelClient:
        kernel = KernelClient(**options)  # type: ignore[arg-type]
        self.addCleanup(kernel.close)
        return kernel

    def output(self, code: str) -> str:
        """What a cell prints, which must succeed."""
        return self.kernel.run(code).ok().text()
