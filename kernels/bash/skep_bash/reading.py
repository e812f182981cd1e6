"""`read` in cells that may ask for input.

The standard input of a cell is empty, and what reads it finds its end. Only the builtin `read` is replaced, by a function of the
same name that tells us its arguments, for as long as the cell runs. If it would read the cell's own standard input, it reads a pipe
instead, into which the answer of the peer is written.
"""

from __future__ import annotations

import os

LARGEST_LINE = 1 << 16
"""What a pipe takes at once; the rest of a longer answer is cut off."""

OPTIONS = "a:d:eEi:n:N:p:rst:u:"
"""The options of `read`."""

_DEFINE = b"""\
\\builtin declare -F read >/dev/null || function read {
if [[ /proc/self/fd/0 -ef %(here)s/%(empty)d ]]; then
{ \\builtin printf '%%s\\0' "I $#" "$@" >%(here)s/%(reports)d; \\builtin read "$@"; } <%(here)s/%(answers)d
\\builtin set -- "$?"; \\builtin printf 'J\\0' >%(here)s/%(reports)d; \\builtin return "$1"
else \\builtin read "$@"; fi; }
"""

_REMOVE = b"""\
if [[ "$(\\builtin declare -f read)" == *%(here)s/%(answers)d* ]]; then \\builtin unset -f read; fi
"""


class Reading:
    """What a cell that may ask reads from."""

    def __init__(self, here: bytes, reports: int) -> None:
        # A file of its own, by which the function knows that nobody has redirected its input.
        self.empty = os.memfd_create("empty", os.MFD_CLOEXEC)
        self._answers, self._writer = os.pipe()
        places = {b"here": here, b"empty": self.empty, b"answers": self._answers, b"reports": reports}
        self.define = _DEFINE % places
        self.remove = _REMOVE % places

    def answer(self, value: str | None, delimiter: bytes) -> None:
        """Let the function that waits read a line, or its end if there is none."""
        # Each question has a pipe of its own, which the function has opened before it asked: its end is the end of the answer.
        # The next one is in place before the answer: with that the function may already ask again.
        reader, writer = os.pipe()
        os.dup2(reader, self._answers, inheritable=False)
        os.close(reader)
        if value is not None:
            line = value.encode("utf-8", "replace")[: LARGEST_LINE - 1]
            os.write(self._writer, line + delimiter)
        os.close(self._writer)
        self._writer = writer


class Question:
    """A `read` that waits."""

    def __init__(self, identifier: str, arguments: list[str]) -> None:
        # Imported here, because most kernels never need it.
        import getopt

        self.identifier = identifier
        self.is_answered = False
        try:
            options = dict(getopt.getopt(arguments, OPTIONS)[0])
        except getopt.GetoptError:
            # Bash complains of it, and reads nothing.
            options = {"-t": "0"}
        self.prompt = options.get("-p", "")
        self.is_password = "-s" in options
        self.delimiter = (options.get("-d", "\n") or "\0")[0].encode("utf-8", "replace")
        # Without waiting, or from another descriptor: that is not for the peer.
        self.is_for_peer = options.get("-t") not in ("0", "0.0") and options.get("-u", "0") == "0"
