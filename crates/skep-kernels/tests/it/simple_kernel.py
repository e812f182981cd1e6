"""A kernel with nothing but Python's own library: it speaks the protocol and calls `exec`."""

import json
import os
import signal
import socket
import struct
import sys
import time

peer = socket.socket(fileno=os.dup(0))
mode = sys.argv[1]
sys.stdout.write("not heard by anybody\n")


def send(**message):
    body = json.dumps(message).encode()
    peer.sendall(struct.pack(">I", len(body)) + body)


def receive(length):
    data = b""
    while len(data) < length:
        piece, descriptors, _, _ = socket.recv_fds(peer, length - len(data), 1)
        sockets.extend(descriptors)
        if not piece:
            sys.exit(0)
        data += piece
    return data


def on_idle(number, frame):
    if running:
        raise KeyboardInterrupt


def fork(parent):
    """A copy that stands still, or something else that claims to be one."""
    global peer
    copy = socket.socket(fileno=sockets.pop())
    if mode == "forks" and names.get("refusal"):
        send(type="reply", parent=parent, status="error", ename="CannotFork", evalue=names["refusal"])
    elif mode == "lies":
        kernel, peer = peer, copy
        send(type="hello", protocol=1, pid=1, forks=True)
        peer = kernel
        names["copy"] = copy
    elif mode == "forks" and os.fork() == 0:
        if os.fork():
            os._exit(0)
        os.setsid()
        peer = copy
        send(type="hello", protocol=1, pid=1, forks=True)
    elif mode == "forks":
        os.wait()
        send(type="reply", parent=parent, status="ok")


running = False
sockets = []
count = 0
names = {"peer": peer, "os": os, "time": time, "signal": signal}
if mode == "broken":
    sys.exit("there is no such module")
if mode == "old":
    send(type="hello", protocol=0)
    time.sleep(1000)
signal.signal(signal.SIGINT, on_idle)
send(type="hello", protocol=1, forks=mode in ("forks", "lies", "silent"))
while True:
    request = json.loads(receive(*struct.unpack(">I", receive(4))))
    parent = request["id"]
    if request["type"] == "fork":
        fork(parent)
        continue
    if request["type"] != "execute":
        send(type="reply", parent=parent, status="ok")
        continue
    count += 1
    send(type="status", parent=parent, state="busy")
    send(type="execute_input", parent=parent, execution_count=count)
    names["say"] = lambda text: send(type="stream", parent=parent, name="stdout", time=1, text=text)
    names["env"] = request["env"]
    status = "ok"
    try:
        running = True
        exec(request["code"], names)
        running = False
    except BaseException as error:
        running = False
        status = "error"
        kind = "interrupted" if isinstance(error, KeyboardInterrupt) else "runtime"
        name = type(error).__name__
        send(type="error", parent=parent, kind=kind, ename=name, evalue=str(error), traceback=[])
    send(type="reply", parent=parent, status=status)
    send(type="status", parent=parent, state="idle")
