"""The classic stack: a Jupyter server with its HTTP and WebSocket between the client and ipykernel.

`execute` runs `1` in a kernel that is warm. `new` starts a kernel through the server and waits for its first result.
"""

import glob
import os
import secrets
import subprocess
import tempfile
import urllib.request
import uuid

import websocket

TIMEOUT = 60


class Server:
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="skep-bench-")
        self.token = secrets.token_hex(16)
        environment = dict(os.environ)
        for name in ("CONFIG", "DATA", "RUNTIME"):
            environment[f"JUPYTER_{name}_DIR"] = os.path.join(self.folder.name, name.lower())
        environment["JUPYTER_TOKEN"] = self.token
        command = [sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", "--ip=127.0.0.1"]
        command += ["--port=0", f"--ServerApp.root_dir={self.folder.name}"]
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        self.log = open(os.path.join(self.folder.name, "log"), "wb")
        self.process = subprocess.Popen(command, env=environment, stderr=self.log, **quiet)
        self.address = self.wait_for_address()

    def wait_for_address(self):
        pattern = os.path.join(self.folder.name, "runtime", "jpserver-*.json")
        for _ in range(TIMEOUT * 20):
            for path in glob.glob(pattern):
                try:
                    with open(path) as file:
                        address = f"127.0.0.1:{json.load(file)['port']}"
                    self.address = address
                    self.call("GET", "/api")
                    return address
                except (OSError, ValueError):
                    pass
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        with open(self.log.name) as file:
            raise RuntimeError(f"the server does not start: {file.read()[-2000:]}")

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"token {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"http://{self.address}{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
            content = response.read()
        return json.loads(content) if content else None

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.log.close()
        self.folder.cleanup()


class Kernel:
    def __init__(self, server):
        self.server = server
        self.id = server.call("POST", "/api/kernels", {"name": "python3"})["id"]
        url = f"ws://{server.address}/api/kernels/{self.id}/channels"
        header = [f"Authorization: token {server.token}"]
        self.socket = websocket.create_connection(url, timeout=TIMEOUT, header=header)

    def execute(self, code):
        request = uuid.uuid4().hex
        message = {
            "header": {"msg_id": request, "msg_type": "execute_request", "session": "", "username": "", "version": "5.3"},
            "parent_header": {},
            "metadata": {},
            "channel": "shell",
            "buffers": [],
            "content": {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False},
        }
        self.socket.send(json.dumps(message))
        idle = reply = result = False
        while not (idle and reply):
            answer = json.loads(self.socket.recv())
            if answer["parent_header"].get("msg_id") != request:
                continue
            kind = answer["msg_type"]
            reply = reply or kind == "execute_reply"
            result = result or kind == "execute_result"
            idle = idle or (kind == "status" and answer["content"]["execution_state"] == "idle")
        if not result:
            raise RuntimeError(f"{code} gave no result")

    def close(self):
        self.socket.close()
        self.server.call("DELETE", f"/api/kernels/{self.id}")


def main():
    server = Server()
    try:
        kernel = Kernel(server)
        kernel.execute("1")

        def new():
            begin = time.perf_counter()
            fresh = Kernel(server)
            fresh.execute("1")
            took = time.perf_counter() - begin
            fresh.close()
            return took

        serve({"execute": lambda: kernel.execute("1"), "new": new})
        kernel.close()
    finally:
        server.close()


main()
