"""A pseudo-terminal that the CLI runs on."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time


class Terminal:
    """The CLI on a pseudo-terminal of ours, with what it has shown."""

    def __init__(self, command, *arguments):
        start, environment = command
        self.near, far = pty.openpty()
        fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.shown = b""
        environment = {**environment, "TERM": "xterm"}
        self.process = subprocess.Popen([*start, *arguments], stdin=far, stdout=far, stderr=far, env=environment, start_new_session=True)
        os.close(far)

    def type(self, text):
        os.write(self.near, text.encode())

    def read(self, seconds):
        ready, _, _ = select.select([self.near], [], [], seconds)
        if ready:
            try:
                self.shown += os.read(self.near, 65536)
            except OSError:
                return False
        return True

    def expect(self, text, seconds=30):
        deadline = time.monotonic() + seconds
        while text.encode() not in self.shown:
            assert time.monotonic() < deadline, f"{text!r} was not shown: {self.shown!r}"
            if not self.read(0.2):
                assert text.encode() in self.shown, f"the CLI ended without showing {text!r}: {self.shown!r}"

    def end(self, seconds=20):
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"the CLI did not end: {self.shown!r}"
            self.read(0.2)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.near)
