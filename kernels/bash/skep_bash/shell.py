"""The bash process, and how it is told what to run.

Bash is interactive, because only then an interrupt ends the cell and not the shell. Its commands come
over a pipe that is its standard input; each is one line of ours, which reads a *script* out of a file in
memory (`source`, with the standard input of the script being empty) and then reports its exit status over
another pipe. The shell opens both by their path below `/proc/<our pid>/fd`, so that it holds no descriptor
that user code could close, and its children inherit none.

Three reports are made: that the script begins, its status, both on the same line, and, on a line of its own,
that bash waits for the next. When bash gives up a line, as after an interrupt, the last is all there is.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

from .reading import Reading
from .streams import unread

BASH = "/bin/bash"

# Before the first script: no prompts, and nothing else that only helps a person at a terminal.
_PREPARE = (
    b"PS1= PS2= PS0= PROMPT_COMMAND=PS1=; \\builtin set +o history +H; "
    b"\\builtin unset -v HISTFILE MAILCHECK; \\builtin shopt -u checkwinsize\n"
)


class ShellEnded(Exception):
    """The bash process is no more."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status
        """As `os.waitstatus_to_exitcode` has it: negative for signals."""


class Report:
    """How a script ended."""

    def __init__(self, status: int, flags: str, options: str, given_up: bool, has_begun: bool) -> None:
        self.status = status
        self.flags = flags
        """The shell's `$-`."""
        self.options = options
        """The shell's `$BASHOPTS`."""
        self.given_up = given_up
        """Bash did not come to the end of the line: an interrupt, or an error that ends a line."""
        self.has_begun = has_begun
        """Bash came to the script at all. An interrupt may have made it throw away what it had read, but not run."""


class Shell:
    """One bash."""

    def __init__(self, output: int, errors: int) -> None:
        self._script = os.memfd_create("cell", os.MFD_CLOEXEC)
        self.reports, self._report_writer = os.pipe()
        os.set_blocking(self.reports, False)
        commands, self._commands = os.pipe()
        os.set_blocking(self._commands, False)
        self.pid = _start(commands, output, errors)
        os.close(commands)
        self._here = f"/proc/{os.getpid()}/fd".encode()
        self._reading: Reading | None = None
        self._input = b"/dev/null"
        self._arguments_left = 0
        self._arguments: list[str] = []
        self.reads: list[list[str] | None] = []
        """Arguments of each `read` that asks, in order, and None for each that asks no more."""
        self._partial = b""
        self._number = 0
        self._has_begun = False
        self._first: Report | None = None
        self._last: Report | None = None
        self.saved: list[bytes] = []
        """What the script of this moment has written with `save`."""

    def begin(self) -> None:
        """Prepare a new bash; a report comes when it is ready."""
        self._number += 1
        self._command(_PREPARE + self._report_line())

    def submit(self, script: bytes) -> None:
        """Start a script. The one before must have been reported."""
        os.ftruncate(self._script, 0)
        written = 0
        while written < len(script):
            written += os.pwrite(self._script, script[written:], written)
        self._number += 1
        self._first = self._last = None
        self._has_begun = False
        self.saved = []
        begin = b"\\builtin printf '%%s\\0' '0 %d 0 . .' >%s/%d; " % (self._number, self._here, self._report_writer)
        line = begin + b"\\builtin . %s/%d <%s; " % (self._here, self._script, self._input)
        # In one write and short enough not to block: bash reads it when it has nothing else to do.
        self._command(line + self._report_line(b"1") + self._report_line())

    def let_read(self) -> bytes:
        """From now on `read` asks; returns the script that makes it so."""
        if self._reading is None:
            self._reading = Reading(self._here, self._report_writer)
        self._input = b"%s/%d" % (self._here, self._reading.empty)
        return self._reading.define

    def end_reading(self) -> bytes:
        """The other way round."""
        self._input = b"/dev/null"
        self.reads = []
        assert self._reading is not None
        return self._reading.remove

    def answer(self, value: str | None, delimiter: bytes) -> None:
        """Give the `read` that waits its line, or the end."""
        assert self._reading is not None
        self._reading.answer(value, delimiter)

    def _command(self, line: bytes) -> None:
        # A bash that has ended by now, in a start file for example, is noticed by whoever waits for the report,
        # with its status and its last words.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._commands, line)

    def ask_again(self) -> None:
        """Ask for a second report once more: an interrupt may have made bash throw away the line."""
        try:
            os.write(self._commands, self._report_line())
        except BlockingIOError:
            # Bash has not read the last few hundred questions either.
            return

    def save(self, names: list[str]) -> bytes:
        """A script that writes down what these variables are, as commands that make them so again."""
        one = b"\\builtin printf 'S '; \\builtin declare -p %s 2>/dev/null; \\builtin printf '\\0'; "
        lines = b"".join(one % name.encode() for name in names)
        return b"{ %s} >%s/%d\n" % (lines, self._here, self._report_writer)

    def tell(self, command: bytes) -> bytes:
        """A script that writes down what a command prints."""
        return b"{ \\builtin printf 'S '; %s; \\builtin printf '\\0'; } >%s/%d\n" % (command, self._here, self._report_writer)

    def _report_line(self, which: bytes = b"2") -> bytes:
        # What the script did to tracing and prompts is undone until the next one, and not shown.
        return (
            b"{ \\builtin printf '%%s\\0' \"%s %d $? ${-:-.} $BASHOPTS\" >%s/%d; "
            b"\\builtin set +xv; PS1= PS2= PS0= PROMPT_COMMAND=PS1=; } 2>/dev/null\n"
        ) % (which, self._number, self._here, self._report_writer)

    def take_reports(self) -> None:
        """Read what has been reported."""
        try:
            self._partial += os.read(self.reports, 1 << 20)
        except BlockingIOError:
            return
        *records, self._partial = self._partial.split(b"\0")
        for record in records:
            self._take(record)

    def _take(self, record: bytes) -> None:
        if self._arguments_left:
            self._take_argument(record)
            return
        if record == b"J":
            self.reads.append(None)
            return
        if record.startswith(b"I ") and record[2:].isdigit():
            self._arguments = []
            self._arguments_left = int(record[2:])
            if not self._arguments_left:
                self.reads.append([])
            return
        if record.startswith(b"S "):
            self.saved.append(record[2:])
            return
        fields = record.decode("utf-8", "replace").split(" ")
        if len(fields) != 5 or not (fields[1].isdecimal() and fields[2].isdecimal()):
            # User code wrote this; it harms nobody else.
            return
        which, number, status, flags, options = fields
        if int(number) != self._number:
            return
        report = Report(int(status), flags, options, which != "1", self._has_begun)
        if which == "0":
            self._has_begun = True
        elif which == "1":
            self._first = report
        elif self._last is None:
            # Asked twice, bash answers twice, and only the first answer is about the script.
            self._last = report

    def _take_argument(self, record: bytes) -> None:
        self._arguments.append(record.decode("utf-8", "replace"))
        self._arguments_left -= 1
        if not self._arguments_left:
            self.reads.append(self._arguments)

    def report(self) -> Report | None:
        """How the script of this moment ended, once bash waits for the next."""
        if self._last is None:
            return None
        return self._first or self._last

    def waits_in_vain(self) -> bool:
        """Bash waits for a command and has none. During a script its standard input is another."""
        try:
            with open(f"/proc/{self.pid}/stat", "rb") as file:
                state = file.read().rpartition(b")")[2].split()[0]
            reads_commands = os.path.samestat(os.stat(f"/proc/{self.pid}/fd/0"), os.fstat(self._commands))
        except OSError:
            return False
        return state == b"S" and reads_commands and unread(self._commands) == 0

    def end_of_commands(self) -> None:
        """Let bash end, as Ctrl-D would."""
        os.close(self._commands)

    def foreground(self) -> list[int]:
        """Processes below the shell that an interrupt is meant for. Bash lets those in the background ignore it."""
        parents = _parents()
        family = {self.pid}
        while grown := {pid for pid, parent in parents.items() if parent in family} - family:
            family |= grown
        return [pid for pid in family - {self.pid} if not _ignores_interrupts(pid)]

    def interrupt(self, to_children: int) -> None:
        """Interrupt bash, and send its children in the foreground a signal."""
        # Bash first: it must know of the interrupt when it learns how its child ended.
        _signal(self.pid, signal.SIGINT)
        for pid in self.foreground():
            _signal(pid, to_children)

    def kill(self) -> None:
        """End bash and what it runs in the foreground."""
        for pid in [*self.foreground(), self.pid]:
            _signal(pid, signal.SIGKILL)

    def check(self) -> None:
        """Raise if bash has ended."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            raise ShellEnded(os.waitstatus_to_exitcode(status))

    def wait(self, seconds: float) -> bool:
        """Whether bash ended within this time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                self.check()
            except (ShellEnded, ChildProcessError):
                return True
            time.sleep(0.005)
        return False


def _start(commands: int, output: int, errors: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        _die_with_parent()
        for number, descriptor in enumerate((commands, output, errors)):
            os.dup2(descriptor, number)
        # Python ignores these, and what a process ignores its children ignore too.
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(ignored, signal.SIG_DFL)
        os.execv(BASH, ["bash", "--noediting", "+m", "-i"])
    except BaseException as error:
        os.write(2, f"cannot start bash: {error}\n".encode())
    os._exit(127)


def _die_with_parent() -> None:
    """User code can kill us, its shell's parent; a shell that nobody hears shall not go on."""
    # Imported here so that only the process that becomes bash pays for it, and not through `ctypes`, which takes five
    # times as long and is all that there is between a new context and its shell.
    import _ctypes

    prctl = _ctypes.dlsym(_ctypes.dlopen(None, os.RTLD_NOW), "prctl")
    set_parent_death_signal = 1
    _ctypes.call_cdeclfunction(prctl, (set_parent_death_signal, int(signal.SIGKILL)))


def _parents() -> dict[int, int]:
    """Every process and its parent."""
    parents = {}
    for entry in os.listdir("/proc"):
        if not entry.isdecimal():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                # The name stands in parentheses and may contain anything.
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        parents[int(entry)] = int(fields[1])
    return parents


def _ignores_interrupts(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/status") as file:
            for line in file:
                if line.startswith("SigIgn:"):
                    return bool(int(line.split()[1], 16) >> (signal.SIGINT - 1) & 1)
    except OSError:
        pass
    return True


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
