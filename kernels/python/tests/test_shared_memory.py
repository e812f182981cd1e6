"""What makes a zygote cheap to fork, each in a process of its own: it cannot be undone."""

from __future__ import annotations

import subprocess
import sys

import pytest

from .prepared import PACKAGE_DIRECTORY

COUNTED = """
import sys
from skep_kernel.shared_memory import share
old = object()
kept = {"kept": [old]}
share()
new = object()
def grows(value):
    before = sys.getrefcount(value)
    more = [value] * 10
    return sys.getrefcount(value) > before
print(grows(old), grows(new), grows(sys.modules))
"""

JOINED = """
from skep_kernel.shared_memory import share
def huge():
    lines = open("/proc/self/smaps_rollup").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("AnonHugePages"))
many = [str(number) for number in range(400_000)]
before = huge()
share()
print(huge() - before)
print(len(many), many[-1])
"""


def run(program: str) -> list[str]:
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=PACKAGE_DIRECTORY, check=True, capture_output=True, text=True)
    return done.stdout.split()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="this Python has no immortal objects")
def test_what_exists_before_is_used_without_being_written_to() -> None:
    assert run(COUNTED) == ["False", "True", "False"]


def test_what_exists_before_stays_what_it_is() -> None:
    *_, count, last = run(JOINED)
    assert (count, last) == ("400000", "399999")


def test_memory_is_joined_to_huge_pages_where_there_are_any() -> None:
    gained = int(run(JOINED)[0])
    with open("/sys/kernel/mm/transparent_hugepage/enabled", encoding="ascii") as setting:
        if "[never]" in setting.read():
            pytest.skip("this machine has no huge pages")
    assert gained >= 2048
