"""A file API as one would write it without thinking of links, pipes and races.

It answers the same requests as the agent's, so that the attacks on that one can be tried where
nothing holds them. Where it thinks of links it looks first and acts later.
"""

import base64
import ctypes
import http.server
import json
import os
import struct
import subprocess
import sys
import tempfile
import urllib.parse

SECRET = open("/etc/hostname")
# What only this process can reach, as the agent has its cgroups.
HELD = os.open(tempfile.mkdtemp(), os.O_RDONLY | os.O_DIRECTORY)

libc = ctypes.CDLL(None)


class Careless(http.server.BaseHTTPRequestHandler):
    def path_asked_for(self):
        query = urllib.parse.urlsplit(self.path).query
        return urllib.parse.parse_qs(query)["path"][0]

    def do_GET(self):
        with open(self.path_asked_for(), "rb") as file:
            self.send_response(200)
            self.end_headers()
            while piece := file.read(65536):
                self.wfile.write(piece)

    def do_POST(self):
        length = int(self.headers["content-length"])
        if self.path.startswith("/files?"):
            self.upload(length)
            answer = b"[]"
        elif self.path == "/process.Process/Start":
            answer = start(json.loads(self.rfile.read(length)[5:])["process"])
        else:
            call = CALLS[self.path.rpartition("/")[2]]
            answer = json.dumps(call(json.loads(self.rfile.read(length))) or {}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(answer)

    def upload(self, length):
        path = self.path_asked_for()
        with open(path, "wb") as file:
            while length > 0 and (piece := self.rfile.read1(min(length, 65536))):
                file.write(piece)
                file.flush()
                length -= len(piece)
        if length > 0:
            # Half of a file is none.
            os.unlink(path)

    def log_message(self, *_):
        pass


def remove(request):
    remove_tree(request["path"])


def remove_tree(path):
    """By name, at every step: what a name means may change in between."""
    if os.path.isdir(path) and not os.path.islink(path):
        for name in os.listdir(path):
            remove_tree(os.path.join(path, name))
        os.rmdir(path)
    else:
        os.unlink(path)


def make_dir(request):
    os.makedirs(request["path"])


def make_dir_after_a_look(request):
    """Refuses to go through a link, and asks for the new owner before it goes through what by then may be one."""
    if os.path.islink(os.path.dirname(request["path"])):
        raise PermissionError(request["path"])
    owner = subprocess.run(["id", "-u", "root"], capture_output=True, check=True).stdout
    os.mkdir(request["path"])
    os.chown(request["path"], int(owner), -1)


def move(request):
    os.rename(request["source"], request["destination"])


def stat(request):
    return {"entry": {"size": os.lstat(request["path"]).st_size}}


def list_dir(request):
    entries = []
    for name in os.listdir(request["path"]):
        path = os.path.join(request["path"], name)
        target = os.readlink(path) if os.path.islink(path) else ""
        entries.append({"name": name, "symlinkTarget": target})
    return {"entries": entries}


def create_watcher(request):
    watch = libc.inotify_add_watch(libc.inotify_init(), request["path"].encode(), 0x100)
    if watch < 0:
        raise OSError(request["path"])
    return {"watcherId": str(watch)}


def start(process):
    """Opens what it is told to stand for nothing, and enters a folder with all of its descriptors."""
    nothing = os.open("/dev/null", os.O_RDONLY)
    try:
        command = [process["cmd"], *process["args"]]
        ran = subprocess.run(command, cwd=process["cwd"], stdin=nothing, capture_output=True, check=True)
    finally:
        os.close(nothing)
    event = {"event": {"data": {"stdout": base64.b64encode(ran.stdout).decode()}}}
    message = json.dumps(event).encode()
    return struct.pack(">BI", 0, len(message)) + message


CALLS = {
    "Remove": remove,
    "MakeDir": make_dir,
    "MakeDirAfterALook": make_dir_after_a_look,
    "Move": move,
    "Stat": stat,
    "ListDir": list_dir,
    "CreateWatcher": create_watcher,
}

# One at a time: a reader that waits for ever makes everybody wait.
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Careless).serve_forever()
