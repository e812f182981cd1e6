"""Copies of a kernel: what they have in common with their origin, and what they must not have."""

from __future__ import annotations

import os
import signal
import socket
import struct
from collections.abc import Iterator

import pytest
from kernel_client import KernelClient, wait_until

from .prepared import Zygote


class Copier:
    """Asks kernels for copies, and ends them."""

    def __init__(self) -> None:
        self._copies: list[KernelClient] = []

    def stand(self, kernel: KernelClient) -> KernelClient:
        """A copy that stands still."""
        ours, theirs = socket.socketpair()
        body = b'{"type":"fork","id":"fork"}'
        socket.send_fds(kernel.connection, [struct.pack(">I", len(body)) + body], [theirs.fileno()])
        theirs.close()
        reply = kernel.receive()
        while reply["type"] != "reply":
            reply = kernel.receive()
        if reply["status"] != "ok":
            ours.close()
            raise PermissionError(f"{reply['ename']}: {reply['evalue']}")
        copy = KernelClient(ours, 0)
        copy.pid = copy.hello["pid"]
        self._copies.append(copy)
        return copy

    def fork(self, kernel: KernelClient, another: bool = True) -> KernelClient:
        """A copy that goes on."""
        copy = self.stand(kernel)
        assert copy.ask({"type": "continue", "another": another})["status"] == "ok"
        return copy

    def close(self) -> None:
        for copy in self._copies:
            copy.close()


@pytest.fixture
def copier() -> Iterator[Copier]:
    copies = Copier()
    yield copies
    copies.close()


def is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_a_copy_has_the_variables_and_changes_only_its_own(kernel: KernelClient, copier: Copier) -> None:
    assert kernel.hello["forks"] is True
    kernel.run("x = [1]; import os; os.environ['MINE'] = 'yes'").ok()
    copy = copier.fork(kernel)
    assert copy.pid != kernel.pid
    copy.run("x.append(2)").ok()
    assert copy.run("x, os.environ['MINE']").value["text/plain"] == "([1, 2], 'yes')"
    assert kernel.run("x").value["text/plain"] == "[1]"
    assert copy.run("1").reply["execution_count"] == 4


def test_the_origin_can_be_gone_back_to_again_and_again(kernel: KernelClient, copier: Copier) -> None:
    kernel.run("x = 1").ok()
    standing = copier.stand(kernel)
    kernel.run("del x").ok()
    kernel.close()
    for _ in range(2):
        back = copier.fork(standing, another=False)
        assert back.run("x").value["text/plain"] == "1"
        back.run("del x").ok()


def test_a_standing_copy_does_nothing_but_copies(kernel: KernelClient, copier: Copier) -> None:
    standing = copier.stand(kernel)
    refused = standing.ask({"type": "execute", "code": "1"})
    assert (refused["status"], refused["evalue"]) == ("error", "this copy stands still")
    os.kill(standing.pid, signal.SIGINT)
    assert copier.fork(standing).run("2").value["text/plain"] == "2"


def test_output_of_a_copy_is_its_own(kernel: KernelClient, copier: Copier) -> None:
    kernel.run("import os, subprocess; saved = os.dup(1)").ok()
    copy = copier.fork(kernel)
    code = "print('a'); os.write(1, b'b\\n'); os.write(saved, b'c\\n'); subprocess.run(['echo', 'd']); _ = input"
    assert copy.run(code).text() == "a\nb\nc\nd\n"
    assert kernel.run(code).text() == "a\nb\nc\nd\n"


def test_nothing_that_was_said_is_said_again(kernel: KernelClient, copier: Copier) -> None:
    kernel.run("import ctypes; libc = ctypes.CDLL(None)").ok()
    kernel.run("print('half', end=''); _ = libc.printf(b'whole')").ok()
    copy = copier.fork(kernel)
    assert copy.run("print('!')").text() == "!\n"


def test_copies_draw_other_numbers_and_those_that_go_back_the_same(
    library_kernel: KernelClient, copier: Copier
) -> None:
    library_kernel.run("import random, numpy; random.seed(1); numpy.random.seed(1)").ok()
    code = "random.random(), float(numpy.random.random())"
    standing = copier.stand(library_kernel)
    expected = library_kernel.run(code).value["text/plain"]
    assert copier.fork(standing, another=False).run(code).value["text/plain"] == expected
    others = {copier.fork(standing).run(code).value["text/plain"] for _ in range(2)}
    assert len(others | {expected}) == 3


def test_tasks_go_on_in_a_copy_and_stand_while_it_does(kernel: KernelClient, copier: Copier) -> None:
    kernel.run(
        "import asyncio, os\nasync def count():\n    global n\n    n = 0\n    while True:\n"
        "        n += 1\n        await asyncio.sleep(0.001)\ntask = asyncio.create_task(count())"
    ).ok()
    standing = copier.stand(kernel)
    for kernel_or_copy in (kernel, copier.fork(standing)):
        kernel_or_copy.run("before = n; await asyncio.sleep(0.05); assert n > before").ok()
        kernel_or_copy.run("task.cancel()").ok()
        # A thread wakes the loop through descriptors of its own.
        kernel_or_copy.run("await asyncio.to_thread(os.getpid)").ok()


def test_interrupts_reach_the_copy_that_they_are_sent_to(kernel: KernelClient, copier: Copier) -> None:
    copy = copier.fork(kernel)
    copy.start("import time\nprint('on')\ntime.sleep(60)")
    copy.wait_for_text("on")
    os.killpg(copy.pid, signal.SIGINT)
    assert copy.finish().error["kind"] == "interrupted"
    assert kernel.run("1").value["text/plain"] == "1"


def test_threads_of_the_code_keep_it_from_being_copied(kernel: KernelClient, copier: Copier) -> None:
    kernel.run("import threading; stop = threading.Event()").ok()
    kernel.run("worker = threading.Thread(target=stop.wait, name='worker'); worker.start()").ok()
    with pytest.raises(PermissionError, match="CannotFork: threads of the code are running.*: worker"):
        copier.stand(kernel)
    kernel.run("stop.set(); worker.join()").ok()
    copier.stand(kernel)


def test_threads_of_a_library_keep_it_from_being_copied(kernel: KernelClient, copier: Copier) -> None:
    # As a C library would: Python does not list it.
    kernel.run("import _thread; lock = _thread.allocate_lock(); lock.acquire()").ok()
    kernel.run("_thread.start_new_thread(lock.acquire, ())").ok()
    with pytest.raises(PermissionError, match="a library of the code runs threads"):
        copier.stand(kernel)
    kernel.run("lock.release()").ok()
    copier.stand(kernel)


def test_a_blas_that_has_computed_can_be_copied_and_computes_on(
    library_kernel: KernelClient, copier: Copier
) -> None:
    library_kernel.run("import numpy; a = numpy.ones((400, 400)); total = (a @ a).sum()").ok()
    copy = copier.fork(library_kernel)
    for either in (library_kernel, copy):
        assert either.run("bool((a @ a).sum() == total)").value["text/plain"] == "True"


def test_a_progress_bar_does_not_keep_it_from_being_copied(kernel: KernelClient, copier: Copier) -> None:
    kernel.run("import tqdm\nfor _ in tqdm.tqdm(range(2)): pass").ok()
    copy = copier.fork(kernel)
    copy.run("for _ in tqdm.tqdm(range(2)): pass").ok()


def test_figures_are_copied(library_kernel: KernelClient, copier: Copier) -> None:
    library_kernel.run("import matplotlib.pyplot as plt; figure, axes = plt.subplots(); plt.close(figure)").ok()
    library_kernel.run("line = axes.plot([1, 2, 3])").ok()
    copy = copier.fork(library_kernel)
    assert "image/png" in copy.run("figure").value
    assert "image/png" in library_kernel.run("figure").value


def test_user_code_does_not_meet_its_copies(kernel: KernelClient, copier: Copier) -> None:
    copy = copier.fork(kernel)
    code = "import os\ntry:\n    os.wait()\nexcept ChildProcessError:\n    print('none')"
    assert kernel.run(code).text() == "none\n"
    assert copy.run("import os; os.getpid() == os.getpgrp() == os.getsid(0)").value["text/plain"] == "True"


def test_a_fork_in_a_cell_of_a_copy_is_not_a_kernel(kernel: KernelClient, copier: Copier) -> None:
    copy = copier.fork(kernel)
    outcome = copy.run("import os\nif not os.fork():\n    print('child')\nelse:\n    os.wait()")
    assert outcome.ok().text() == "child\n"


def test_a_copy_ends_with_its_peer(kernel: KernelClient, copier: Copier) -> None:
    kernel.run("import atexit; atexit.register(open, '/nonexistent/file', 'w')").ok()
    standing = copier.stand(kernel)
    standing.close()
    wait_until(lambda: not is_alive(standing.pid), "the standing copy has ended")
    assert kernel.run("1").ok()


def test_a_request_without_a_socket_is_refused(kernel: KernelClient) -> None:
    refused = kernel.ask({"type": "fork"})
    assert (refused["ename"], refused["evalue"]) == ("CannotFork", "no socket came with the request")
    assert kernel.ask({"type": "continue"})["ename"] == "ValueError"


def test_nothing_of_the_origin_stays_open(kernel: KernelClient, copier: Copier) -> None:
    before = open_files(kernel.pid)
    copies = [copier.fork(kernel) for _ in range(3)]
    kernel.run("1").ok()
    assert len(open_files(kernel.pid)) == len(before)
    for copy in copies:
        copy.run("1").ok()
        # Files on the disk are shared, as after any fork; what the kernel talks through is not.
        shared = open_files(copy.pid) & open_files(kernel.pid)
        assert [target for target in shared if target.startswith(("pipe:", "socket:"))] == []


def open_files(pid: int) -> set[str]:
    directory = f"/proc/{pid}/fd"
    return {os.readlink(f"{directory}/{number}") for number in os.listdir(directory)}


def test_a_hundred_generations(zygote: Zygote) -> None:
    copies = Copier()
    kernel = zygote.fork()
    kernel.run("n = 0").ok()
    for _ in range(100):
        copy = copies.fork(kernel, another=False)
        kernel.close()
        kernel = copy
        kernel.run("n += 1").ok()
    assert kernel.run("n").value["text/plain"] == "100"
    copies.close()
