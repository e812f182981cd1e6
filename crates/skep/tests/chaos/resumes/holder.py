"""Holds one of each thing that a process can have, and tells what became of them for every line of its input."""

import fcntl
import json
import mmap
import os
import socket
import sys
import threading
import time


def file(path, text):
    handle = open(path, "w+")
    handle.write(text)
    handle.flush()
    return handle


def read(handle):
    handle.seek(0)
    return handle.read()


opened = file("/home/user/opened", "open")
deleted = file("/tmp/deleted", "deleted")
os.unlink("/tmp/deleted")
shared = file("/dev/shm/held", "shared")
flocked = file("/tmp/flocked", "")
fcntl.flock(flocked, fcntl.LOCK_EX)
ranged = file("/tmp/ranged", "")
fcntl.lockf(ranged, fcntl.LOCK_EX)
ends = os.pipe()
mapped = mmap.mmap(-1, 4096)
mapped[:6] = b"mapped"

listener = socket.create_server(("0.0.0.0", 8123))
private = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(private.getsockname())
server, _ = private.accept()
client.settimeout(5)

child = os.fork()
if child == 0:
    while True:
        time.sleep(600)


def greet():
    while True:
        connection, _ = listener.accept()
        connection.sendall(b"hello")
        connection.close()


threading.Thread(target=greet, daemon=True).start()


def through_the_pipe():
    data = os.read(ends[0], 64)
    os.write(ends[1], data)
    return data.decode()


def tcp():
    try:
        server.sendall(b"x")
        return "alive" if client.recv(1) else "cut"
    except OSError:
        return "cut"


os.write(ends[1], b"in the pipe")
for line in sys.stdin:
    state = {
        "line": line.strip(),
        "opened": read(opened),
        "deleted": read(deleted),
        "shared": read(shared),
        "pipe": through_the_pipe(),
        "mapped": mapped[:6].decode(),
        "environment": os.environ["COLOUR"],
        "child": os.waitpid(child, os.WNOHANG) == (0, 0),
        "tcp": tcp(),
        "monotonic": time.monotonic(),
        "boottime": time.clock_gettime(time.CLOCK_BOOTTIME),
        "wall": time.time(),
    }
    print(json.dumps(state), flush=True)
