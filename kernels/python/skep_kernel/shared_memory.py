"""Keeping memory shared between a prepared process and those that are forked from it.

A fork pays for every entry of its page tables, and again for every page that it writes to. Both can be made less
before the first fork: fewer, larger pages, and objects that are used without being written to.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import sysconfig

_MADV_COLLAPSE = 25
_HUGE_PAGE = 2 << 20
_COUNT = 4 if sys.byteorder == "big" else 0
"""Where in an object the lower half of its count of references is."""

_libc = ctypes.CDLL(None)


def share() -> None:
    """Make this process cheap to fork, and its forks small. Objects that exist now are never freed."""
    _fix_reference_counts()
    _join_pages()


def _fix_reference_counts() -> None:
    """Whoever uses an object counts that in the object itself, unless it is immortal, as `None` is (PEP 683)."""
    if not _has_immortal_objects():
        return
    immortal = ctypes.c_uint32.from_address(id(None) + _COUNT).value
    for address in _reachable():
        count = ctypes.c_uint32.from_address(address + _COUNT)
        if count.value < immortal:
            count.value = immortal


def _has_immortal_objects() -> bool:
    """Whether the lower half of an object's first word counts references and can say that they are not counted."""
    is_usual = not sysconfig.get_config_var("Py_GIL_DISABLED") and not hasattr(sys, "gettotalrefcount")
    return is_usual and sys.maxsize > 1 << 32 and sys.version_info[:2] in {(3, 12), (3, 13)}


def _reachable() -> set[int]:
    """Where the objects are that the garbage collector knows, and those that they refer to."""
    gc.unfreeze()
    waiting = gc.get_objects()
    gc.freeze()
    found: set[int] = set()
    # These two are local to this call, and are freed with it.
    own = {id(waiting), id(found)}
    while waiting:
        value = waiting.pop()
        if id(value) not in found and id(value) not in own:
            found.add(id(value))
            waiting.extend(gc.get_referents(value))
    return found


def _join_pages() -> None:
    """Where a whole huge page of memory is this process's own, one entry in the page table does instead of 512."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        lines = maps.read().splitlines()
    for line in lines:
        addresses, rights, _, _, _, *name = line.split(maxsplit=5)
        if rights == "rw-p" and (not name or name == ["[heap]"]):
            start, end = (int(address, 16) for address in addresses.split("-"))
            first, last = -(-start // _HUGE_PAGE) * _HUGE_PAGE, end // _HUGE_PAGE * _HUGE_PAGE
            if first < last:
                # An older kernel refuses, and one without a free huge page, too: then all stays as it is.
                _libc.madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), _MADV_COLLAPSE)
