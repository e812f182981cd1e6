"""Keeping numerical libraries to one thread while the process must be forkable.

A BLAS that is loaded with one thread starts none. Afterwards it is told how many it may use, through
the setter that every OpenBLAS exports; without numpy there is nothing to do.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator

_LIMITS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_SETTERS = (
    "scipy_openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "openblas_set_num_threads",
)
_LIBRARY = re.compile(r"(/\S*openblas\S*\.so\S*)$", re.MULTILINE)

# The setters of the libraries that were loaded inside `one_thread`.
_held_back: list[Callable[[int], object]] = []


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Libraries loaded inside start no threads."""
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
    # Whoever set a limit himself meant it.
    if "numpy" in sys.modules and all(value is None for value in before.values()):
        _held_back[:] = _setters()


def restore_threads() -> None:
    """Let what was loaded inside `one_thread` use every processor this process may run on."""
    processors = len(os.sched_getaffinity(0))
    if processors > 1:
        for set_threads in _held_back:
            set_threads(processors)
    _held_back.clear()


def _setters() -> list[Callable[[int], object]]:
    import ctypes

    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        libraries = [ctypes.CDLL(path) for path in sorted(set(_LIBRARY.findall(maps.read())))]
    found = []
    for library in libraries:
        names = [name for name in _SETTERS if hasattr(library, name)]
        found += [getattr(library, name) for name in names[:1]]
    return found
