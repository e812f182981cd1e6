# In a kernel: the next processes that it offers as its copies are whoever the attack wants.
import json
import os
import socket
import struct
import subprocess
import sys
import time

import skep_kernel.server
from skep_kernel import PROTOCOL_VERSION

_body = json.dumps({"type": "hello", "protocol": PROTOCOL_VERSION, "forks": False}).encode()
GREETING = struct.pack(">I", len(_body)) + _body
_GREET = f"import os, time; os.write(0, {GREETING!r}); open('/tmp/'+os.environ.get('NAME','root'), 'w').write(str(os.getpid())); time.sleep(600)"


def _orphan(work):
    """Runs something in a process that leads its session and has no parent in the sandbox."""
    middle = os.fork()
    if middle:
        os.waitpid(middle, 0)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    try:
        os.setsid()
    except OSError:
        pass
    # Whoever is looked at while the process between still ends is no orphan yet, and would be refused for that.
    end = time.monotonic() + 30
    while os.getppid() != 1 and time.monotonic() < end:
        time.sleep(0.001)
    try:
        work()
        time.sleep(600)
    finally:
        os._exit(1)


def _note(name):
    with open(f"/tmp/{name}", "w") as file:
        file.write(str(os.getpid()))


def offer_itself(descriptor):
    _note("itself")
    os.write(descriptor, GREETING)


def offer_child(descriptor):
    if os.fork() == 0:
        os.setsid()
        _note("child")
        os.write(descriptor, GREETING)
        time.sleep(600)
        os._exit(1)


def offer_root(descriptor):
    command = ["sudo", "setsid", "--fork", sys.executable, "-c", _GREET]
    subprocess.run(command, stdin=descriptor, check=True)


def offer_stranger(descriptor):
    with socket.socket(socket.AF_UNIX) as channel:
        channel.connect("\0stranger")
        socket.send_fds(channel, [b"x"], [descriptor])
        channel.recv(1)


def offer_own(descriptor):
    _orphan(lambda: (_note("own"), os.write(descriptor, GREETING)))


def offer(name):
    """From now on this is what the kernel does when it is to make a copy."""

    def make_copy(server, descriptor, exit_now):
        globals()[f"offer_{name}"](descriptor)
        return False

    skep_kernel.server.make_copy = make_copy


def wait_for_a_descriptor():
    """As another context: a process of this one greets in the name of the first."""

    def work():
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("\0stranger")
            listener.listen()
            _note("stranger")
            channel, _ = listener.accept()
            _, (descriptor, *_), _, _ = socket.recv_fds(channel, 1, 1)
            os.write(descriptor, GREETING)
            channel.send(b"x")
            time.sleep(600)

    _orphan(work)
