"""Keeping numerical libraries to one thread while the process must be forkable.

A BLAS that is loaded with one thread starts none. Afterwards it is told how many it may use, through
the setter that every OpenBLAS exports; without numpy there is nothing to do.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator

_LIMITS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_SETTERS = (
    "scipy_openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "openblas_set_num_threads",
)
_LIBRARY = re.compile(r"(/\S*openblas\S*\.so\S*)$", re.MULTILINE)

_held_back = False


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Libraries loaded inside start no threads."""
    global _held_back
    before = {name: os.environ.get(name) for name in _LIMITS}
    os.environ.update(dict.fromkeys(_LIMITS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    _held_back = "numpy" in sys.modules and all(value is None for value in before.values())


def restore_threads() -> None:
    """Let what was loaded inside `one_thread` use every processor this process may run on."""
    if not _held_back:
        return
    import ctypes

    processors = len(os.sched_getaffinity(0))
    if processors == 1:
        return
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        libraries = set(_LIBRARY.findall(maps.read()))
    for path in libraries:
        library = ctypes.CDLL(path)
        for setter in _SETTERS:
            if hasattr(library, setter):
                getattr(library, setter)(processors)
                break
