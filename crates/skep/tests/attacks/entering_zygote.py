"""The control of the attacks on zygotes: one that enters the sandbox's pid namespace first, and gives up its rights there.

It speaks as the real one does, and does what the first version of it did: its forks have rights, the socket of all
requests and Python's own signal handlers while the sandbox's root can signal them.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import site
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from . import prepare, serve
from .shared_memory import share
from .shell import ZMQInteractiveShell

REFUSED = 75
"""The exit status of a fork that found it cannot be what a started kernel would be."""

REPLY = 3
"""Where a kernel on its way has the socket to the server."""

_CLONE_NEWPID = 0x20000000
_ENTERED = (("network", 0x40000000), ("users", 0x10000000), ("mounts", 0x00020000))
_ENTERED_AS_ROOT = (("ipc", 0x08000000), ("uts", 0x04000000), ("cgroups", 0x02000000))
_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
_PR_CAPBSET_DROP = 24
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION = 0x20080522
_LAST_CAPABILITY = 63
_MAXIMUM_DESCRIPTORS = 64


class Descriptors(NamedTuple):
    """What comes with a request, in this order; after these, doors of cgroups."""

    plan: int
    reply: int
    pid: int
    network: int
    users: int
    mounts: int
    ipc: int
    uts: int
    cgroups: int
    stdin: int
    stdout: int
    stderr: int


class Refusal(Exception):
    """The sandbox is not what this process was prepared for."""


class _Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


class _CapabilityHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


_libc = ctypes.CDLL(None, use_errno=True)

# Without what Python does around a fork, which a process that only forks again and ends does not need.
_bare_fork = ctypes.PyDLL(None).fork


def _check(answer: int, what: str) -> None:
    if answer < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def _enter(descriptor: int, kind: int) -> None:
    _check(_libc.setns(descriptor, kind), f"entering namespace {kind:#x}")


def main() -> None:
    control = socket.socket(fileno=os.dup(0))
    shell = prepare(sys.argv[1:])
    places = _places()
    if len(os.listdir("/proc/self/task")) != 1:
        sys.exit("a module that was asked for has started a thread")
    share()
    control.send(b"2")
    while True:
        data, received, _, _ = socket.recv_fds(control, 1, _MAXIMUM_DESCRIPTORS)
        if not data:
            return
        if len(received) >= len(Descriptors._fields):
            descriptors = Descriptors(*received[: len(Descriptors._fields)])
            _fork(shell, places, descriptors, received[len(Descriptors._fields) :])
        for descriptor in received:
            os.close(descriptor)


def _fork(shell: ZMQInteractiveShell, places: dict[str, int], descriptors: Descriptors, doors: Sequence[int]) -> None:
    try:
        _enter(descriptors.pid, _CLONE_NEWPID)
    except OSError:
        # The sandbox is gone. Whoever asked sees the end of the reply.
        return
    between = _bare_fork()
    if between > 0:
        os.waitpid(between, 0)
    if between != 0:
        return
    os.write(descriptors.reply, b"b")
    # Its parent must be in the sandbox when it ends, or the kernel would be given to somebody outside.
    ctypes.pythonapi.PyOS_BeforeFork()
    kernel = _bare_fork()
    if kernel != 0:
        os._exit(0 if kernel > 0 else REFUSED)
    ctypes.pythonapi.PyOS_AfterFork_Child()
    os._exit(_run(shell, places, descriptors, doors))


def _run(shell: ZMQInteractiveShell, places: dict[str, int], descriptors: Descriptors, doors: Sequence[int]) -> int:
    """The life of a kernel, in the sandbox's pid namespace already."""
    try:
        os.setsid()
        plan = _read(descriptors.plan)
        _become(plan, descriptors, doors)
        _check_places(places)
        _take_environment(shell, plan)
        _wait_for_parent()
        reply = socket.socket(fileno=REPLY)
        reply.send(b"w")
        # The server looks at this process now. An end without a word means that it did not like what it saw.
        if not reply.recv(1):
            return REFUSED
        reply.close()
    except (OSError, Refusal, ValueError, KeyError, TypeError):
        return REFUSED
    kernel = socket.socket(fileno=os.dup(0))
    sys.argv = [os.path.join(os.path.dirname(__file__), "__main__.py"), "--socket-fd", "0"]
    return serve(kernel)


def _read(plan: int) -> dict[str, Any]:
    lines = os.pread(plan, os.fstat(plan).st_size, 0).splitlines()
    return {name: value for line in lines for name, value in json.loads(line).items()}


def _wait_for_parent() -> None:
    """Until the process between has ended and the sandbox's first one is the parent, as the server wants to see it."""
    while os.getppid() != 1:
        # It gives its memory back meanwhile, which is a millisecond or two; a longer pause would be added to it.
        time.sleep(0.0001)


def _become(plan: dict[str, Any], descriptors: Descriptors, doors: Sequence[int]) -> None:
    """From a process of the server's to one of the sandbox's user. The order is the safety of it."""
    first = plan["first_doors"]
    _join(doors[:first])
    for name, kind in _ENTERED:
        _enter(getattr(descriptors, name), kind)
    for name, kind in _ENTERED_AS_ROOT:
        _enter(getattr(descriptors, name), kind)
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    # As long as this takes on a slow host: whether a hole is seen must not depend on how fast it is passed.
    time.sleep(0.003)
    # The doors that the sandbox's own root has opened let in only whom it is.
    _join(doors[first:])
    _arrange(descriptors)
    _drop_capabilities(plan["capabilities"])
    for filter_ in plan["filters"]:
        _install_filter(bytes.fromhex(filter_))
    os.umask(0o022)
    os.setgroups(plan["groups"])
    os.setresgid(plan["gid"], plan["gid"], plan["gid"])
    os.setresuid(plan["uid"], plan["uid"], plan["uid"])
    # Changing the user alone is not enough: the kernel has left such sets full before.
    _check(_libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "clearing the ambient set")
    header = _CapabilityHeader(_CAPABILITY_VERSION, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _check(_libc.capset(ctypes.byref(header), nothing), "giving up capabilities")
    _check(_libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0), "becoming dumpable")
    os.chdir(plan["directory"])


def _join(doors: Sequence[int]) -> None:
    for door in doors:
        os.write(door, b"0")


def _arrange(descriptors: Descriptors) -> None:
    """The standard descriptors and the reply; nothing else stays open."""
    wanted = (descriptors.stdin, descriptors.stdout, descriptors.stderr, descriptors.reply)
    # All are first moved out of the way: one of them may carry a number that another needs.
    aside = [_above(descriptor) for descriptor in wanted]
    for number, descriptor in enumerate(aside):
        os.dup2(descriptor, number, inheritable=number != REPLY)
    os.closerange(REPLY + 1, os.sysconf("SC_OPEN_MAX"))


def _above(descriptor: int) -> int:
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _MAXIMUM_DESCRIPTORS * 2)


def _drop_capabilities(kept: int) -> None:
    for capability in range(_LAST_CAPABILITY + 1):
        if kept >> capability & 1:
            continue
        if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            # The kernel knows no more capabilities than that.
            return


def _install_filter(instructions: bytes) -> None:
    program = ctypes.create_string_buffer(instructions, len(instructions))
    filter_ = _Filter(len(instructions) // 8, ctypes.addressof(program))
    _check(_libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(filter_), 0, 0), "installing a filter")


def _take_environment(shell: ZMQInteractiveShell, plan: dict[str, Any]) -> None:
    os.environ.clear()
    os.environ.update(plan["environment"])
    time.tzset()
    shell.init_environment()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _places() -> dict[str, int]:
    """Where modules are looked for, and when each place was last changed; 0 if it is not there."""
    paths = [*sys.path, site.getusersitepackages()]
    return {path: _changed(path) for path in paths if path}


def _changed(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _check_places(places: dict[str, int]) -> None:
    """A package that was installed into the sandbox must win over the one that was imported here."""
    for path, changed in places.items():
        if _changed(path) != changed:
            raise Refusal(path)


if __name__ == "__main__":
    main()
