"""A file API as one would write it without thinking of links, pipes and races.

It answers the same requests as the agent's, so that the attacks on that one can be tried where
nothing holds them.
"""

import http.server
import json
import os
import sys
import urllib.parse

SECRET = open("/etc/hostname")


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
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.path.startswith("/files?"):
            with open(self.path_asked_for(), "wb") as file:
                file.write(body)
        else:
            remove(json.loads(body)["path"])
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def remove(path):
    """By name, at every step: what a name means may change in between."""
    if os.path.isdir(path) and not os.path.islink(path):
        for name in os.listdir(path):
            remove(os.path.join(path, name))
        os.rmdir(path)
    else:
        os.unlink(path)


# One at a time: a reader that waits for ever makes everybody wait.
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Careless).serve_forever()
