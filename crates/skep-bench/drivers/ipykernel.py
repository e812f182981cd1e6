"""ipykernel with nothing between: a client of raw ZeroMQ over Unix sockets.

`execute` runs `1` in a kernel that is warm. `start` starts a kernel and waits for its first result.
"""

import os
import subprocess
import tempfile

import zmq
from jupyter_client.connect import write_connection_file
from jupyter_client.session import Session

TIMEOUT_MS = 60_000


class Kernel:
    def __init__(self, context):
        self.folder = tempfile.TemporaryDirectory(prefix="skep-bench-")
        key = os.urandom(16).hex().encode()
        path, info = write_connection_file(
            os.path.join(self.folder.name, "connection.json"),
            ip=os.path.join(self.folder.name, "socket"),
            transport="ipc",
            key=key,
        )
        self.session = Session(key=key)
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", path]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.shell = self.connect(context, zmq.DEALER, info["shell_port"])
        self.iopub = self.connect(context, zmq.SUB, info["iopub_port"])
        self.iopub.setsockopt(zmq.SUBSCRIBE, b"")
        self.poller = zmq.Poller()
        self.poller.register(self.shell, zmq.POLLIN)
        self.poller.register(self.iopub, zmq.POLLIN)

    def connect(self, context, kind, port):
        socket = context.socket(kind)
        socket.linger = 0
        socket.connect(f"ipc://{self.folder.name}/socket-{port}")
        return socket

    def wait_until_heard(self):
        """A subscription takes a moment: what is published before is not heard."""
        for _ in range(600):
            self.session.send(self.shell, "kernel_info_request", {})
            if self.iopub.poll(100):
                self.drain()
                return
        raise RuntimeError("the kernel is silent")

    def drain(self):
        while self.iopub.poll(100):
            self.iopub.recv_multipart()
        while self.shell.poll(0):
            self.shell.recv_multipart()

    def execute(self, code):
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
        request = self.session.send(self.shell, "execute_request", content)["header"]["msg_id"]
        idle = reply = result = False
        while not (idle and reply):
            ready = dict(self.poller.poll(TIMEOUT_MS))
            if not ready:
                raise RuntimeError("the kernel is silent")
            for socket in ready:
                _, message = self.session.recv(socket, copy=True)
                if message["parent_header"].get("msg_id") != request:
                    continue
                kind, content = message["msg_type"], message["content"]
                reply = reply or kind == "execute_reply"
                result = result or kind == "execute_result"
                idle = idle or (kind == "status" and content["execution_state"] == "idle")
        return result

    def close(self):
        self.process.kill()
        self.process.wait()
        self.shell.close()
        self.iopub.close()
        self.folder.cleanup()


def main():
    context = zmq.Context()
    kernel = Kernel(context)
    kernel.wait_until_heard()

    def execute():
        if not kernel.execute("1"):
            raise RuntimeError("1 gave no result")

    def start():
        begin = time.perf_counter()
        fresh = Kernel(context)
        # Nothing is known of the kernel before it listens, so the first request waits in the socket. Its result
        # may be published before we are subscribed; the reply comes in any case.
        request = fresh.session.send(fresh.shell, "execute_request", {"code": "1", "silent": False})
        while True:
            if not fresh.shell.poll(TIMEOUT_MS):
                raise RuntimeError("the kernel is silent")
            _, message = fresh.session.recv(fresh.shell, copy=True)
            if message["parent_header"].get("msg_id") == request["header"]["msg_id"]:
                break
        took = time.perf_counter() - begin
        fresh.close()
        return took

    try:
        execute()
        serve({"execute": execute, "start": start})
    finally:
        kernel.close()


main()
