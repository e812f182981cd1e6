"""Measures what the kernel promises: `python bench.py`, from this directory, with the packages importable.

Prints wall times as median and best, processor time of the kernel per cell, and memory after a fork.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.prepared import KernelClient, Zygote

CELLS = {
    "1": "1",
    "pass": "pass",
    "print": "print(1)",
    "await": "import asyncio; await asyncio.sleep(0)",
    "error": "1/0",
}
ROUNDS = 500


def timed(action: Callable[[], object], rounds: int) -> str:
    samples = []
    for _ in range(rounds):
        start = time.perf_counter()
        action()
        samples.append((time.perf_counter() - start) * 1000)
    return f"median {statistics.median(samples):.3f} ms, best {min(samples):.3f} ms"


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> str:
    fields = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, value = line.split(":")
        fields[name] = int(value.split()[0])
    private = fields["Private_Clean"] + fields["Private_Dirty"]
    shown = {"private": private, "proportional": fields["Pss"], "resident": fields["Rss"]}
    return ", ".join(f"{name} {kibibytes / 1024:.1f} MiB" for name, kibibytes in shown.items())


def start_alone() -> None:
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "skep_kernel", "--socket-fd", str(theirs.fileno())]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
    theirs.close()
    KernelClient(ours, process.pid).ask({"type": "shutdown"})
    process.wait()


def bench_cells(kernel: KernelClient) -> None:
    for name, code in CELLS.items():
        for _ in range(50):
            kernel.run(code)
        before = processor_seconds(kernel.pid)
        line = timed(lambda code=code: kernel.run(code), ROUNDS)
        spent = (processor_seconds(kernel.pid) - before) / ROUNDS * 1000
        print(f"cell {name:6} {line}, processor {spent:.2f} ms")


def main() -> None:
    print(f"python {sys.version.split()[0]}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    print("start and stop of a process:", timed(start_alone, 5))
    for preload in ([], ["numpy", "pandas", "matplotlib.pyplot", "PIL.Image", "skep_charts"]):
        zygote = Zygote(preload)
        print(f"\nforked from a process with {', '.join(preload) or 'nothing'} imported")
        print("fork to hello:", timed(lambda zygote=zygote: zygote.fork().close(), 20))
        kernel = zygote.fork()
        print("after hello:  ", memory(kernel.pid))
        kernel.run("1")
        print("after a cell: ", memory(kernel.pid))
        for _ in range(300):
            kernel.run("print(1); 1")
        print("after 300:    ", memory(kernel.pid))
        if not preload:
            bench_cells(kernel)
        kernel.close()
        zygote.close()


if __name__ == "__main__":
    main()
