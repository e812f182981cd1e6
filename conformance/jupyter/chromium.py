"""A page in Chromium, by the protocol of its developer tools."""

import itertools
import json
import shutil
import subprocess
import urllib.request

import websocket

from connections import TIMEOUT, wait_for

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
]


class Page:
    """One page, with a profile of its own in a folder; the browser ends with the scope."""

    def __init__(self, folder, url):
        self.numbers = itertools.count(1)
        profile = folder / "chromium"
        program = [shutil.which("chromium"), *FLAGS, f"--user-data-dir={profile}", url]
        self.process = subprocess.Popen(program, stderr=subprocess.DEVNULL)
        try:
            self.socket = websocket.create_connection(wait_for(lambda: address(profile), "Chromium has a page"), timeout=TIMEOUT, suppress_origin=True)
        except BaseException:
            self.process.kill()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        self.process.kill()
        self.process.wait(TIMEOUT)

    def call(self, method, **parameters):
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while (message := json.loads(self.socket.recv())).get("id") != number:
            pass
        assert "error" not in message, message
        return message["result"]

    def value(self, script):
        """What a script evaluates to, or nothing where it fails: pages that load have not everything yet."""
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def click(self, selector):
        where = f"(e => e && (({{x, y, width, height}}) => [x + width / 2, y + height / 2])(e.getBoundingClientRect()))(document.querySelector({json.dumps(selector)}))"
        x, y = wait_for(lambda: self.value(where), selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def shift_enter(self):
        key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "modifiers": 8}
        self.call("Input.dispatchKeyEvent", type="rawKeyDown", **key)
        self.call("Input.dispatchKeyEvent", type="keyUp", **key)


def address(profile):
    """Address of the page's WebSocket, when there is one."""
    try:
        port = (profile / "DevToolsActivePort").read_text().split()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=5) as answer:
            return next((each["webSocketDebuggerUrl"] for each in json.load(answer) if each["type"] == "page"), None)
    except (OSError, IndexError):
        return None
