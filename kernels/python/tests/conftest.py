from __future__ import annotations

from collections.abc import Iterator

import pytest
from kernel_client import KernelClient

from .prepared import Zygote


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    """Prepared without any library."""
    process = Zygote()
    yield process
    process.close()


@pytest.fixture(scope="session")
def library_zygote() -> Iterator[Zygote]:
    """Prepared with the libraries that most tests would otherwise import again and again."""
    process = Zygote(["numpy", "pandas", "matplotlib.pyplot", "PIL.Image", "skep_charts"])
    yield process
    process.close()


@pytest.fixture
def kernel(zygote: Zygote) -> Iterator[KernelClient]:
    """A fresh kernel."""
    client = zygote.fork()
    yield client
    client.close()


@pytest.fixture
def library_kernel(library_zygote: Zygote) -> Iterator[KernelClient]:
    """A fresh kernel with numpy, pandas, matplotlib and Pillow already imported."""
    client = library_zygote.fork()
    yield client
    client.close()
