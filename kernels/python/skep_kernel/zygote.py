"""`python -m skep_kernel.zygote [MODULE]…`: prepared once, forked into a sandbox for every kernel that is asked for.

Descriptor 0 is a socket of packets to the server. Each packet carries descriptors (`Descriptors`) and one byte. This
process looks at none of their contents, it hands them to a fork. Three processes follow each other:

1. `_outside` stays in this process's pid namespace, where nothing in the sandbox can name it. It joins the cgroups,
   enters the other namespaces, arranges the descriptors, gives up every right, and sees the second one out.
2. `_between` is born in the sandbox's pid namespace, with the rights of the sandbox's user and no others. It forks and
   ends, so that the sandbox's first process becomes the parent of
3. `_inside`, which becomes a kernel.

So nothing in the sandbox can reach a process that has a right which the sandbox does not have. The table in ADR 0013
says for each step who can do what. Two rules keep it true: the root of the sandbox is entered last, and whoever has
rights leaves by `os._exit` alone, so that no traceback, import, locale or encoding is looked up there.

This program is part of a template, so the server believes nothing it says: it looks at every forked process from
outside before anybody speaks to it.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import json
import os
import select
import signal
import site
import socket
import sys
import time
import traceback
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

from . import prepare, serve
from .shared_memory import share
from .shell import ZMQInteractiveShell

READY = b"2"
"""The first word to the server: which order of steps this program follows. The first one could be attacked."""

BEGUN = b"b"
"""What the first process says: from here on a delay is the sandbox's own doing."""

WAITING = b"w"
"""What the kernel says when it is ready to be looked at."""

REFUSED = 75
"""The exit status of a fork that found it cannot be what a started kernel would be."""

REPLY = 3
"""Where a kernel on its way has the socket to the server."""

_MOUNTS = 4
"""Where the first process has the sandbox's mount namespace at the end."""

_PARENT_PATIENCE = 10.0

_BETWEEN_PATIENCE = 4.0
"""How long the process between may take. Less than the server waits for a fork, which it ends by its first process."""

_AHEAD = 2
"""How many processes are forked ahead of need: a sandbox's own kernel, and the context that is made soon after."""

_QUIET_MILLISECONDS = 50
"""How long nobody asks before the next process is forked ahead of need."""

_CLONE_NEWNS = 0x00020000
_ENTERED = (
    ("network", 0x40000000),
    ("users", 0x10000000),
    ("ipc", 0x08000000),
    ("uts", 0x04000000),
    ("cgroups", 0x02000000),
    # Only for the processes that it forks.
    ("pid", 0x20000000),
)
_PR_SET_DUMPABLE = 4
_PR_SET_KEEPCAPS = 8
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION = 0x20080522
_LAST_CAPABILITY = 63
_TO_CHANGE_USER = 1 << 6 | 1 << 7
_TO_ENTER_MOUNTS = 1 << 18 | 1 << 21
"""`CAP_SYS_CHROOT` and `CAP_SYS_ADMIN`, which the filter needs, too."""
_LAST_DESCRIPTOR = 0xFFFFFFFF
_MAXIMUM_DESCRIPTORS = 64


class Descriptors(NamedTuple):
    """What comes with a request, in this order; after these, `cgroup.procs` of cgroups."""

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


class _CapabilitySets(ctypes.Structure):
    _fields_ = [
        (f"{name}_{half}", ctypes.c_uint32)
        for half in ("low", "high")
        for name in ("effective", "permitted", "inheritable")
    ]


_libc = ctypes.CDLL(None, use_errno=True)

# Looked up now: a symbol that is first used in a sandbox would be looked up there.
_setns = _libc.setns
_setns.argtypes = [ctypes.c_int, ctypes.c_int]
_prctl = _libc.prctl
_prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
_capset = _libc.capset
_capset.argtypes = [ctypes.POINTER(_CapabilityHeader), ctypes.POINTER(_CapabilitySets)]
_close_range = _libc.close_range
_close_range.argtypes = [ctypes.c_uint, ctypes.c_uint, ctypes.c_int]

# Without what Python does around a fork, which a process that only forks again and ends does not need.
_bare_fork = ctypes.PyDLL(None).fork

_header = _CapabilityHeader(_CAPABILITY_VERSION, 0)


def _sets(effective: int, permitted: int) -> _CapabilitySets:
    # All that are needed here have low numbers.
    return _CapabilitySets(effective_low=effective, permitted_low=permitted)


_NO_CAPABILITIES = _sets(0, 0)
_ONLY_PERMITTED = _sets(0, _TO_CHANGE_USER | _TO_ENTER_MOUNTS)
_CHANGING_USER = _sets(_TO_CHANGE_USER, _TO_CHANGE_USER | _TO_ENTER_MOUNTS)
_ENTERING_MOUNTS = _sets(_TO_ENTER_MOUNTS, _TO_ENTER_MOUNTS)


def _must(answer: int) -> None:
    """A failed step is the end of the process, without an exception that somebody could look at."""
    if answer < 0:
        os._exit(REFUSED)


def main() -> None:
    control = socket.socket(fileno=os.dup(0))
    shell = prepare(sys.argv[1:])
    places = _places()
    if len(os.listdir("/proc/self/task")) != 1:
        sys.exit("a module that was asked for has started a thread")
    # For good: a fork takes signals when it is a kernel, and not before.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    # Forks are waited for by nobody, and those that they leave behind are ours, not the server's.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    _must(_prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
    share()
    ahead = [_forked_ahead(shell, places)]
    control.send(READY)
    asked = select.poll()
    asked.register(control, select.POLLIN)
    while True:
        while len(ahead) < _AHEAD and not asked.poll(_QUIET_MILLISECONDS):
            # Not earlier: the kernel that was just asked for needs the processor, too.
            ahead.append(_forked_ahead(shell, places))
        data, received, _, _ = socket.recv_fds(control, 1, _MAXIMUM_DESCRIPTORS)
        if not data:
            return
        if len(received) >= len(Descriptors._fields):
            fork = ahead.pop() if ahead else _forked_ahead(shell, places)
            # One that cannot be told has been killed. Whoever asked sees the end of the reply.
            with contextlib.suppress(OSError):
                socket.send_fds(fork, [data], received)
            fork.close()
        for descriptor in received:
            os.close(descriptor)


def _forked_ahead(shell: ZMQInteractiveShell, places: dict[str, int]) -> socket.socket:
    """A process that waits at the other end for the next request, so that nobody has to wait for its fork."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if _bare_fork() == 0:
        _outside(shell, places, theirs)
    theirs.close()
    return ours


def _outside(shell: ZMQInteractiveShell, places: dict[str, int], requests: socket.socket) -> NoReturn:
    """The process that has rights: it gives them up out of the sandbox's sight."""
    try:
        # First of all the socket that all sandboxes' requests come through.
        _close_all_but([requests.fileno()])
        # What is received must not get the numbers that a library may write a warning to.
        for number in range(REPLY):
            os.dup2(requests.fileno(), number)
        _must(_prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0))
        # A finalizer that fails would print where it was.
        gc.disable()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # For the kernel's fork: what this writes to is not to be copied when somebody waits.
        ctypes.pythonapi.PyOS_BeforeFork()
        data, received, _, _ = socket.recv_fds(requests, 1, _MAXIMUM_DESCRIPTORS)
        if not data:
            # The zygote has ended.
            os._exit(0)
        requests.close()
        descriptors = Descriptors(*received[: len(Descriptors._fields)])
        plan, text = _read_plan(descriptors.plan)
        os.write(descriptors.reply, BEGUN)
        _become(plan, descriptors, received[len(Descriptors._fields) :])
        # From here on it has no right that the sandbox's user does not have.
        between = _bare_fork()
        if between == 0:
            _between(shell, places, text)
        _must(_close_range(0, _LAST_DESCRIPTOR, 0))
        _see_out(between)
    finally:
        os._exit(REFUSED)


def _see_out(process: int) -> None:
    """Waits for a child, and ends one that somebody in the sandbox has stopped: nobody else would."""
    ended, _, _ = select.select([os.pidfd_open(process)], [], [], _BETWEEN_PATIENCE)
    if not ended:
        os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def _between(shell: ZMQInteractiveShell, places: dict[str, int], text: bytes) -> NoReturn:
    """The process whose end makes the sandbox's first one the kernel's parent. An end outside would make it ours."""
    try:
        if _bare_fork() == 0:
            ctypes.pythonapi.PyOS_AfterFork_Child()
            _inside(shell, places, text)
    finally:
        os._exit(REFUSED)


def _inside(shell: ZMQInteractiveShell, places: dict[str, int], text: bytes) -> NoReturn:
    """The life of a kernel."""
    try:
        os.setsid()
        wanted = json.loads(text)
        os.chdir(wanted["directory"])
        _check_places(places)
        _take_environment(shell, wanted["environment"])
        _wait_for_parent()
        reply = socket.socket(fileno=REPLY)
        reply.send(WAITING)
        # The server looks at this process now. An end without a word means that it did not like what it saw.
        if not reply.recv(1):
            os._exit(REFUSED)
        reply.close()
        kernel = socket.socket(fileno=os.dup(0))
        sys.argv = [os.path.join(os.path.dirname(__file__), "__main__.py"), "--socket-fd", "0"]
        gc.enable()
        # Until now nobody in the sandbox could change what the server looks at.
        _must(_prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0))
    except BaseException:
        os._exit(REFUSED)
    status = 1
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        status = serve(kernel)
    except BaseException:
        # A process of the sandbox like any other, so it may say why it ends.
        traceback.print_exc()
    finally:
        os._exit(status)


def _read_plan(descriptor: int) -> tuple[dict[str, Any], bytes]:
    """What the server says, and what the sandbox says, which nobody with rights reads."""
    text = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
    own, _, sandboxes = text.partition(b"\n")
    return json.loads(own), sandboxes


def _wait_for_parent() -> None:
    """Until the process between has ended and the sandbox's first one is the parent, as the server wants to see it."""
    deadline = time.monotonic() + _PARENT_PATIENCE
    while os.getppid() != 1:
        if time.monotonic() > deadline:
            raise Refusal("the process between does not end")
        # It gives its memory back meanwhile, which is a millisecond or two; a longer pause would be added to it.
        time.sleep(0.0001)


def _become(plan: dict[str, Any], descriptors: Descriptors, groups: Sequence[int]) -> None:
    """From a process of the server's to one of the sandbox's user. The order is the safety of it."""
    first = plan["first_doors"]
    filters = [_filter(bytes.fromhex(filter_)) for filter_ in plan["filters"]]
    _join(groups[:first])
    for name, kind in _ENTERED:
        _must(_setns(getattr(descriptors, name), kind))
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    _drop_capabilities(plan["capabilities"])
    # The cgroups that the sandbox's own root has opened let in only whom it is. It chose these descriptors, so they
    # are written to without any right in effect.
    _must(_capset(_header, _ONLY_PERMITTED))
    _join(groups[first:])
    _arrange(descriptors)
    os.umask(0o022)
    _must(_capset(_header, _CHANGING_USER))
    _must(_prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0))
    os.setgroups(plan["groups"])
    os.setresgid(plan["gid"], plan["gid"], plan["gid"])
    os.setresuid(plan["uid"], plan["uid"], plan["uid"])
    _must(_prctl(_PR_SET_KEEPCAPS, 0, 0, 0, 0))
    _must(_prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
    _must(_capset(_header, _ENTERING_MOUNTS))
    # Between these calls rights and the sandbox's root meet, so nothing is done between them.
    _must(_setns(_MOUNTS, _CLONE_NEWNS))
    for filter_ in filters:
        _must(_prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(filter_), 0, 0))
    _must(_capset(_header, _NO_CAPABILITIES))
    _must(_close_range(_MOUNTS, _LAST_DESCRIPTOR, 0))
    # Each change of the user has set it to what the machine says.
    _must(_prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0))


def _join(groups: Sequence[int]) -> None:
    for group in groups:
        os.write(group, b"0")


def _close_all_but(kept: Iterable[int]) -> None:
    first = 0
    for descriptor in sorted(kept):
        if first < descriptor:
            _must(_close_range(first, descriptor - 1, 0))
        first = descriptor + 1
    _must(_close_range(first, _LAST_DESCRIPTOR, 0))


def _arrange(descriptors: Descriptors) -> None:
    """The standard descriptors, the reply and the last namespace; nothing else stays open."""
    wanted = (descriptors.stdin, descriptors.stdout, descriptors.stderr, descriptors.reply, descriptors.mounts)
    # All are first moved out of the way: one of them may carry a number that another needs.
    aside = [_above(descriptor) for descriptor in wanted]
    for number, descriptor in enumerate(aside):
        os.dup2(descriptor, number, inheritable=number < REPLY)
    # Not by counting up to a limit, which may be lower than the highest number.
    _must(_close_range(len(wanted), _LAST_DESCRIPTOR, 0))


def _above(descriptor: int) -> int:
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _MAXIMUM_DESCRIPTORS * 2)


def _drop_capabilities(kept: int) -> None:
    for capability in range(_LAST_CAPABILITY + 1):
        if kept >> capability & 1:
            continue
        if _prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            # The kernel knows no more capabilities than that.
            return


def _filter(instructions: bytes) -> _Filter:
    program = ctypes.create_string_buffer(instructions, len(instructions))
    filter_ = _Filter(len(instructions) // 8, ctypes.addressof(program))
    # The address alone does not keep it.
    filter_.program = program
    return filter_


def _take_environment(shell: ZMQInteractiveShell, environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    shell.init_environment()


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
